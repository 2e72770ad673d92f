//! Max pooling of windows of two by two pixels in SSE, forward with the argmax, and its gradient: written by hand, as
//! the compiler does not vectorize loops that read and write every second element.

use std::arch::x86_64::*;

/// Windows that are handled at a time.
pub(super) const LANES: usize = 4;

/// Gives the gradients of `n` windows to the first largest of their pixels in two lines, and zero to the others.
///
/// # Safety
/// `n` is at least [`LANES`]; `grads` is valid for `n` elements and the lines for `2 n`; the written memory overlaps
/// nothing.
pub(super) unsafe fn halve_grad(
    n: usize,
    lines: [*const f32; 2],
    grads: *const f32,
    to: [*mut f32; 2],
) {
    for i in (0..n).step_by(LANES) {
        // The last ones overlap those before, and write the same again.
        let i = i.min(n - LANES);
        // SAFETY: four windows, which are among the `n`; every machine of this architecture has SSE.
        unsafe {
            let [[a, b], [c, d]] = [halves(lines[0].add(2 * i)), halves(lines[1].add(2 * i))];
            // All ones, which is NaN, where one of them is: the maximum loses it.
            let nan = _mm_or_ps(_mm_cmpunord_ps(a, b), _mm_cmpunord_ps(c, d));
            let largest = _mm_or_ps(_mm_max_ps(_mm_max_ps(a, b), _mm_max_ps(c, d)), nan);
            let mut left = _mm_loadu_ps(grads.add(i));
            let mut take = |x| {
                let first = _mm_or_ps(_mm_cmpeq_ps(x, largest), _mm_cmpunord_ps(x, x));
                let taken = _mm_and_ps(first, left);
                left = _mm_andnot_ps(first, left);
                taken
            };
            let taken = [(take(a), take(b)), (take(c), take(d))];
            for (to, (even, odd)) in to.into_iter().zip(taken) {
                _mm_storeu_ps(to.add(2 * i), _mm_unpacklo_ps(even, odd));
                _mm_storeu_ps(to.add(2 * i + 4), _mm_unpackhi_ps(even, odd));
            }
        }
    }
}

/// The even and the odd ones of eight numbers.
///
/// # Safety
/// `from` is valid for eight numbers.
#[inline(always)]
unsafe fn halves(from: *const f32) -> [__m128; 2] {
    // SAFETY: as the caller says; every machine of this architecture has SSE.
    unsafe {
        let (p, q) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(4)));
        [_mm_shuffle_ps::<0x88>(p, q), _mm_shuffle_ps::<0xdd>(p, q)]
    }
}

/// The largest of `n` windows in two lines, the first NaN where there is one, and its number in the window.
///
/// # Safety
/// `n` is at least [`LANES`]; the lines are valid for `2 n` elements, `to` and `which` for `n`; the written memory
/// overlaps nothing.
pub(super) unsafe fn halve_max(n: usize, lines: [*const f32; 2], to: *mut f32, which: *mut u8) {
    for i in (0..n).step_by(LANES) {
        // The last ones overlap those before, and write the same again.
        let i = i.min(n - LANES);
        // SAFETY: four windows, which are among the `n`; every machine of this architecture has SSE2.
        unsafe {
            let larger = |(best, number): (__m128, __m128), (x, its): (__m128, __m128)| {
                let nan = _mm_andnot_ps(_mm_cmpunord_ps(best, best), _mm_cmpunord_ps(x, x));
                let better = _mm_or_ps(_mm_cmpgt_ps(x, best), nan);
                let choose = |a, b| _mm_or_ps(_mm_and_ps(better, a), _mm_andnot_ps(better, b));
                (choose(x, best), choose(its, number))
            };
            let number = |number| _mm_castsi128_ps(_mm_set1_epi32(number));
            let [[a, b], [c, d]] = [halves(lines[0].add(2 * i)), halves(lines[1].add(2 * i))];
            let above = larger((a, number(0)), (b, number(1)));
            let below = larger((c, number(2)), (d, number(3)));
            let (best, numbers) = larger(above, below);
            _mm_storeu_ps(to.add(i), best);
            let words = _mm_packs_epi32(_mm_castps_si128(numbers), _mm_setzero_si128());
            let bytes = _mm_packus_epi16(words, words);
            which
                .add(i)
                .cast::<i32>()
                .write_unaligned(_mm_cvtsi128_si32(bytes));
        }
    }
}

/// Gives the gradients of `n` windows to that of their pixels in two lines which has this number, and zero to the others.
///
/// # Safety
/// `n` is at least [`LANES`]; `grads` and `which` are valid for `n` elements and the lines for `2 n`; the written
/// memory overlaps nothing.
pub(super) unsafe fn halve_which(n: usize, grads: *const f32, which: *const u8, to: [*mut f32; 2]) {
    for i in (0..n).step_by(LANES) {
        // The last ones overlap those before, and write the same again.
        let i = i.min(n - LANES);
        // SAFETY: four windows, which are among the `n`; every machine of this architecture has SSE2.
        unsafe {
            let grads = _mm_loadu_ps(grads.add(i));
            let zero = _mm_setzero_si128();
            let bytes = _mm_cvtsi32_si128(which.add(i).cast::<i32>().read_unaligned());
            let which = _mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
            let of = |number| {
                let is = _mm_cmpeq_epi32(which, _mm_set1_epi32(number));
                _mm_and_ps(_mm_castsi128_ps(is), grads)
            };
            for (to, (even, odd)) in to.into_iter().zip([(of(0), of(1)), (of(2), of(3))]) {
                _mm_storeu_ps(to.add(2 * i), _mm_unpacklo_ps(even, odd));
                _mm_storeu_ps(to.add(2 * i + 4), _mm_unpackhi_ps(even, odd));
            }
        }
    }
}
