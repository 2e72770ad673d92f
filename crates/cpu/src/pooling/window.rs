//! Pooling operations on one window: maximum, mean, and their gradients.

use crate::parallel::Disjoint;
#[cfg(target_arch = "x86_64")]
use thalweg_tensor::DType;

use crate::number::{Arithmetic, Float, Number};

/// Channels that are computed side by side.
const LANES: usize = 16;

/// The pixels of a window inside the image.
#[derive(Clone, Copy)]
pub(super) struct PoolWindow {
    /// Offset of the first pixel.
    pub at: usize,
    pub lines: usize,
    pub cols: usize,
    /// From a line to the next.
    pub line: usize,
    /// From a pixel to the next.
    pub pixel: usize,
    /// `true` if no other window has pixels of it.
    pub alone: bool,
}

impl PoolWindow {
    /// Returns the offset of the pixel of this line and column.
    #[inline(always)]
    pub(super) fn place(self, line: usize, col: usize) -> usize {
        self.at + line * self.line + col * self.pixel
    }
}

/// A pooling. The caller guarantees that no other thread accesses the elements of `to` that it writes.
pub(super) trait Op<T>: Copy + Sync {
    /// `true` if it writes to images of the input's shape, which hold zeros before; `false` for those of the output.
    const BACKWARD: bool;

    /// Handles `L` channels of a window, whose place in the output is `out`.
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>);

    /// Handles `channels` channels of a window, whose place in the output is `out`.
    #[inline(always)]
    fn channels(self, window: PoolWindow, out: usize, channels: usize, to: &Disjoint<'_, T>) {
        let of = |c| PoolWindow {
            at: window.at + c,
            ..window
        };
        let vectors = channels / LANES * LANES;
        for c in (0..vectors).step_by(LANES) {
            self.window::<LANES>(of(c), out + c, to);
        }
        for c in vectors..channels {
            self.window::<1>(of(c), out + c, to);
        }
    }

    /// Handles a line of `n` windows of two by two pixels, of which `first` is the first.
    #[inline(always)]
    fn halve(self, first: PoolWindow, out: usize, n: usize, to: &Disjoint<'_, T>) {
        for i in 0..n {
            let window = PoolWindow {
                at: first.at + 2 * i,
                ..first
            };
            self.window::<1>(window, out + i, to);
        }
    }
}

/// `L` elements of a slice.
#[inline(always)]
pub(super) fn at<T, const L: usize>(from: &[T], at: usize) -> &[T; L] {
    (&from[at..at + L])
        .try_into()
        .expect("a slice of the array's length")
}

/// `L` elements of the result.
#[inline(always)]
#[allow(clippy::mut_from_ref, reason = "as `Disjoint::slice`")]
pub(super) fn part<'a, T, const L: usize>(to: &'a Disjoint<'_, T>, at: usize) -> &'a mut [T; L] {
    // SAFETY: a window writes elements of its own task, and drops one part before it takes the next.
    let part = unsafe { to.slice(at, L) };
    part.try_into().expect("a slice of the array's length")
}

/// Adds to the gradient of a pixel of a window, which is zero where no other window has it.
#[inline(always)]
pub(super) fn add<T: Number, const L: usize>(
    window: PoolWindow,
    to: &Disjoint<'_, T>,
    pixel: usize,
    grad: [T; L],
) {
    let to: &mut [T; L] = part(to, pixel);
    if window.alone {
        *to = grad;
    } else {
        for l in 0..L {
            to[l] = to[l].add(grad[l]);
        }
    }
}

/// A number that is not equal to itself is no number; integers always are.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
pub(super) fn is_nan<T: Number>(x: T) -> bool {
    x != x
}

/// The largest, or NaN.
#[inline(always)]
fn larger<T: Number>(best: T, x: T) -> T {
    if (x > best) | is_nan(x) { x } else { best }
}

/// The largest of `L` channels.
#[inline(always)]
fn largest<T: Number, const L: usize>(input: &[T], window: PoolWindow) -> [T; L] {
    let mut best = *at(input, window.at);
    for line in 0..window.lines {
        for col in 0..window.cols {
            let pixel = window.place(line, col);
            let x: &[T; L] = at(input, pixel);
            for l in 0..L {
                best[l] = larger(best[l], x[l]);
            }
        }
    }
    best
}

