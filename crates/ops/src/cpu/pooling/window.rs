//! What is done with a window.

use thalweg_device::parallel::Disjoint;

use crate::number::{Float, Number};

/// The pixels of a window inside the image.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Where the first pixel lies.
    pub at: usize,
    pub lines: usize,
    pub cols: usize,
    /// From a line to the next.
    pub line: usize,
    /// From a pixel to the next.
    pub pixel: usize,
}

impl Window {
    /// Where its pixels lie, line by line.
    #[inline(always)]
    fn each(self, mut body: impl FnMut(usize)) {
        for i in 0..self.lines {
            for j in 0..self.cols {
                body(self.at + i * self.line + j * self.pixel);
            }
        }
    }
}

/// A pooling. What it writes of `to` is the caller's to give away: no other thread touches it.
pub(super) trait Op<T>: Copy + Sync {
    /// Whether it writes to images of the input's shape, which hold zeros before, or of the output's.
    const BACKWARD: bool;

    /// Handles `L` channels of a window, whose place in the output is `out`.
    fn window<const L: usize>(self, window: Window, out: usize, to: &Disjoint<'_, T>);

    /// Handles a line of `n` windows of two by two pixels, of which `first` is the first.
    #[inline(always)]
    fn halve(self, first: Window, out: usize, n: usize, to: &Disjoint<'_, T>) {
        for i in 0..n {
            let window = Window {
                at: first.at + 2 * i,
                ..first
            };
            self.window::<1>(window, out + i, to);
        }
    }
}

/// `L` elements of a slice.
#[inline(always)]
fn at<T, const L: usize>(from: &[T], at: usize) -> &[T; L] {
    (&from[at..at + L])
        .try_into()
        .expect("a slice of the array's length")
}

/// `L` elements of the result.
#[inline(always)]
fn part<'a, T, const L: usize>(to: &'a Disjoint<'_, T>, at: usize) -> &'a mut [T; L] {
    // SAFETY: a window writes elements of its own task, and drops one part before it takes the next.
    let part = unsafe { to.slice(at, L) };
    part.try_into().expect("a slice of the array's length")
}

/// A number that is not equal to itself is no number; integers always are.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: Number>(x: T) -> bool {
    x != x
}

/// The largest, or NaN.
#[inline(always)]
fn larger<T: Number>(best: T, x: T) -> T {
    if x > best || is_nan(x) { x } else { best }
}

/// The largest of `L` channels.
#[inline(always)]
fn largest<T: Number, const L: usize>(input: &[T], window: Window) -> [T; L] {
    let mut best = *at(input, window.at);
    window.each(|pixel| {
        let x: &[T; L] = at(input, pixel);
        for l in 0..L {
            best[l] = larger(best[l], x[l]);
        }
    });
    best
}

/// What a pixel gets of a gradient of which `left` is still to be given, and what is left then.
#[inline(always)]
fn give<T: Number>(x: T, largest: T, left: T) -> (T, T) {
    // Where one is NaN, so is the largest, and the first NaN is meant.
    if x == largest || is_nan(x) {
        (left, T::ZERO)
    } else {
        (T::ZERO, left)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Max<'a, T> {
    pub input: &'a [T],
}

impl<T: Number> Op<T> for Max<'_, T> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: Window, out: usize, to: &Disjoint<'_, T>) {
        *part(to, out) = largest::<T, L>(self.input, window);
    }

    #[inline(always)]
    fn halve(self, first: Window, out: usize, n: usize, to: &Disjoint<'_, T>) {
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
    fn window<const L: usize>(self, window: Window, out: usize, to: &Disjoint<'_, T>) {
        let largest = largest::<T, L>(self.input, window);
        let mut left = *at::<T, L>(self.output_grad, out);
        window.each(|pixel| {
            let (x, grad): (&[T; L], &mut [T; L]) = (at(self.input, pixel), part(to, pixel));
            for l in 0..L {
                let (given, rest) = give(x[l], largest[l], left[l]);
                (grad[l], left[l]) = (grad[l].add(given), rest);
            }
        });
    }

    #[inline(always)]
    fn halve(self, first: Window, out: usize, n: usize, to: &Disjoint<'_, T>) {
        let top = self.input[first.at..][..2 * n].as_chunks::<2>().0;
        let bottom = self.input[first.at + first.line..][..2 * n]
            .as_chunks::<2>()
            .0;
        // SAFETY: two lines of the input's gradient that belong to this task; windows are two wide, so the lines are
        // at least as far apart as they are long.
        let (to_top, to_bottom) = unsafe {
            (
                to.slice(first.at, 2 * n),
                to.slice(first.at + first.line, 2 * n),
            )
        };
        let to = to_top
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(to_bottom.as_chunks_mut::<2>().0);
        let grads = &self.output_grad[out..out + n];
        for ((((to_top, to_bottom), top), bottom), &grad) in to.zip(top).zip(bottom).zip(grads) {
            let largest = larger(larger(top[0], top[1]), larger(bottom[0], bottom[1]));
            let (a, left) = give(top[0], largest, grad);
            let (b, left) = give(top[1], largest, left);
            let (c, left) = give(bottom[0], largest, left);
            let (d, _) = give(bottom[1], largest, left);
            (*to_top, *to_bottom) = ([a, b], [c, d]);
        }
    }
}

/// The number of pixels.
#[inline(always)]
fn count<T: Float>(window: Window) -> T::Wide {
    T::Wide::from_f64((window.lines * window.cols) as f64)
}

#[derive(Clone, Copy)]
pub(super) struct Avg<'a, T> {
    pub input: &'a [T],
}

impl<T: Float> Op<T> for Avg<'_, T> {
    const BACKWARD: bool = false;

    #[inline(always)]
    fn window<const L: usize>(self, window: Window, out: usize, to: &Disjoint<'_, T>) {
        let mut sum = [T::Wide::ZERO; L];
        window.each(|pixel| {
            let x: &[T; L] = at(self.input, pixel);
            for l in 0..L {
                sum[l] = sum[l] + x[l].widen();
            }
        });
        let count = count::<T>(window);
        *part(to, out) = sum.map(|sum| T::narrow(sum / count));
    }
}

#[derive(Clone, Copy)]
pub(super) struct AvgGrad<'a, T> {
    pub output_grad: &'a [T],
}

impl<T: Float> Op<T> for AvgGrad<'_, T> {
    const BACKWARD: bool = true;

    #[inline(always)]
    fn window<const L: usize>(self, window: Window, out: usize, to: &Disjoint<'_, T>) {
        let count = count::<T>(window);
        let share = at::<T, L>(self.output_grad, out).map(|grad| grad.widen() / count);
        window.each(|pixel| {
            let grad: &mut [T; L] = part(to, pixel);
            for l in 0..L {
                grad[l] = T::narrow(grad[l].widen() + share[l]);
            }
        });
    }
}
