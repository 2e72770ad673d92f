//! The filter's gradient of a depthwise convolution.

use crate::Vectorize;

use super::super::conv::ConvGeometry;
use super::super::scratch::{Scratch, for_chunks};
use super::super::{Cpu, Layout};
use super::axis::{LANES, axes, lanes};
use crate::number::{Arithmetic, Float};

/// Elements of a task that has a filter's gradient of its own.
const MIN_TASK_ELEMENTS: usize = 1 << 16;
/// Maximum number of such tasks.
const MAX_TASKS: usize = 64;

/// Lines of a task for the filter's gradient, where the channels come last.
fn lines(g: &ConvGeometry) -> usize {
    let least = (MIN_TASK_ELEMENTS / (g.out_w * g.out_c).max(1)).max(1);
    least.max((g.batch * g.out_h).div_ceil(MAX_TASKS))
}

/// Gradients that [`depthwise_filter_grad`] has before they are added up.
fn partials(g: &ConvGeometry) -> usize {
    let filter = g.k_h * g.k_w * g.out_c;
    match g.layout {
        Layout::Nhwc => (g.batch * g.out_h).div_ceil(lines(g)) * filter,
        Layout::Nchw => filter,
    }
}

/// Bytes of scratch memory that [`depthwise_filter_grad`] needs.
pub fn depthwise_filter_grad_scratch<T: Float>(g: &ConvGeometry) -> usize {
    Scratch::bytes::<T::Wide>(partials(g))
}

/// The gradient of the filter.
///
/// # Panics
/// Where a slice is not as long as `g` says, or the scratch memory too small.
pub fn depthwise_filter_grad<T: Float>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    x: &[T],
    dy: &[T],
    dw: &mut [T],
    scratch: &mut [u8],
) where
    T::Wide: bytemuck::Pod,
{
    if x.is_empty() || dy.is_empty() {
        return dw.fill(T::ZERO);
    }
    let sums = Scratch::new(scratch).take::<T::Wide>(partials(g));
    let taps = g.k_h * g.k_w;
    let chunk = match g.layout {
        Layout::Nhwc => taps * g.out_c,
        Layout::Nchw => taps,
    };
    for_chunks(cpu.pool, sums, chunk, &|task, sums| {
        cpu.isa.run_over::<T, _>(FilterGrad {
            g,
            task,
            x,
            dy,
            sums,
        });
    });
    match g.layout {
        Layout::Nhwc => {
            for (i, dw) in dw.iter_mut().enumerate() {
                let own = sums.iter().skip(i).step_by(chunk);
                *dw = T::narrow(own.fold(T::Wide::ZERO, |sum, &x| sum + x));
            }
        }
        Layout::Nchw => {
            for (i, dw) in dw.iter_mut().enumerate() {
                *dw = T::narrow(sums[i % g.out_c * taps + i / g.out_c]);
            }
        }
    }
}

/// The filter's gradient of some lines, where the channels come last, or of one channel.
struct FilterGrad<'a, T: Float> {
    g: &'a ConvGeometry,
    task: usize,
    x: &'a [T],
    dy: &'a [T],
    sums: &'a mut [T::Wide],
}

impl<T: Float> Vectorize for FilterGrad<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.sums.fill(T::Wide::ZERO);
        match self.g.layout {
            Layout::Nhwc => self.channels_last(),
            Layout::Nchw => self.channels_first(),
        }
    }
}

impl<T: Float> FilterGrad<'_, T> {
    #[inline(always)]
    fn channels_last(self) {
        let g = self.g;
        let [rows, columns] = axes(g);
        let each = g.out_c / g.in_c.max(1);
        let side_by_side = if each == 1 {
            g.out_c / LANES * LANES
        } else {
            0
        };
        let first = self.task * lines(g);
        for line in first..(g.batch * g.out_h).min(first + lines(g)) {
            let (image, oy) = (line / g.out_h, line % g.out_h);
            let seen = rows.seen(oy);
            for i in 0..seen.count {
                let (tap_y, iy) = seen.get(i);
                for tap_x in 0..g.k_w {
                    let (ox, end, ix) = columns.through(tap_x);
                    let from = ((image * g.in_h + iy) * g.in_w + ix) * g.in_c;
                    let to = (line * g.out_w + ox) * g.out_c;
                    let tap = (tap_y * g.k_w + tap_x) * g.out_c;
                    let (step, count) = (columns.stride * g.in_c, end - ox);
                    for c in (0..side_by_side).step_by(LANES) {
                        let mut sums = [T::Wide::ZERO; LANES];
                        for k in 0..count {
                            let x: [T::Wide; LANES] = lanes(self.x, from + k * step + c, 1);
                            let dy: [T::Wide; LANES] = lanes(self.dy, to + k * g.out_c + c, 1);
                            for l in 0..LANES {
                                sums[l] = sums[l] + x[l] * dy[l];
                            }
                        }
                        let own = &mut self.sums[tap + c..tap + c + LANES];
                        for (own, sum) in own.iter_mut().zip(sums) {
                            *own = *own + sum;
                        }
                    }
                    for c in side_by_side..g.out_c {
                        let mut sum = T::Wide::ZERO;
                        for k in 0..count {
                            let x = self.x[from + k * step + c / each].widen();
                            sum = sum + x * self.dy[to + k * g.out_c + c].widen();
                        }
                        self.sums[tap + c] = self.sums[tap + c] + sum;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn channels_first(self) {
        let (g, channel) = (self.g, self.task);
        let [rows, columns] = axes(g);
        let each = g.out_c / g.in_c.max(1);
        for image in 0..g.batch {
            let from = (image * g.in_c + channel / each) * g.in_h;
            let to = (image * g.out_c + channel) * g.out_h;
            for oy in 0..g.out_h {
                let seen = rows.seen(oy);
                for i in 0..seen.count {
                    let (tap_y, iy) = seen.get(i);
                    for tap_x in 0..g.k_w {
                        let (ox, end, ix) = columns.through(tap_x);
                        let (x, dy) = ((from + iy) * g.in_w + ix, (to + oy) * g.out_w + ox);
                        let sum = self.product(x, columns.stride, dy, end - ox);
                        let own = &mut self.sums[tap_y * g.k_w + tap_x];
                        *own = *own + sum;
                    }
                }
            }
        }
    }

    /// The product of `count` pixels `step` apart and a piece of a line of gradients.
    #[inline(always)]
    fn product(&self, x: usize, step: usize, dy: usize, count: usize) -> T::Wide {
        let mut sums = [T::Wide::ZERO; LANES];
        let whole = count / LANES * LANES;
        for k in (0..whole).step_by(LANES) {
            let a: [T::Wide; LANES] = lanes(self.x, x + k * step, step);
            let b: [T::Wide; LANES] = lanes(self.dy, dy + k, 1);
            for l in 0..LANES {
                sums[l] = sums[l] + a[l] * b[l];
            }
        }
        for k in whole..count {
            sums[k - whole] =
                sums[k - whole] + self.x[x + k * step].widen() * self.dy[dy + k].widen();
        }
        sums.iter().fold(T::Wide::ZERO, |sum, &x| sum + x)
    }
}
