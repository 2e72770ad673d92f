//! Pooling of volumes: the largest element or the mean of each window, and their gradients.
//!
//! Windows are boxes without dilation. The largest element and the sum are taken in planes first, by
//! [`pooling`](crate::pooling), and of these along the depth. A sum is divided once, so that a mean is rounded once.
//!
//! ```
//! use thalweg_cpu::pooling3d::{Pool3dGeometry, max_pool3d, pool3d_scratch};
//! use thalweg_cpu::window_axis::WindowAxis;
//! use thalweg_cpu::{Cpu, Isa, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // One window of 2 x 2 x 1 voxels.
//! let two = WindowAxis { input: 2, output: 1, window: 2, stride: 2, dilation: 1, pad: 0 };
//! let one = WindowAxis { input: 1, window: 1, ..two };
//! let g = Pool3dGeometry { outer: 1, axes: [two, two, one], inner: 1 };
//! let (mut y, mut scratch) = ([0.0f32], vec![0; pool3d_scratch::<f32>(&g)]);
//! max_pool3d(cpu, &g, &[1.0, 4.0, 2.0, 3.0], &mut y, &mut scratch);
//! assert_eq!(y, [4.0]);
//! ```

use std::ops::Range;

use bytemuck::Pod;

use crate::number::{Number, Wide};
use crate::pooling::{PoolGeometry, max_pool, sum_pool, sum_pool_grad};
use crate::scratch::{Scratch, for_chunks};
use crate::window_axis::WindowAxis;
use crate::{Cpu, Layout};

/// Elements this near to a window's result are its largest ones, in gradients, as in TensorFlow.
const NEAR: f64 = 1e-5;

/// The shape of a pooling of volumes: `outer x depth x lines x columns x inner` elements, of which the windows move
/// over the three in the middle. Each window sees at least one voxel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool3dGeometry {
    /// Volumes, and their channels where these come first.
    pub outer: usize,
    /// Depth, lines and columns.
    pub axes: [WindowAxis; 3],
    /// Channels, where they come last.
    pub inner: usize,
}

impl Pool3dGeometry {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product::<usize>() * self.outer * self.inner
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product::<usize>() * self.outer * self.inner
    }

    /// Elements of the input whose planes are pooled.
    fn planes_len(&self) -> usize {
        let [depth, lines, cols] = self.axes;
        self.outer * depth.input * lines.output * cols.output * self.inner
    }

    fn check(&self, input: usize, output: usize) {
        assert!(
            input == self.input_len() && output == self.output_len(),
            "operands do not fit {self:?}"
        );
    }

    /// The pooling of each plane.
    fn in_planes(&self) -> PoolGeometry {
        let [depth, lines, cols] = self.axes;
        geometry(self.outer * depth.input, [lines, cols], self.inner)
    }

    /// The pooling of pooled planes along the depth.
    fn along_depth(&self) -> PoolGeometry {
        let [depth, lines, cols] = self.axes;
        let one = WindowAxis {
            input: 1,
            output: 1,
            window: 1,
            stride: 1,
            dilation: 1,
            pad: 0,
        };
        let plane = lines.output * cols.output * self.inner;
        geometry(self.outer, [depth, one], plane)
    }
}

/// The pooling of images along two axes.
fn geometry(batch: usize, [lines, cols]: [WindowAxis; 2], channels: usize) -> PoolGeometry {
    PoolGeometry {
        batch,
        in_h: lines.input,
        in_w: cols.input,
        channels,
        out_h: lines.output,
        out_w: cols.output,
        k_h: lines.window,
        k_w: cols.window,
        stride: [lines.stride, cols.stride],
        pad_top: lines.pad,
        pad_left: cols.pad,
        // Of one channel, both layouts are the same; that of planes computes columns side by side.
        layout: match channels {
            1 => Layout::Nchw,
            _ => Layout::Nhwc,
        },
    }
}