/// Moves the gradients of `L` windows to those of these pixels that are the first largest.
#[inline(always)]
fn take<T: Number, const L: usize>(x: &[T; L], largest: &[T; L], grads: &mut [T; L]) -> [T; L] {
    let mut taken = [T::ZERO; L];
    for l in 0..L {
        // Where one is NaN, so is the largest, and the first NaN is meant.
        let first = (x[l] == largest[l]) | is_nan(x[l]);
        taken[l] = if first { grads[l] } else { T::ZERO };
        grads[l] = if first { T::ZERO } else { grads[l] };
    }
    taken
}

#[derive(Clone, Copy)]
pub(super) struct Max<'a, T> {
    pub input: &'a [T],
}

impl<T: Number> Op<T> for Max<'_, T> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        *part(to, out) = largest::<T, L>(self.input, window);
    }

    #[inline(always)]
    fn halve(self, first: PoolWindow, out: usize, n: usize, to: &Disjoint<'_, T>) {
        let top = self.input[first.at..][..2 * n].as_chunks::<2>().0;
        let bottom = self.input[first.at + first.line..][..2 * n]
            .as_chunks::<2>()
            .0;
        // SAFETY: elements of the output that belong to this task.
        let out = unsafe { to.slice(out, n) };
        for ((out, top), bottom) in out.iter_mut().zip(top).zip(bottom) {
            *out = larger(larger(top[0], top[1]), larger(bottom[0], bottom[1]));
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct MaxGrad<'a, T> {
    pub input: &'a [T],
    pub output_grad: &'a [T],
}

impl<T: Number> Op<T> for MaxGrad<'_, T> {
    const BACKWARD: bool = true;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        let largest = largest::<T, L>(self.input, window);
        let mut grads = *at::<T, L>(self.output_grad, out);
        for line in 0..window.lines {
            for col in 0..window.cols {
                let pixel = window.place(line, col);
                let taken = take(at(self.input, pixel), &largest, &mut grads);
                add(window, to, pixel, taken);
            }
        }
    }

    #[inline(always)]
    fn halve(self, first: PoolWindow, out: usize, n: usize, to: &Disjoint<'_, T>) {
        let lines = [first.at, first.at + first.line];
        let inputs = lines.map(|at| &self.input[at..at + 2 * n]);
        let grads = &self.output_grad[out..out + n];
        // SAFETY: two lines of the input's gradient that belong to this task; a line is at least as long as its
        // windows, so they do not overlap.
        let grads_in = unsafe { lines.map(|at| to.slice(at, 2 * n)) };
        halve_grad(inputs, grads, grads_in);
    }
}

/// Gives the gradients of a line of windows of two by two pixels to the two lines of pixels in them.
#[inline(always)]
fn halve_grad<T: Number>(
    [top, bottom]: [&[T]; 2],
    grads: &[T],
    [to_top, to_bottom]: [&mut [T]; 2],
) {
    #[cfg(target_arch = "x86_64")]
    if T::DTYPE == DType::F32 && grads.len() >= super::sse::LANES {
        // SAFETY: `T` is the type that stands for `F32`, and all four lines hold two pixels for each window.
        return unsafe {
            super::sse::halve_grad(
                grads.len(),
                [top.as_ptr().cast(), bottom.as_ptr().cast()],
                grads.as_ptr().cast(),
                [to_top.as_mut_ptr().cast(), to_bottom.as_mut_ptr().cast()],
            )
        };
    }
    for (i, grad) in grads.iter().enumerate() {
        let [a, b, c, d] = [top[2 * i], top[2 * i + 1], bottom[2 * i], bottom[2 * i + 1]];
        let largest = [larger(larger(a, b), larger(c, d))];
        let mut grad = [*grad];
        [to_top[2 * i]] = take(&[a], &largest, &mut grad);
        [to_top[2 * i + 1]] = take(&[b], &largest, &mut grad);
        [to_bottom[2 * i]] = take(&[c], &largest, &mut grad);
        [to_bottom[2 * i + 1]] = take(&[d], &largest, &mut grad);
    }
}

