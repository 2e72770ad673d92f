//! Types that elementwise functions are computed in, and conversions from and to narrower dtypes.

use half::{bf16, f16};
use thalweg_cpu::{Isa, narrow_f16, widen_f16};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Element};

use super::block::{BLOCK, Block};
use super::loops::Map;

/// A type that elements are computed in: those of its own dtype directly, those of narrower dtypes in blocks that are
/// widened before and narrowed after. A single operation then gives the same bits as in the narrow type.
pub(crate) trait Compute: Element + bytemuck::Zeroable {
    /// Conversion of elements of `dtype` to this type and back; `None` for the type's own dtype, and for those that
    /// it cannot hold.
    fn conversion(dtype: DType) -> Option<Conversion<Self>>;
}

/// Conversion of elements of a dtype to a wider type and back.
#[derive(Debug)]
pub(crate) struct Conversion<W> {
    /// Size of an element in bytes.
    pub(crate) size: usize,
    isa: Isa,
    widen: fn(Isa, &[u8], &mut [W]),
    narrow: fn(Isa, &[W], &mut [u8]),
}

impl<W: Compute> Conversion<W> {
    /// Widens elements, which are given as bytes: as many as both slices have.
    pub(crate) fn widen(&self, from: &[u8], to: &mut [W]) {
        let count = to.len().min(from.len() / self.size);
        (self.widen)(self.isa, &from[..count * self.size], &mut to[..count]);
    }

    /// Narrows elements to bytes, as many as both slices have; integers keep their low bits, floats are rounded.
    pub(crate) fn narrow(&self, from: &[W], to: &mut [u8]) {
        let count = from.len().min(to.len() / self.size);
        (self.narrow)(self.isa, &from[..count], &mut to[..count * self.size]);
    }

    /// Widens a block of elements, which are given as bytes.
    pub(crate) fn block(&self, bytes: &[u8]) -> Block<W> {
        let mut wide = Block::new();
        wide.resize(bytes.len() / self.size, W::zeroed());
        self.widen(bytes, &mut wide);
        wide
    }

    /// Rounds `x` to the narrow dtype.
    pub(crate) fn round(&self, x: W) -> W {
        let (mut bytes, mut wide) = ([0u64], [x]);
        let bytes = &mut bytemuck::cast_slice_mut(&mut bytes)[..self.size];
        self.narrow(&wide, bytes);
        self.widen(bytes, &mut wide);
        wide[0]
    }

    /// Widens elements, which are given as bytes, in blocks.
    pub(crate) fn blocks(&self, bytes: &[u8]) -> impl Iterator<Item = Block<W>> {
        bytes
            .chunks(BLOCK * self.size)
            .map(|bytes| self.block(bytes))
    }
}

impl<W> Clone for Conversion<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Conversion<W> {}

/// Conversions of `$dtype`: `|$x| $widen` widens an element, `|$w| $narrow` narrows it; with `@`, functions of slices
/// do.
macro_rules! conversions {
    ($($wide:ty {
        $(@ $sliced:ident $s:ty, $widened:path, $narrowed:path;)?
        $($dtype:ident $t:ty, |$x:ident| $widen:expr, |$w:ident| $narrow:expr;)*
    })*) => {$(
        impl Compute for $wide {
            fn conversion(dtype: DType) -> Option<Conversion<$wide>> {
                match dtype {
                    $(DType::$sliced => Some(Conversion {
                        size: size_of::<$s>(),
                        // The same bits come out on each instruction set.
                        isa: Isa::detect(),
                        widen: |isa, from, to| $widened(isa, bytemuck::cast_slice::<u8, $s>(from), to),
                        narrow: |isa, from, to| $narrowed(isa, from, bytemuck::cast_slice_mut::<u8, $s>(to)),
                    }),)?
                    $(DType::$dtype => Some(Conversion {
                        size: size_of::<$t>(),
                        // The same bits come out on each instruction set.
                        isa: Isa::detect(),
                        widen: |isa, from, to| {
                            let from = bytemuck::cast_slice::<u8, $t>(from);
                            isa.run_up_to_avx2(Map(from, to, |$x: $t| $widen));
                        },
                        narrow: |isa, from, to| {
                            let to = bytemuck::cast_slice_mut::<u8, $t>(to);
                            isa.run_up_to_avx2(Map(from, to, |$w: $wide| $narrow));
                        },
                    }),)*
                    _ => None,
                }
            }
        }
    )*};
}

