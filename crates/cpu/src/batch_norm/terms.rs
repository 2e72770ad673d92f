//! Terms of the sums of each channel: moments, and products with gradients.

use super::channels::spread;
use super::sums::Sums;
use crate::number::Float;

/// Number of sums of a line that are taken side by side.
const LANES: usize = 64;

/// Adds `f(a, b, column)` of each element to the sum of its column.
#[inline(always)]
fn add_rows<T: Float<Wide = f32>>(
    [a, b]: [&[T]; 2],
    column: &[f32],
    sums: &mut [f32],
    f: impl Fn(f32, f32, f32) -> f32,
) {
    let n = sums.len();
    let column = &column[..n];
    let (fours, rest) = (a.chunks_exact(4 * n), a.len() / (4 * n) * (4 * n));
    for (a, b) in fours.zip(b.chunks_exact(4 * n)) {
        let (a0, a1, a2, a3) = (&a[..n], &a[n..2 * n], &a[2 * n..3 * n], &a[3 * n..4 * n]);
        let (b0, b1, b2, b3) = (&b[..n], &b[n..2 * n], &b[2 * n..3 * n], &b[3 * n..4 * n]);
        for i in 0..n {
            let term = |a: &[T], b: &[T]| f(a[i].widen(), b[i].widen(), column[i]);
            sums[i] += (term(a0, b0) + term(a1, b1)) + (term(a2, b2) + term(a3, b3));
        }
    }
    for (a, b) in a[rest..].chunks(n).zip(b[rest..].chunks(n)) {
        for (((sum, a), b), column) in sums.iter_mut().zip(a).zip(b).zip(column) {
            *sum += f(a.widen(), b.widen(), *column);
        }
    }
}

/// The sum of `f(a, b)` over a line.
#[inline(always)]
fn add_line<T: Float<Wide = f32>>([a, b]: [&[T]; 2], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            lanes[i] += f(a[i].widen(), b[i].widen());
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += f(a.widen(), b.widen());
    }
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Adds the columns beyond the channels to their channels.
#[inline(always)]
fn fold(columns: &mut [f32], channels: usize) {
    let (first, others) = columns.split_at_mut(channels);
    for other in others.chunks_exact(channels) {
        for (sum, other) in first.iter_mut().zip(other) {
            *sum += other;
        }
    }
}

/// Of each channel: the sum; of its blocks, the sum of squares around their own means; and the sum of the squares of
/// their sums, each divided by the block's elements.
pub struct Moments<'a, T>(pub &'a [T]);

impl<T: Float<Wide = f32>> Sums<3> for Moments<'_, T> {
    type Elem = T;

    #[inline(always)]
    fn rows(&self, at: usize, len: usize, temp: &mut [f32], sums: &mut [[f64; 3]]) {
        let x = &self.0[at..at + len];
        let channels = sums.len();
        let rows = (len / channels) as f32;
        let columns = temp.len() / 3;
        let (mean, squares) = temp[..2 * columns].split_at_mut(columns);
        squares.fill(0.0);
        mean.fill(0.0);
        // The columns play no part in a plain sum.
        add_rows([x, x], squares, mean, |x, _, _| x);
        fold(mean, channels);
        for (sums, sum) in sums.iter_mut().zip(mean.iter_mut()) {
            let whole = f64::from(*sum);
            sums[0] += whole;
            sums[2] += whole * whole / f64::from(rows);
            *sum /= rows;
        }
        spread(mean, channels);
        add_rows([x, x], mean, squares, |x, _, mean| (x - mean) * (x - mean));
        fold(squares, channels);
        for (sums, squares) in sums.iter_mut().zip(squares.iter()) {
            sums[1] += f64::from(*squares);
        }
    }

    #[inline(always)]
    fn line(&self, at: usize, len: usize, _: usize, sums: &mut [f64; 3]) {
        let x = &self.0[at..at + len];
        let sum = add_line([x, x], |x, _| x);
        let mean = sum / len as f32;
        let squares = add_line([x, x], |x, _| (x - mean) * (x - mean));
        sums[0] += f64::from(sum);
        sums[1] += f64::from(squares);
        sums[2] += f64::from(sum) * f64::from(sum) / len as f64;
    }
}

/// Returns the mean of a channel of `count` elements and its squares' sum around it, from the sums of [`Moments`].
pub fn moments([sum, within, between]: [f64; 3], count: usize) -> (f64, f64) {
    let mean = sum / count as f64;
    // Means of blocks differ from the whole one by at least nothing.
    let between = between - sum * mean;
    (mean, within + if between < 0.0 { 0.0 } else { between })
}

/// Of each channel: the sum of the gradients, and of their products with the elements' distance from the mean.
pub struct Products<'a, T> {
    /// The elements.
    pub x: &'a [T],
    /// The gradients.
    pub dy: &'a [T],
    /// By column.
    pub mean: &'a [f32],
}

impl<T: Float<Wide = f32>> Sums<2> for Products<'_, T> {
    type Elem = T;

    #[inline(always)]
    fn rows(&self, at: usize, len: usize, temp: &mut [f32], sums: &mut [[f64; 2]]) {
        let (x, dy) = (&self.x[at..at + len], &self.dy[at..at + len]);
        let columns = temp.len() / 2;
        let (gradients, products) = temp.split_at_mut(columns);
        gradients.fill(0.0);
        products.fill(0.0);
        add_rows([dy, dy], self.mean, gradients, |dy, _, _| dy);
        add_rows([x, dy], self.mean, products, |x, dy, mean| dy * (x - mean));
        fold(gradients, sums.len());
        fold(products, sums.len());
        for ((sums, gradient), product) in sums.iter_mut().zip(gradients).zip(products) {
            sums[0] += f64::from(*gradient);
            sums[1] += f64::from(*product);
        }
    }

    #[inline(always)]
    fn line(&self, at: usize, len: usize, channel: usize, sums: &mut [f64; 2]) {
        let (x, dy) = (&self.x[at..at + len], &self.dy[at..at + len]);
        let mean = self.mean[channel];
        sums[0] += f64::from(add_line([dy, dy], |dy, _| dy));
        sums[1] += f64::from(add_line([x, dy], |x, dy| dy * (x - mean)));
    }
}
