//! Conversions of slices between `f16` and `f32`.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::isa::{Isa, Level};

/// Widens numbers, as many as both slices have.
pub fn widen_f16(isa: Isa, from: &[f16], to: &mut [f32]) {
    let count = from.len().min(to.len());
    let (from, to) = (&from[..count], &mut to[..count]);
    match isa.level() {
        // SAFETY: a value with this level is only made on a machine that has AVX-512 F.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::widen(from, to) },
        _ => from.convert_to_f32_slice(to),
    }
}

/// Rounds numbers to the nearest `f16`, as many as both slices have.
pub fn narrow_f16(isa: Isa, from: &[f32], to: &mut [f16]) {
    let count = from.len().min(to.len());
    let (from, to) = (&from[..count], &mut to[..count]);
    match isa.level() {
        // SAFETY: a value with this level is only made on a machine that has AVX-512 F.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::narrow(from, to) },
        _ => to.convert_from_f32_slice(from),
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use half::f16;
    use half::slice::HalfFloatSliceExt;

    /// Numbers of a vector.
    const LANES: usize = 16;

    /// Widens as many numbers as both slices have.
    #[target_feature(enable = "avx512f")]
    pub(super) fn widen(from: &[f16], to: &mut [f32]) {
        let ((from, from_rest), (to, to_rest)) =
            (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: both have as many numbers as a vector, and need not be aligned.
            unsafe {
                let halves = _mm256_loadu_si256(from.as_ptr().cast());
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(halves));
            }
        }
        from_rest.convert_to_f32_slice(to_rest);
    }

    /// Rounds as many numbers as both slices have.
    #[target_feature(enable = "avx512f")]
    pub(super) fn narrow(from: &[f32], to: &mut [f16]) {
        let ((from, from_rest), (to, to_rest)) =
            (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: both have as many numbers as a vector, and need not be aligned.
            unsafe {
                let wide = _mm512_loadu_ps(from.as_ptr());
                let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
                _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
            }
        }
        to_rest.convert_from_f32_slice(from_rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_and_comes_back() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        for isa in Isa::available() {
            for part in [&all[..], &all[3..40], &all[..5], &[]] {
                let mut wide = vec![0.0; part.len()];
                widen_f16(isa, part, &mut wide);
                for (x, half) in wide.iter().zip(part) {
                    assert!(
                        *x == half.to_f32() || x.is_nan() && half.is_nan(),
                        "{half:?}"
                    );
                }
                let mut back = vec![f16::ZERO; part.len()];
                narrow_f16(isa, &wide, &mut back);
                for (found, half) in back.iter().zip(part) {
                    let same = found.to_bits() == half.to_bits();
                    assert!(same || found.is_nan() && half.is_nan(), "{isa:?} {half:?}");
                }
            }
        }
    }

    #[test]
    fn singles_are_rounded_to_the_nearest_half() {
        let bits = (0..=u32::MAX).step_by(40_503);
        let all: Vec<f32> = bits.map(f32::from_bits).collect();
        for isa in Isa::available() {
            let mut halves = vec![f16::ZERO; all.len()];
            narrow_f16(isa, &all, &mut halves);
            for (found, x) in halves.iter().zip(&all) {
                let wanted = f16::from_f32_const(*x);
                let same = found.to_bits() == wanted.to_bits();
                assert!(same || found.is_nan() && wanted.is_nan(), "{isa:?} {x:e}");
            }
        }
    }
}