/// The nearest `bf16`, as `bf16::from_f32` has it, without a branch.
#[inline(always)]
fn rounded_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff).wrapping_add((bits >> 16) & 1) >> 16;
    // A NaN stays one although its lower bits go.
    let nan = (bits >> 16) | 0x40;
    bf16::from_bits(if x.is_nan() { nan } else { rounded } as u16)
}

conversions! {
    f32 {
        @F16 f16, widen_f16, narrow_f16;
        BF16 bf16, |x| x.to_f32(), |w| rounded_bf16(w);
        I8 i8, |x| f32::from(x), |w| w as i8;
        U8 u8, |x| f32::from(x), |w| w as u8;
    }
    f64 {
        F16 f16, |x| x.to_f64(), |w| f16::from_f64(w);
        BF16 bf16, |x| x.to_f64(), |w| bf16::from_f64(w);
        F32 f32, |x| f64::from(x), |w| w as f32;
    }
    i64 {
        I8 i8, |x| i64::from(x), |w| w as i8;
        I16 i16, |x| i64::from(x), |w| w as i16;
        I32 i32, |x| i64::from(x), |w| w as i32;
        U8 u8, |x| i64::from(x), |w| w as u8;
        U16 u16, |x| i64::from(x), |w| w as u16;
        U32 u32, |x| i64::from(x), |w| w as u32;
    }
    // Signed integers as well, for functions that depend on bits only: the upper bits are zero.
    u64 {
        I8 u8, |x| u64::from(x), |w| w as u8;
        I16 u16, |x| u64::from(x), |w| w as u16;
        I32 u32, |x| u64::from(x), |w| w as u32;
        I64 u64, |x| x, |w| w;
        U8 u8, |x| u64::from(x), |w| w as u8;
        U16 u16, |x| u64::from(x), |w| w as u16;
        U32 u32, |x| u64::from(x), |w| w as u32;
        Bool u8, |x| u64::from(x), |w| w as u8;
    }
    i32 {
        I8 i8, |x| i32::from(x), |w| w as i8;
        I16 i16, |x| i32::from(x), |w| w as i16;
        U8 u8, |x| i32::from(x), |w| w as u8;
        U16 u16, |x| i32::from(x), |w| w as u16;
        Bool u8, |x| i32::from(x), |w| w as u8;
    }
    bool {}
    Complex<f64> {
        F32 f32, |x| Complex::from(f64::from(x)), |w| w.re as f32;
        F64 f64, |x| Complex::from(x), |w| w.re;
        C64 Complex<f32>, |x| Complex::new(x.re.into(), x.im.into()), |w| Complex::new(w.re as f32, w.im as f32);
    }
}

/// Rounding of intermediate results of a function of several steps, to numbers of `dtype`.
pub(crate) fn rounding<W: Compute>(dtype: DType) -> impl Fn(W) -> W + Copy + Send + Sync + 'static {
    let conversion = W::conversion(dtype);
    move |x| conversion.map_or(x, |c| c.round(x))
}

