//! Element types of tensors, and the corresponding Rust types.
//!
//! ```
//! use thalweg_tensor::{DType, Element};
//!
//! assert_eq!(f32::DTYPE, DType::F32);
//! assert_eq!(DType::BF16.size(), 2);
//! assert_eq!(DType::from_name("i64"), Some(DType::I64));
//! ```

use std::fmt;

use half::{bf16, f16};
use num_complex::Complex;

/// The type of a tensor's elements. Names and meaning are TensorFlow's.
///
/// A dtype is the type of a tensor's elements. An op accepts a set of dtypes, mostly one of the
/// lists here.
///
/// ```
/// use thalweg_tensor::DType;
///
/// assert!(DType::F32.is_float());
/// assert!(DType::NUMBERS.contains(&DType::U8));
/// assert_eq!(DType::F64.to_string(), "f64");
/// // Four numbers of this dtype take this many bytes.
/// assert_eq!(4 * DType::F64.size(), 32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// IEEE half precision, 2 bytes.
    F16,
    /// The upper half of an `f32`, 2 bytes.
    BF16,
    /// IEEE single precision, 4 bytes.
    F32,
    /// IEEE double precision, 8 bytes.
    F64,
    /// Signed, 1 byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// Unsigned, 1 byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// A complex number of two `f32`, 8 bytes.
    C64,
    /// A complex number of two `f64`, 16 bytes.
    C128,
    /// One byte, 0 or 1.
    Bool,
    /// Signed steps of a quantization, 1 byte. Quantized elements are moved, and computed by few ops.
    QI8,
    /// Unsigned steps of a quantization, 1 byte.
    QU8,
    /// Signed steps of a quantization, 2 bytes.
    QI16,
    /// Unsigned steps of a quantization, 2 bytes.
    QU16,
    /// Signed steps of a quantization, 4 bytes.
    QI32,
    /// Byte strings of any length; elements live on the heap.
    String,
    /// A handle of an object outside of the graph. A variable's handle is resolved when a plan is
    /// made; others (queues, stacks) are values that hold the object itself.
    Resource,
    /// A value that most ops forward and do not compute with: a list of tensors, an optional.
    Variant,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [DType; 23] = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::C64,
        DType::C128,
        DType::Bool,
        DType::QI8,
        DType::QU8,
        DType::QI16,
        DType::QU16,
        DType::QI32,
        DType::String,
        DType::Resource,
        DType::Variant,
    ];
    /// The floating-point dtypes.
    pub const FLOATS: &'static [DType] = &[DType::F16, DType::BF16, DType::F32, DType::F64];
    /// The integer dtypes, signed and unsigned.
    pub const INTS: &'static [DType] = &[
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
    ];
    /// Floats and integers: the real numbers.
    pub const NUMBERS: &'static [DType] = &[
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
    ];
    /// Floats and signed integers.
    pub const SIGNED: &'static [DType] = &[
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
    ];
    /// The complex dtypes.
    pub const COMPLEX: &'static [DType] = &[DType::C64, DType::C128];
    /// Floats, integers and complex numbers.
    pub const ALL_NUMBERS: &'static [DType] = &DType::joined::<14>(DType::NUMBERS, DType::COMPLEX);
    /// Floats and complex numbers.
    pub const FLOATS_AND_COMPLEX: &'static [DType] =
        &DType::joined::<6>(DType::FLOATS, DType::COMPLEX);
    /// Numbers and bools: the dtypes that ops convert and compare.
    pub const COMPUTED: &'static [DType] = &DType::joined::<15>(DType::ALL_NUMBERS, &[DType::Bool]);
    /// The dtypes of quantized numbers.
    pub const QUANTIZED: &'static [DType] = &[
        DType::QI8,
        DType::QU8,
        DType::QI16,
        DType::QU16,
        DType::QI32,
    ];
    /// The dtypes whose elements are plain bytes: numbers, bools and quantized numbers.
    pub const PLAIN: &'static [DType] = &DType::joined::<20>(DType::COMPUTED, DType::QUANTIZED);
    /// The dtypes whose elements can be moved one by one: those that are plain bytes, and strings.
    pub const ELEMENTS: &'static [DType] = &DType::joined::<21>(DType::PLAIN, &[DType::String]);
    /// The dtypes of an index or an axis.
    pub const INDICES: &'static [DType] = &[DType::I32, DType::I64];

    /// Both lists, one after the other.
    ///
    /// # Panics
    /// If they do not have `N` dtypes together.
    ///
    /// ```
    /// use thalweg_tensor::DType;
    ///
    /// const TEXT_OR_INDEX: &[DType] = &DType::joined::<3>(&[DType::String], DType::INDICES);
    /// assert_eq!(TEXT_OR_INDEX, [DType::String, DType::I32, DType::I64]);
    /// ```
    pub const fn joined<const N: usize>(list: &[DType], more: &[DType]) -> [DType; N] {
        assert!(list.len() + more.len() == N);
        let mut all = [DType::F32; N];
        let mut i = 0;
        while i < N {
            all[i] = match i < list.len() {
                true => list[i],
                false => more[i - list.len()],
            };
            i += 1;
        }
        all
    }

    /// Bytes of one element; 0 if elements are not plain bytes: strings, resources, variants.
    pub const fn size(self) -> usize {
        match self {
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 | DType::QI16 | DType::QU16 => 2,
            DType::F32 | DType::I32 | DType::U32 | DType::QI32 => 4,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 8,
            DType::C128 => 16,
            DType::I8 | DType::U8 | DType::Bool | DType::QI8 | DType::QU8 => 1,
            DType::String | DType::Resource | DType::Variant => 0,
        }
    }

    /// `true` for one of [`DType::FLOATS`].
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// `true` for one of [`DType::COMPLEX`].
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// `true` for one of [`DType::QUANTIZED`].
    pub const fn is_quantized(self) -> bool {
        matches!(
            self,
            DType::QI8 | DType::QU8 | DType::QI16 | DType::QU16 | DType::QI32
        )
    }

    /// The dtype of the parts of a complex number; of another, the dtype itself.
    pub const fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// `true` if elements are handles of objects.
    pub const fn is_handle(self) -> bool {
        matches!(self, DType::Resource | DType::Variant)
    }

    /// `true` for one of [`DType::INTS`].
    pub const fn is_int(self) -> bool {
        matches!(
            self,
            DType::I8
                | DType::I16
                | DType::I32
                | DType::I64
                | DType::U8
                | DType::U16
                | DType::U32
                | DType::U64
        )
    }

    /// The short name: `f32`, `i64`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::C64 => "c64",
            DType::C128 => "c128",
            DType::Bool => "bool",
            DType::QI8 => "qi8",
            DType::QU8 => "qu8",
            DType::QI16 => "qi16",
            DType::QU16 => "qu16",
            DType::QI32 => "qi32",
            DType::String => "string",
            DType::Resource => "resource",
            DType::Variant => "variant",
        }
    }

    /// The dtype with this short name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A Rust type whose values are a tensor's elements, byte for byte.
