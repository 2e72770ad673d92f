//! Pooling: the largest element or the mean of each window, and their gradients.
//!
//! A task is some channels of one image, or, where each window has a result of its own, some lines of them: windows of
//! a task may overlap, and the outputs of tasks do not. With the channels last, they are the vector; with the channels
//! first, where windows tile the image, the columns are.
//!
//! ```
//! use thalweg_cpu::pooling::{PoolGeometry, max_pool};
//! use thalweg_cpu::{Cpu, Isa, Layout, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // Two windows of 2 x 2 pixels, side by side.
//! let g = PoolGeometry {
//!     batch: 1, in_h: 2, in_w: 4, channels: 1, out_h: 1, out_w: 2,
//!     k_h: 2, k_w: 2, stride: [2, 2], pad_top: 0, pad_left: 0, layout: Layout::Nhwc,
//! };
//! let image = [1.0f32, 2.0, 5.0, 6.0, 3.0, 4.0, 8.0, 7.0];
//! let mut y = [0.0; 2];
//! max_pool(cpu, &g, &image, &mut y);
//! assert_eq!(y, [4.0, 8.0]);
//! ```

mod geometry;
mod part;
#[cfg(target_arch = "x86_64")]
mod sse;
mod stored_argmax;
#[cfg(test)]
mod tests;
mod window;

use super::scratch::Disjoint;
use super::{Cpu, Layout};
use crate::number::{Float, Number};
pub use geometry::PoolGeometry;
use part::run;
use stored_argmax::{MaxWhich, WhichGrad};
use window::{Avg, AvgGrad, Max, MaxArg, MaxGrad, MaxGradGrad};

/// The largest element of each window; NaN if one of them is.
///
/// # Panics
/// If a slice is not as long as the geometry says, or a window lies wholly outside its image.
pub fn max_pool<T: Number>(cpu: Cpu<'_>, g: &PoolGeometry, input: &[T], output: &mut [T]) {
    g.check(input.len(), output.len());
    run(cpu, g, Max { input }, output);
}

/// The gradient of [`max_pool`]: that of each window goes to the first of its largest elements, line by line.
///
/// # Panics
/// As [`max_pool`].
pub fn max_pool_grad<T: Number>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    input: &[T],
    output_grad: &[T],
    input_grad: &mut [T],
) {
    g.check(input.len(), output_grad.len());
    g.check(input_grad.len(), output_grad.len());
    run(cpu, g, MaxGrad { input, output_grad }, input_grad);
}

/// Of each window, the gradient of the first of its largest elements: the gradient of [`max_pool_grad`] to its
/// `output_grad`.
///
/// # Panics
/// As [`max_pool`].
pub fn max_pool_grad_grad<T: Number>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    input: &[T],
    input_grad: &[T],
    output: &mut [T],
) {
    g.check(input.len(), output.len());
    g.check(input_grad.len(), output.len());
    run(cpu, g, MaxGradGrad { input, input_grad }, output);
}

/// The largest element of each window, of those that follow no NaN, and where it is: its place, which begins anew after
/// `image` elements.
///
/// # Panics
/// As [`max_pool`], and where the channels do not come last.
pub fn max_pool_argmax<T: Number, I: Number>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    input: &[T],
    image: usize,
    output: &mut [T],
    places: &mut [I],
) {
    g.check(input.len(), output.len());
    g.check(input.len(), places.len());
    assert!(g.layout == Layout::Nhwc, "the channels come last");
    let places = &Disjoint::new(places);
    run(
        cpu,
        g,
        MaxArg {
            input,
            image,
            places,
        },
        output,
    );
}

/// The largest element of each window, the first NaN if one of them is, and its number in the window: see
/// [`max_pool_grad_stored_argmax`].
///
/// # Panics
/// As [`max_pool`].
pub fn max_pool_store_argmax<T: Number>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    input: &[T],
    output: &mut [T],
    which: &mut [u8],
) {
    g.check(input.len(), output.len());
    g.check(input.len(), which.len());
    let which = &Disjoint::new(which);
    run(cpu, g, MaxWhich { input, which }, output);
}

/// Computes [`max_pool_grad`] from the numbers that [`max_pool_store_argmax`] stored. Windows have at most 256 pixels.
///
/// # Panics
/// As [`max_pool`].
pub fn max_pool_grad_stored_argmax<T: Number>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    output_grad: &[T],
    which: &[u8],
    input_grad: &mut [T],
) {
    g.check(input_grad.len(), output_grad.len());
    g.check(input_grad.len(), which.len());
    run(cpu, g, WhichGrad { output_grad, which }, input_grad);
}

/// The mean of each window, of the elements that lie inside the image.
///
/// # Panics
/// As [`max_pool`].
pub fn avg_pool<T: Float>(cpu: Cpu<'_>, g: &PoolGeometry, input: &[T], output: &mut [T]) {
    g.check(input.len(), output.len());
    run(cpu, g, Avg::<T, true> { input }, output);
}

/// The gradient of [`avg_pool`]: that of each window is spread evenly over its elements inside the image.
///
/// # Panics
/// As [`max_pool`].
pub fn avg_pool_grad<T: Float>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    output_grad: &[T],
    input_grad: &mut [T],
) {
    g.check(input_grad.len(), output_grad.len());
    run(cpu, g, AvgGrad::<T, true> { output_grad }, input_grad);
}

/// The sum of each window, of the elements that lie inside the image.
pub(crate) fn sum_pool<T: Float>(cpu: Cpu<'_>, g: &PoolGeometry, input: &[T], output: &mut [T]) {
    g.check(input.len(), output.len());
    run(cpu, g, Avg::<T, false> { input }, output);
}

/// The gradient of [`sum_pool`]: that of each window goes to each of its elements inside the image.
pub(crate) fn sum_pool_grad<T: Float>(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    output_grad: &[T],
    input_grad: &mut [T],
) {
    g.check(input_grad.len(), output_grad.len());
    run(cpu, g, AvgGrad::<T, false> { output_grad }, input_grad);
}
