//! Max pooling that stores the argmax of each window, and its gradient from that. The argmax is the pixel's number in
//! the window: line by line, from zero; of a window that the image's edge cuts, in the rest of it.

use crate::parallel::Disjoint;
#[cfg(target_arch = "x86_64")]
use thalweg_tensor::DType;

use super::window::{Op, PoolWindow, at, is_nan, part};
use crate::number::Number;

#[derive(Clone, Copy)]
pub(super) struct MaxWhich<'a, T> {
    pub input: &'a [T],
    /// By window: the number of its first largest pixel.
    pub which: &'a Disjoint<'a, u8>,
}

/// `true` if `x`, which comes after it, takes the place of the largest: not of the first NaN.
#[inline(always)]
fn is_larger<T: Number>(best: T, x: T) -> bool {
    (x > best) | (is_nan(x) & !is_nan(best))
}

/// The larger of two, and its number.
#[inline(always)]
fn larger<T: Number>(best: (T, u32), x: (T, u32)) -> (T, u32) {
    if is_larger(best.0, x.0) { x } else { best }
}

impl<T: Number> Op<T> for MaxWhich<'_, T> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        let mut best: [T; L] = *at(self.input, window.at);
        // As wide as most numbers, so that both are compared and chosen in vectors.
        let (mut which, mut number) = ([0u32; L], 0);
        for line in 0..window.lines {
            for col in 0..window.cols {
                let x: &[T; L] = at(self.input, window.place(line, col));
                for l in 0..L {
                    let better = is_larger(best[l], x[l]);
                    best[l] = if better { x[l] } else { best[l] };
                    which[l] = if better { number } else { which[l] };
                }
                number += 1;
            }
        }
        *part(to, out) = best;
        let numbers: &mut [u8; L] = part(self.which, out);
        for l in 0..L {
            numbers[l] = which[l] as u8;
        }
    }

    #[inline(always)]
    fn halve(self, first: PoolWindow, out: usize, n: usize, to: &Disjoint<'_, T>) {
        let lines = [first.at, first.at + first.line];
        let lines = lines.map(|at| &self.input[at..][..2 * n]);
        // SAFETY: elements of both outputs that belong to this task.
        let (out, which) = unsafe { (to.slice(out, n), self.which.slice(out, n)) };
        #[cfg(target_arch = "x86_64")]
        if T::DTYPE == DType::F32 && n >= super::sse::LANES {
            let lines = lines.map(|line| line.as_ptr().cast());
            // SAFETY: `T` is the type that stands for `F32`, and both lines hold two pixels for each window.
            return unsafe {
                super::sse::halve_max(n, lines, out.as_mut_ptr().cast(), which.as_mut_ptr())
            };
        }
        let [top, bottom] = lines.map(|line| line.as_chunks::<2>().0);
        for ((out, which), (top, bottom)) in out.iter_mut().zip(which).zip(top.iter().zip(bottom)) {
            let above = larger((top[0], 0), (top[1], 1));
            let below = larger((bottom[0], 2), (bottom[1], 3));
            let best = larger(above, below);
            (*out, *which) = (best.0, best.1 as u8);
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct WhichGrad<'a, T> {
    pub output_grad: &'a [T],
    pub which: &'a [u8],
}

impl<T: Number> Op<T> for WhichGrad<'_, T> {
    const BACKWARD: bool = true;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        self.channels(window, out, L, to);
    }

    // Numbers are compared as bytes and gradients chosen in their own type: a plain loop becomes vectors of both.
    #[inline(always)]
    fn channels(self, window: PoolWindow, out: usize, channels: usize, to: &Disjoint<'_, T>) {
        let (grads, which) = (
            &self.output_grad[out..][..channels],
            &self.which[out..][..channels],
        );
        let places = (0..window.lines).flat_map(|y| (0..window.cols).map(move |x| (y, x)));
        for (number, (line, col)) in places.enumerate() {
            // SAFETY: channels of a pixel that belong to this task.
            let to = unsafe { to.slice(window.place(line, col), channels) };
            for ((to, &grad), &which) in to.iter_mut().zip(grads).zip(which) {
                let taken = if which == number as u8 { grad } else { T::ZERO };
                *to = if window.alone { taken } else { to.add(taken) };
            }
        }
    }

    #[inline(always)]
    fn halve(self, first: PoolWindow, out: usize, n: usize, to: &Disjoint<'_, T>) {
        let lines = [first.at, first.at + first.line];
        let (grads, which) = (&self.output_grad[out..][..n], &self.which[out..][..n]);
        // SAFETY: two lines of the input's gradient that belong to this task; a line is at least as long as its
        // windows, so they do not overlap.
        let to = unsafe { lines.map(|at| to.slice(at, 2 * n)) };
        #[cfg(target_arch = "x86_64")]
        if T::DTYPE == DType::F32 && n >= super::sse::LANES {
            let to = to.map(|line| line.as_mut_ptr().cast());
            // SAFETY: `T` is the type that stands for `F32`, and both lines hold two pixels for each window.
            return unsafe {
                super::sse::halve_which(n, grads.as_ptr().cast(), which.as_ptr(), to)
            };
        }
        for (line, to) in to.into_iter().enumerate() {
            for ((to, &grad), &which) in to.as_chunks_mut::<2>().0.iter_mut().zip(grads).zip(which)
            {
                let of = |number| {
                    if usize::from(which) == number {
                        grad
                    } else {
                        T::ZERO
                    }
                };
                *to = [of(2 * line), of(2 * line + 1)];
            }
        }
    }
}