/// Expands `$body` with `$T` as the type in which elements of `$dtype` are computed: `f32` for halves, `i32` for integers
/// whose values it holds, the widest of their kind for others and for complex numbers. In the lists `BITS`, `WRAPPING` and
/// `COMPUTED`, whose functions do not depend on signs, integers of 32 and 64 bits without a sign are computed in `u64`. So are
/// those of 8 and 16 bits with a sign in `BITS`: there are no upper bits that are copies of a sign, as functions may count
/// them.
macro_rules! computed {
    ($dtype:expr, FLOATS, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            f32 => F16 BF16 F32; f64 => F64;)
    };
    ($dtype:expr, COMPLEX, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            thalweg_tensor::num_complex::Complex<f64> => C64 C128;)
    };
    ($dtype:expr, FLOATS_AND_COMPLEX, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            f32 => F16 BF16 F32; f64 => F64; thalweg_tensor::num_complex::Complex<f64> => C64 C128;)
    };
    ($dtype:expr, INTS, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            i32 => I8 I16 I32 U8 U16; i64 => I64; u64 => U32 U64;)
    };
    ($dtype:expr, NUMBERS, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            f32 => F16 BF16 F32; f64 => F64; i32 => I8 I16 I32 U8 U16; i64 => I64; u64 => U32 U64;)
    };
    ($dtype:expr, BITS, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            i32 => I32 U8 U16; i64 => I64; u64 => I8 I16 U32 U64;)
    };
    ($dtype:expr, WRAPPING, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            f32 => F16 BF16 F32; f64 => F64; i32 => I8 I16 I32 U8 U16; i64 => I64; u64 => U32 U64; thalweg_tensor::num_complex::Complex<f64> => C64 C128;)
    };
    ($dtype:expr, COMPUTED, $T:ident => $body:expr, else $other:expr) => {
        $crate::support::elementwise::compute::computed!(@ $dtype, $T => $body, $other,
            f32 => F16 BF16 F32; f64 => F64; i32 => I8 I16 I32 U8 U16 Bool; i64 => I64; u64 => U32 U64; thalweg_tensor::num_complex::Complex<f64> => C64 C128;)
    };
    (@ $dtype:expr, $T:ident => $body:expr, $other:expr, $($wide:ty => $($variant:ident)*;)*) => {
        match $dtype {
            $($(thalweg_tensor::DType::$variant)|* => { type $T = $wide; $body })*
            _ => $other,
        }
    };
}

pub(crate) use computed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_a_type_that_it_is_computed_in() {
        fn is_held<W: Compute>(dtype: DType) -> bool {
            W::DTYPE == dtype || W::conversion(dtype).is_some_and(|c| c.size == dtype.size())
        }
        for &dtype in DType::COMPUTED {
            assert!(
                computed!(dtype, COMPUTED, W => is_held::<W>(dtype), else false),
                "{dtype}"
            );
        }
        for &dtype in DType::NUMBERS {
            assert!(
                computed!(dtype, NUMBERS, W => is_held::<W>(dtype), else false),
                "{dtype}"
            );
        }
    }

    #[test]
    fn what_is_widened_comes_back() {
        fn returns<W: Compute>(dtype: DType) {
            let Some(c) = W::conversion(dtype) else {
                return;
            };
            let bits: Vec<u64> = (0..1 << 13).collect();
            let bytes: &[u8] = bytemuck::cast_slice(&bits);
            let mut wide = vec![W::zeroed(); bytes.len() / c.size];
            let mut back = vec![0u64; bits.len()];
            c.widen(bytes, &mut wide);
            c.narrow(&wide, bytemuck::cast_slice_mut(&mut back));
            assert_eq!(back, bits, "{dtype}");
            // A part of a longer slice.
            let part = wide.len() / 3;
            let mut few = vec![W::zeroed(); part];
            c.widen(bytes, &mut few);
            assert_eq!(few, wide[..part], "{dtype}");
            back.fill(0);
            c.narrow(
                &wide,
                &mut bytemuck::cast_slice_mut(&mut back)[..part * c.size],
            );
            assert_eq!(
                bytemuck::cast_slice::<_, u8>(&back)[..part * c.size],
                bytes[..part * c.size],
                "{dtype}"
            );
        }
        for &dtype in DType::COMPUTED {
            returns::<f32>(dtype);
            returns::<i32>(dtype);
            returns::<i64>(dtype);
            returns::<u64>(dtype);
            returns::<Complex<f64>>(dtype);
        }
    }
}