/// The scratch that [`max_pool3d`] and [`avg_pool3d`] need, in bytes.
pub fn pool3d_scratch<T>(g: &Pool3dGeometry) -> usize {
    Scratch::bytes::<T>(g.planes_len())
}

/// The scratch that [`avg_pool3d_grad`] needs, in bytes.
pub fn avg_pool3d_grad_scratch<T>(g: &Pool3dGeometry) -> usize {
    Scratch::bytes::<T>(g.planes_len()).saturating_add(Scratch::bytes::<T>(g.output_len()))
}

/// Divides each window's number by the count of its elements inside the volume.
fn divide_by_counts<T: Wide + Pod>(cpu: Cpu<'_>, g: &Pool3dGeometry, output: &mut [T]) {
    let [depth, lines, cols] = g.axes;
    for_chunks(cpu.pool, output, cols.output * g.inner, &|line, to| {
        let z = line / lines.output % depth.output;
        let area = depth.places(z).len() * lines.places(line % lines.output).len();
        for (x, voxel) in to.chunks_exact_mut(g.inner).enumerate() {
            let count = T::from_f64((area * cols.places(x).len()) as f64);
            for number in voxel {
                *number = *number / count;
            }
        }
    });
}

/// Pooling of images.
type PoolFn<T> = fn(Cpu<'_>, &PoolGeometry, &[T], &mut [T]);

/// Pools planes, and what comes of them along the depth.
fn twice<T: Pod>(
    cpu: Cpu<'_>,
    g: &Pool3dGeometry,
    input: &[T],
    output: &mut [T],
    scratch: &mut [u8],
    pool: PoolFn<T>,
) {
    g.check(input.len(), output.len());
    if output.is_empty() {
        return;
    }
    let planes = Scratch::new(scratch).take::<T>(g.planes_len());
    pool(cpu, &g.in_planes(), input, planes);
    pool(cpu, &g.along_depth(), planes, output);
}

/// The largest element of each window; NaN if one of them is.
///
/// # Panics
/// If a slice is not as long as the geometry says, or the scratch is too small.
pub fn max_pool3d<T: Number + Pod>(
    cpu: Cpu<'_>,
    g: &Pool3dGeometry,
    input: &[T],
    output: &mut [T],
    scratch: &mut [u8],
) {
    twice(cpu, g, input, output, scratch, max_pool);
}

/// The mean of each window, of the elements that lie inside the volume.
///
/// # Panics
/// As [`max_pool3d`].
pub fn avg_pool3d<T: Wide + Pod>(
    cpu: Cpu<'_>,
    g: &Pool3dGeometry,
    input: &[T],
    output: &mut [T],
    scratch: &mut [u8],
) {
    twice(cpu, g, input, output, scratch, sum_pool);
    if !output.is_empty() {
        divide_by_counts(cpu, g, output);
    }
}

/// The gradient of [`avg_pool3d`]: that of each window is spread evenly over its elements inside the volume.
///
/// # Panics
/// As [`max_pool3d`].
pub fn avg_pool3d_grad<T: Wide + Pod>(
    cpu: Cpu<'_>,
    g: &Pool3dGeometry,
    output_grad: &[T],
    input_grad: &mut [T],
    scratch: &mut [u8],
) {
    g.check(input_grad.len(), output_grad.len());
    if output_grad.is_empty() {
        return input_grad.fill(T::ZERO);
    }
    let mut scratch = Scratch::new(scratch);
    let planes = scratch.take::<T>(g.planes_len());
    let shares = scratch.take::<T>(g.output_len());
    shares.copy_from_slice(output_grad);
    divide_by_counts(cpu, g, shares);
    sum_pool_grad(cpu, &g.along_depth(), shares, planes);
    sum_pool_grad(cpu, &g.in_planes(), planes, input_grad);
}

/// The lines of a window or of an element's windows, and where they lie among all lines.
fn lines_of(
    outer: usize,
    [depth, lines]: [Range<usize>; 2],
    [planes, per_plane]: [usize; 2],
) -> impl Iterator<Item = usize> {
    depth.flat_map(move |z| {
        let plane = (outer * planes + z) * per_plane;
        lines.clone().map(move |y| plane + y)
    })
}

/// The gradient of [`max_pool3d`]: that of each window goes to all its elements that are near to `output`, its largest
/// one, as in TensorFlow.
///
/// # Panics
/// If a slice is not as long as the geometry says.
pub fn max_pool3d_grad<T: Wide>(
    cpu: Cpu<'_>,
    g: &Pool3dGeometry,
    [input, output, output_grad]: [&[T]; 3],
    input_grad: &mut [T],
) {
    g.check(input.len(), output.len());
    g.check(input_grad.len(), output_grad.len());
    let ([depth, lines, cols], inner) = (g.axes, g.inner);
    let near = T::from_f64(NEAR);
    // A task has one line of the input, so that no two write one number.
    for_chunks(cpu.pool, input_grad, cols.input * inner, &|line, to| {
        let (plane, y) = (line / lines.input, line % lines.input);
        let (outer, z) = (plane / depth.input, plane % depth.input);
        let from = &input[line * cols.input * inner..][..cols.input * inner];
        to.fill(T::ZERO);
        let windows = [depth.windows(z), lines.windows(y)];
        for out_line in lines_of(outer, windows, [depth.output, lines.output]) {
            for x in 0..cols.input {
                for out_x in cols.windows(x) {
                    let at = (out_line * cols.output + out_x) * inner;
                    for c in 0..inner {
                        let own = x * inner + c;
                        if Wide::abs(from[own] - output[at + c]) < near {
                            to[own] = to[own] + output_grad[at + c];
                        }
                    }
                }
            }
        }
    });
}

/// Of each window, the gradient of the first of its elements that equals `output`, its largest one; zero where none is.
///
/// # Panics
/// If a slice is not as long as the geometry says.
pub fn max_pool3d_grad_grad<T: Number>(
    cpu: Cpu<'_>,
    g: &Pool3dGeometry,
    [input, output, input_grad]: [&[T]; 3],
    output_grad: &mut [T],
) {
    g.check(input.len(), output.len());
    g.check(input_grad.len(), output_grad.len());
    let ([depth, lines, cols], inner) = (g.axes, g.inner);
    for_chunks(cpu.pool, output_grad, cols.output * inner, &|line, to| {
        let (plane, y) = (line / lines.output, line % lines.output);
        let (outer, z) = (plane / depth.output, plane % depth.output);
        let seen = [depth.places(z), lines.places(y)];
        for (i, to) in to.iter_mut().enumerate() {
            let (x, c) = (i / inner, i % inner);
            let largest = output[line * cols.output * inner + i];
            let mut elements =
                lines_of(outer, seen.clone(), [depth.input, lines.input]).flat_map(|line| {
                    cols.places(x)
                        .map(move |x| (line * cols.input + x) * inner + c)
                });
            let first = elements.find(|&at| input[at] == largest);
            *to = first.map_or(T::ZERO, |at| input_grad[at]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, ThreadPool};

    fn axis(input: usize, window: usize, stride: usize, pad: usize) -> WindowAxis {
        WindowAxis {
            input,
            output: (input + 2 * pad - window) / stride + 1,
            window,
            stride,
            dilation: 1,
            pad,
        }
    }

    fn shapes() -> Vec<Pool3dGeometry> {
        let axes = [axis(4, 2, 2, 0), axis(5, 3, 1, 1), axis(6, 3, 2, 1)];
        [(2, 3), (3, 1), (1, 17)]
            .map(|(outer, inner)| Pool3dGeometry { outer, axes, inner })
            .to_vec()
    }

    /// For each element of the output, the elements of its window.
    fn windows(g: &Pool3dGeometry) -> Vec<Vec<usize>> {
        let [a, b, c] = g.axes;
        let mut all = Vec::new();
        for outer in 0..g.outer {
            for z in 0..a.output {
                for y in 0..b.output {
                    for x in 0..c.output {
                        for channel in 0..g.inner {
                            let mut seen = Vec::new();
                            for z in a.places(z) {
                                for y in b.places(y) {
                                    seen.extend(c.places(x).map(|x| {
                                        let line = (outer * a.input + z) * b.input + y;
                                        (line * c.input + x) * g.inner + channel
                                    }));
                                }
                            }
                            all.push(seen);
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn a_mean_is_rounded_once() {
        let pool = ThreadPool::new(1);
        let cpu = Cpu {
            pool: &pool,
            isa: Isa::detect(),
        };
        let axes = [axis(3, 3, 1, 1), axis(6, 3, 1, 1), axis(2, 3, 1, 1)];
        let g = Pool3dGeometry {
            outer: 1,
            axes,
            inner: 1,
        };
        // Sums of these are exact.
        let x: Vec<f32> = (0..36).map(|i| i as f32 + 1.0 / 1024.0).collect();
        let mut y = vec![0.0; x.len()];
        avg_pool3d(cpu, &g, &x, &mut y, &mut vec![0; pool3d_scratch::<f32>(&g)]);
        for (mean, seen) in y.iter().zip(windows(&g)) {
            let sum: f32 = seen.iter().map(|&i| x[i]).sum();
            assert_eq!(*mean, sum / seen.len() as f32);
        }
    }

    #[test]
    fn pools_of_volumes_are_their_definition() {
        for threads in [1, 3] {
            let pool = ThreadPool::new(threads);
            let cpu = Cpu {
                pool: &pool,
                isa: Isa::detect(),
            };
            for g in shapes() {
                let x: Vec<f64> = (0..g.input_len()).map(|i| ((i * 37) % 11) as f64).collect();
                let dy: Vec<f64> = (0..g.output_len()).map(|i| (i % 7) as f64).collect();
                let windows = windows(&g);
                let mut scratch = vec![0; avg_pool3d_grad_scratch::<f64>(&g)];
                let mut y = vec![0.0; g.output_len()];
                max_pool3d(cpu, &g, &x, &mut y, &mut scratch);
                let largest = |seen: &Vec<usize>| seen.iter().map(|&i| x[i]).fold(-1.0, f64::max);
                assert_eq!(y, windows.iter().map(largest).collect::<Vec<_>>());

                let (mut dx, mut wanted) = (vec![9.0; x.len()], vec![0.0; x.len()]);
                max_pool3d_grad(cpu, &g, [&x, &y, &dy], &mut dx);
                let mut again = vec![9.0; y.len()];
                max_pool3d_grad_grad(cpu, &g, [&x, &y, &x], &mut again);
                for (o, seen) in windows.iter().enumerate() {
                    seen.iter()
                        .filter(|&&i| x[i] == y[o])
                        .for_each(|&i| wanted[i] += dy[o]);
                }
                assert_eq!((dx, &again), (wanted, &y));

                let mut mean = vec![0.0; y.len()];
                avg_pool3d(cpu, &g, &x, &mut mean, &mut scratch);
                let (mut dx, mut wanted) = (vec![9.0; x.len()], vec![0.0; x.len()]);
                avg_pool3d_grad(cpu, &g, &dy, &mut dx, &mut scratch);
                for (o, seen) in windows.iter().enumerate() {
                    let sum: f64 = seen.iter().map(|&i| x[i]).sum();
                    assert!((mean[o] - sum / seen.len() as f64).abs() < 1e-12);
                    seen.iter()
                        .for_each(|&i| wanted[i] += dy[o] / seen.len() as f64);
                }
                assert!(dx.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-12));
            }
        }
    }
}