///
/// # Safety
/// `DTYPE.size()` must be the type's size, the type must have no padding, and every bit pattern
/// that a tensor of that dtype may hold must be a value of it (a `Bool` tensor holds only 0 and 1).
///
/// ```
/// use thalweg_tensor::{DType, Element};
///
/// fn bytes_of<T: Element>(elements: &[T]) -> usize {
///     elements.len() * T::DTYPE.size()
/// }
/// assert_eq!(bytes_of(&[1i16, 2, 3]), 6);
/// assert_eq!(u8::DTYPE, DType::U8);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of a tensor",
    note = "elements are `f32`, `f64`, `f16`, `bf16`, `Complex<f32>`, `Complex<f64>`, `bool`, and integers of 8 to 64 bits",
    note = "what a step gives needs a type: `let loss: f32 = session.run(loss, feeds)?`; it is read as an element, `Vec<T>`, `[T; N]`, `String` or `Tensor`"
)]
pub unsafe trait Element:
    Copy + Default + PartialEq + Send + Sync + fmt::Debug + 'static
{
    /// The dtype of this type.
    const DTYPE: DType;
}

// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for f16 {
    const DTYPE: DType = DType::F16;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for bf16 {
    const DTYPE: DType = DType::BF16;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for f64 {
    const DTYPE: DType = DType::F64;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for i8 {
    const DTYPE: DType = DType::I8;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for i16 {
    const DTYPE: DType = DType::I16;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for i32 {
    const DTYPE: DType = DType::I32;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for i64 {
    const DTYPE: DType = DType::I64;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for u8 {
    const DTYPE: DType = DType::U8;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for u16 {
    const DTYPE: DType = DType::U16;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for u32 {
    const DTYPE: DType = DType::U32;
}
// SAFETY: a plain number without padding, of the size of its dtype.
unsafe impl Element for u64 {
    const DTYPE: DType = DType::U64;
}
// SAFETY: two numbers without padding (`#[repr(C)]`), of the size of its dtype.
unsafe impl Element for Complex<f32> {
    const DTYPE: DType = DType::C64;
}
// SAFETY: two numbers without padding (`#[repr(C)]`), of the size of its dtype.
unsafe impl Element for Complex<f64> {
    const DTYPE: DType = DType::C128;
}

/// A number of steps of a quantization: an element of a quantized tensor. The range that the steps divide is no part of it.
///
/// ```
/// use thalweg_tensor::{DType, Quantized, Tensor};
///
/// assert_eq!(Tensor::vector(&[Quantized(3u8)]).dtype(), DType::QU8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Quantized<T>(pub T);

// SAFETY: an integer without padding (`#[repr(transparent)]`), of the size of its dtype.
unsafe impl Element for Quantized<i8> {
    const DTYPE: DType = DType::QI8;
}
// SAFETY: an integer without padding (`#[repr(transparent)]`), of the size of its dtype.
unsafe impl Element for Quantized<u8> {
    const DTYPE: DType = DType::QU8;
}
// SAFETY: an integer without padding (`#[repr(transparent)]`), of the size of its dtype.
unsafe impl Element for Quantized<i16> {
    const DTYPE: DType = DType::QI16;
}
// SAFETY: an integer without padding (`#[repr(transparent)]`), of the size of its dtype.
unsafe impl Element for Quantized<u16> {
    const DTYPE: DType = DType::QU16;
}
// SAFETY: an integer without padding (`#[repr(transparent)]`), of the size of its dtype.
unsafe impl Element for Quantized<i32> {
    const DTYPE: DType = DType::QI32;
}
// SAFETY: one byte; a `Bool` tensor is only ever made from bytes that are 0 or 1.
unsafe impl Element for bool {
    const DTYPE: DType = DType::Bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for d in DType::ALL {
            assert_eq!(DType::from_name(d.name()), Some(d));
        }
        assert_eq!(DType::from_name("float"), None);
    }

    #[test]
    fn element_sizes_agree_with_their_dtype() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::DTYPE.size());
        }
        for d in DType::ALL {
            dispatch!(d, PLAIN, T => check::<T>(), else ());
        }
    }
}
