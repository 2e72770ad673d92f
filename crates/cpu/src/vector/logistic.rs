//! The logistic function of singles in vectors with a fused multiply-add.

use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

use super::Vector;
use crate::number::single::{ROUND, high};

const LN_2_HIGH: f32 = high(std::f64::consts::LN_2);
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2_HIGH as f64) as f32;

/// Vectors of singles that can be divided, and raised to a power of two.
///
/// # Safety
/// As [`Vector`].
pub(super) trait Singles: Vector<Elem = f32> {
    unsafe fn div(self, by: Self) -> Self;
    /// 2 to the power of `n`, from -126 to 128, where it is infinite, of `n + ROUND`.
    unsafe fn power_of_2(self) -> Self;
}

/// `1 / (1 + exp(-x))`, within three units of the last place; numbers below the normal ones may become zero.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
pub(super) unsafe fn sigmoid<V: Singles>(x: V) -> V {
    // SAFETY: by the caller's promise.
    unsafe {
        let one = V::splat(1.0);
        // Beyond these the exponential is infinite, or nothing beside 1.
        let y = x.mul(V::splat(-1.0));
        let y = y.at_least(V::splat(-87.0)).at_most(V::splat(89.0));
        // exp(y) = 2^n exp(r)
        let shifted = y.mul_add(V::splat(LOG2_E), V::splat(ROUND));
        let n = shifted.add(V::splat(-ROUND));
        let r = n.mul_add(V::splat(-LN_2_HIGH), y);
        let r = n.mul_add(V::splat(-LN_2_LOW), r);
        let series = V::splat(1.0 / 5040.0);
        let series = series.mul_add(r, V::splat(1.0 / 720.0));
        let series = series.mul_add(r, V::splat(1.0 / 120.0));
        let series = series.mul_add(r, V::splat(1.0 / 24.0));
        let series = series.mul_add(r, V::splat(1.0 / 6.0));
        let series = series.mul_add(r, V::splat(0.5));
        let exp_r = r.mul(r).mul_add(series, r.add(one));
        let power = shifted.power_of_2();
        one.div(exp_r.mul_add(power, one))
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl Singles for __m256 {
    #[inline(always)]
    unsafe fn div(self, by: Self) -> Self {
        unsafe { _mm256_div_ps(self, by) }
    }
    #[inline(always)]
    unsafe fn power_of_2(self) -> Self {
        // The bits of `ROUND` are shifted out.
        unsafe {
            let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(self));
            let bias = _mm256_castps_si256(_mm256_set1_ps(1.0));
            _mm256_castsi256_ps(_mm256_add_epi32(n, bias))
        }
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl Singles for __m512 {
    #[inline(always)]
    unsafe fn div(self, by: Self) -> Self {
        unsafe { _mm512_div_ps(self, by) }
    }
    #[inline(always)]
    unsafe fn power_of_2(self) -> Self {
        // The bits of `ROUND` are shifted out.
        unsafe {
            let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(self));
            let bias = _mm512_castps_si512(_mm512_set1_ps(1.0));
            _mm512_castsi512_ps(_mm512_add_epi32(n, bias))
        }
    }
}
