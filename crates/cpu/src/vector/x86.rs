//! The vectors of AVX2 with FMA, and of AVX-512.

use std::arch::x86_64::*;

use super::{Vector, logistic};

// All blocks below are covered by the trait's contract: the machine has the instructions, the pointers are valid.

#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for __m512 {
    type Elem = f32;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        unsafe { _mm512_maskz_loadu_ps(u16::MAX >> (16 - n), from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        unsafe { _mm512_mask_storeu_ps(to, u16::MAX >> (16 - n), self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { _mm512_mul_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn prefetch(address: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm512_max_ps(floor, self) }
    }
    #[inline(always)]
    unsafe fn at_most(self, ceiling: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm512_min_ps(ceiling, self) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        unsafe { _mm512_fmadd_ps(self, factor, term) }
    }
    #[inline(always)]
    unsafe fn sigmoid(self) -> Self {
        unsafe { logistic::sigmoid(self) }
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for __m512d {
    type Elem = f64;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_pd() }
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        unsafe { _mm512_set1_pd(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        unsafe { _mm512_loadu_pd(from) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f64, n: usize) -> Self {
        unsafe { _mm512_maskz_loadu_pd(u8::MAX >> (8 - n), from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        unsafe { _mm512_storeu_pd(to, self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f64, n: usize) {
        unsafe { _mm512_mask_storeu_pd(to, u8::MAX >> (8 - n), self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_add_pd(self, other) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { _mm512_mul_pd(self, other) }
    }
    #[inline(always)]
    unsafe fn prefetch(address: *const f64) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm512_max_pd(floor, self) }
    }
    #[inline(always)]
    unsafe fn at_most(self, ceiling: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm512_min_pd(ceiling, self) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        unsafe { _mm512_fmadd_pd(self, factor, term) }
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for __m256 {
    type Elem = f32;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        unsafe { _mm256_maskload_ps(from, first_of_8(n)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        unsafe { _mm256_maskstore_ps(to, first_of_8(n), self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm256_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { _mm256_mul_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn prefetch(address: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm256_max_ps(floor, self) }
    }
    #[inline(always)]
    unsafe fn at_most(self, ceiling: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm256_min_ps(ceiling, self) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        unsafe { _mm256_fmadd_ps(self, factor, term) }
    }
    #[inline(always)]
    unsafe fn sigmoid(self) -> Self {
        unsafe { logistic::sigmoid(self) }
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for __m256d {
    type Elem = f64;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_pd() }
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        unsafe { _mm256_set1_pd(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        unsafe { _mm256_loadu_pd(from) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f64, n: usize) -> Self {
        unsafe { _mm256_maskload_pd(from, first_of_4(n)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        unsafe { _mm256_storeu_pd(to, self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f64, n: usize) {
        unsafe { _mm256_maskstore_pd(to, first_of_4(n), self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm256_add_pd(self, other) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { _mm256_mul_pd(self, other) }
    }
    #[inline(always)]
    unsafe fn prefetch(address: *const f64) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm256_max_pd(floor, self) }
    }
    #[inline(always)]
    unsafe fn at_most(self, ceiling: Self) -> Self {
        // The second operand is the result when one is NaN.
        unsafe { _mm256_min_pd(ceiling, self) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        unsafe { _mm256_fmadd_pd(self, factor, term) }
    }
}

/// A mask whose first `n` of eight lanes are set.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn first_of_8(n: usize) -> __m256i {
    // SAFETY: by the caller's promise.
    unsafe {
        _mm256_cmpgt_epi32(
            _mm256_set1_epi32(n as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        )
    }
}

/// A mask whose first `n` of four lanes are set.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn first_of_4(n: usize) -> __m256i {
    // SAFETY: by the caller's promise.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}
