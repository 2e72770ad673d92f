//! `dispatch!`: runs a generic function for the Rust type of a dtype.

/// Runs a generic function for the Rust type of `dtype`: `dispatch!(dtype, T => f::<T>(x))`.
///
/// The body is compiled for the listed dtypes; any other dtype evaluates `else`. `FLOATS`, `INTS`,
/// `NUMBERS`, `COMPLEX`, `ALL_NUMBERS` (both), `COMPUTED` (and bools) and `PLAIN` (all that are plain bytes) stand for
/// lists, and `SIZES` for one dtype of each size.
#[macro_export]
macro_rules! dispatch {
    (@arm F16) => { $crate::half::f16 };
    (@arm BF16) => { $crate::half::bf16 };
    (@arm F32) => { f32 };
    (@arm F64) => { f64 };
    (@arm I8) => { i8 };
    (@arm I16) => { i16 };
    (@arm I32) => { i32 };
    (@arm I64) => { i64 };
    (@arm U8) => { u8 };
    (@arm U16) => { u16 };
    (@arm U32) => { u32 };
    (@arm U64) => { u64 };
    (@arm C64) => { $crate::num_complex::Complex<f32> };
    (@arm C128) => { $crate::num_complex::Complex<f64> };
    (@arm Bool) => { bool };
    (@arm QI8) => { $crate::Quantized<i8> };
    (@arm QU8) => { $crate::Quantized<u8> };
    (@arm QI16) => { $crate::Quantized<i16> };
    (@arm QU16) => { $crate::Quantized<u16> };
    (@arm QI32) => { $crate::Quantized<i32> };
    ($dtype:expr, FLOATS, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [F16 BF16 F32 F64], $T => $body, else $other)
    };
    ($dtype:expr, INTS, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [I8 I16 I32 I64 U8 U16 U32 U64], $T => $body, else $other)
    };
    ($dtype:expr, NUMBERS, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64], $T => $body, else $other)
    };
    ($dtype:expr, ALL_NUMBERS, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 C64 C128], $T => $body, else $other)
    };
    ($dtype:expr, COMPLEX, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [C64 C128], $T => $body, else $other)
    };
    ($dtype:expr, COMPUTED, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 C64 C128 Bool], $T => $body, else $other)
    };
    ($dtype:expr, PLAIN, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 C64 C128 Bool QI8 QU8 QI16 QU16 QI32], $T => $body, else $other)
    };
    ($dtype:expr, SIZES, $T:ident => $body:expr, else $other:expr) => {
        $crate::dispatch!($dtype, [U8 U16 U32 U64 C128], $T => $body, else $other)
    };
    ($dtype:expr, [$($variant:ident)*], $T:ident => $body:expr, else $other:expr) => {
        match $dtype {
            $($crate::DType::$variant => { type $T = $crate::dispatch!(@arm $variant); $body })*
            _ => $other,
        }
    };
}