#[derive(Clone, Copy)]
pub(super) struct MaxGradGrad<'a, T> {
    pub input: &'a [T],
    pub input_grad: &'a [T],
}

impl<T: Number> Op<T> for MaxGradGrad<'_, T> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        let largest = largest::<T, L>(self.input, window);
        // Windows whose largest pixel is found get no other.
        let (mut grads, mut left) = ([T::ZERO; L], [T::ONE; L]);
        for line in 0..window.lines {
            for col in 0..window.cols {
                let pixel = window.place(line, col);
                let found = take(at::<T, L>(self.input, pixel), &largest, &mut left);
                let grad: &[T; L] = at(self.input_grad, pixel);
                for l in 0..L {
                    grads[l] = if found[l] == T::ONE {
                        grad[l]
                    } else {
                        grads[l]
                    };
                }
            }
        }
        *part(to, out) = grads;
    }
}

pub(super) struct MaxArg<'a, T, I> {
    pub input: &'a [T],
    /// Elements after which places begin anew.
    pub image: usize,
    pub places: &'a Disjoint<'a, I>,
}

impl<T, I> Clone for MaxArg<'_, T, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, I> Copy for MaxArg<'_, T, I> {}

impl<T: Number, I: Number> Op<T> for MaxArg<'_, T, I> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        let mut best: [T; L] = *at(self.input, window.at);
        let mut places = [window.at; L];
        for line in 0..window.lines {
            for col in 0..window.cols {
                let pixel = window.place(line, col);
                let x: &[T; L] = at(self.input, pixel);
                for l in 0..L {
                    let larger = x[l] > best[l];
                    best[l] = if larger { x[l] } else { best[l] };
                    places[l] = if larger { pixel } else { places[l] };
                }
            }
        }
        *part(to, out) = best;
        let own: &mut [I; L] = part(self.places, out);
        for l in 0..L {
            own[l] = I::from_f64(((places[l] + l) % self.image) as f64);
        }
    }
}

/// The number of pixels.
#[inline(always)]
fn count<T: Float>(window: PoolWindow) -> T::Wide {
    T::Wide::from_f64((window.lines * window.cols) as f64)
}

/// The mean of each window, or its sum.
#[derive(Clone, Copy)]
pub(super) struct Avg<'a, T, const MEAN: bool> {
    pub input: &'a [T],
}

impl<T: Float, const MEAN: bool> Op<T> for Avg<'_, T, MEAN> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        let mut sum = [T::Wide::ZERO; L];
        for line in 0..window.lines {
            for col in 0..window.cols {
                let pixel = window.place(line, col);
                let x: &[T; L] = at(self.input, pixel);
                for l in 0..L {
                    sum[l] = sum[l] + x[l].widen();
                }
            }
        }
        if MEAN {
            let count = count::<T>(window);
            sum = sum.map(|sum| sum / count);
        }
        *part(to, out) = sum.map(T::narrow);
    }
}

/// The gradient of the mean of each window, or of its sum.
#[derive(Clone, Copy)]
pub(super) struct AvgGrad<'a, T, const MEAN: bool> {
    pub output_grad: &'a [T],
}

impl<T: Float, const MEAN: bool> Op<T> for AvgGrad<'_, T, MEAN> {
    const BACKWARD: bool = true;

    #[inline(always)]
    fn window<const L: usize>(self, window: PoolWindow, out: usize, to: &Disjoint<'_, T>) {
        let mut share = at::<T, L>(self.output_grad, out).map(T::widen);
        if MEAN {
            let count = count::<T>(window);
            share = share.map(|grad| grad / count);
        }
        for line in 0..window.lines {
            for col in 0..window.cols {
                let pixel = window.place(line, col);
                let grad: &mut [T; L] = part(to, pixel);
                for l in 0..L {
                    let before = if window.alone {
                        T::Wide::ZERO
                    } else {
                        grad[l].widen()
                    };
                    grad[l] = T::narrow(before + share[l]);
                }
            }
        }
    }
}
