//! The filter's gradient of a depthwise convolution.

use super::axis::{Through, axes, through_taps};
use super::channels_last::{AddProducts, LineProducts};
use super::multiplier::{filters, repeat};
use crate::conv::{ConvGeometry, Real};
use crate::scratch::{Scratch, for_chunks};
use crate::vector::run_in_vectors;
use crate::{Cpu, Isa, Layout, Vectorize};

/// Elements of a task that has a filter's gradient of its own.
const MIN_TASK_ELEMENTS: usize = 1 << 16;
/// Maximum number of such tasks.
const MAX_TASKS: usize = 64;

/// Lines of a task for the filter's gradient, where the channels come last.
fn lines(g: &ConvGeometry) -> usize {
    let least = (MIN_TASK_ELEMENTS / (g.out_w * g.out_c).max(1)).max(1);
    least.max((g.batch * g.out_h).div_ceil(MAX_TASKS))
}

/// Numbers of a task: its gradients, and where an input channel has several filters, a line of pixels repeated for each.
fn numbers(g: &ConvGeometry) -> usize {
    let taps = g.k_h * g.k_w;
    match (g.layout, filters(g)) {
        (Layout::Nchw, _) => taps,
        (Layout::Nhwc, 0 | 1) => taps * g.out_c,
        (Layout::Nhwc, _) => (taps + g.in_w) * g.out_c,
    }
}

/// Tasks of the filter's gradient.
fn tasks(g: &ConvGeometry) -> usize {
    match g.layout {
        Layout::Nhwc => (g.batch * g.out_h).div_ceil(lines(g)),
        Layout::Nchw => g.out_c,
    }
}

/// Bytes of scratch memory that [`depthwise_filter_grad`] needs.
pub fn depthwise_filter_grad_scratch<T: Real>(g: &ConvGeometry) -> usize {
    Scratch::bytes::<T>(tasks(g) * numbers(g))
}

/// The gradient of the filter.
///
/// # Panics
/// Where a slice is not as long as `g` says, or the scratch memory too small.
pub fn depthwise_filter_grad<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    x: &[T],
    dy: &[T],
    dw: &mut [T],
    scratch: &mut [u8],
) {
    if x.is_empty() || dy.is_empty() {
        return dw.fill(T::ZERO);
    }
    let (taps, numbers) = (g.k_h * g.k_w, numbers(g));
    let all = Scratch::new(scratch).take::<T>(tasks(g) * numbers);
    let columns = through_taps(&axes(g)[1]);
    for_chunks(cpu.pool, all, numbers, &|task, own| {
        let task = FilterGrad {
            g,
            task,
            x,
            dy,
            columns: &columns,
        };
        match g.layout {
            Layout::Nhwc => task.channels_last(cpu.isa, own),
            Layout::Nchw => cpu.isa.run_over::<T, _>(ChannelsFirst(task, own)),
        }
    });
    match g.layout {
        Layout::Nhwc => {
            for (i, dw) in dw.iter_mut().enumerate() {
                let own = all.iter().skip(i).step_by(numbers);
                *dw = own.fold(T::ZERO, |sum, &x| sum + x);
            }
        }
        Layout::Nchw => {
            for (i, dw) in dw.iter_mut().enumerate() {
                *dw = all[i % g.out_c * taps + i / g.out_c];
            }
        }
    }
}

/// The filter's gradient of some lines, where the channels come last, or of one channel.
struct FilterGrad<'a, T> {
    g: &'a ConvGeometry,
    task: usize,
    x: &'a [T],
    dy: &'a [T],
    /// The columns that each tap of a line sees.
    columns: &'a [Through],
}

/// The gradient of one channel, and the memory that it is written to.
struct ChannelsFirst<'a, T>(FilterGrad<'a, T>, &'a mut [T]);

impl<T: Real> Vectorize for ChannelsFirst<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        self.0.channels_first(self.1);
    }
}

impl<T: Real> FilterGrad<'_, T> {
    fn channels_last(self, isa: Isa, own: &mut [T]) {
        let (g, each) = (self.g, filters(self.g));
        let (sums, repeated) = own.split_at_mut(g.k_h * g.k_w * g.out_c);
        sums.fill(T::ZERO);
        let [rows, columns] = axes(g);
        let first = self.task * lines(g);
        for line in first..(g.batch * g.out_h).min(first + lines(g)) {
            let (image, oy) = (line / g.out_h, line % g.out_h);
            let seen = rows.seen(oy);
            for i in 0..seen.count {
                let (tap_y, iy) = seen.get(i);
                let x = &self.x[(image * g.in_h + iy) * g.in_w * g.in_c..][..g.in_w * g.in_c];
                let x = match each {
                    1 => x,
                    _ => {
                        repeat(x, each, repeated);
                        &*repeated
                    }
                };
                let products = LineProducts {
                    channels: g.out_c,
                    x,
                    dy: &self.dy[line * g.out_w * g.out_c..][..g.out_w * g.out_c],
                    columns: self.columns,
                    step: columns.stride,
                };
                let sums = &mut sums[tap_y * g.k_w * g.out_c..][..g.k_w * g.out_c];
                run_in_vectors(isa, AddProducts(products, sums));
            }
        }
    }

    #[inline(always)]
    fn channels_first(&self, sums: &mut [T]) {
        let (g, channel) = (self.g, self.task);
        let [rows, columns] = axes(g);
        let each = filters(g);
        sums.fill(T::ZERO);
        for image in 0..g.batch {
            let from = (image * g.in_c + channel / each) * g.in_h;
            let to = (image * g.out_c + channel) * g.out_h;
            for oy in 0..g.out_h {
                let seen = rows.seen(oy);
                for i in 0..seen.count {
                    let (tap_y, iy) = seen.get(i);
                    for (tap_x, &Through { first, end, pixel }) in self.columns.iter().enumerate() {
                        let x = &self.x[(from + iy) * g.in_w..][..g.in_w];
                        let dy = &self.dy[(to + oy) * g.out_w..][..g.out_w];
                        let sum = product(&x[pixel..], columns.stride, &dy[first..end]);
                        let own = &mut sums[tap_y * g.k_w + tap_x];
                        *own += sum;
                    }
                }
            }
        }
    }
}

/// Numbers that are added up side by side.
const LANES: usize = 16;

/// The product of pixels `step` apart and a piece of a line of gradients.
#[inline(always)]
fn product<T: Real>(x: &[T], step: usize, dy: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let (groups, rest) = dy.as_chunks::<LANES>();
    for (group, dy) in groups.iter().enumerate() {
        let x = &x[group * LANES * step..];
        // Loops, which are compiled for the instruction set of their caller.
        if step == 1 {
            let x = &x[..LANES];
            for l in 0..LANES {
                sums[l] += x[l] * dy[l];
            }
        } else {
            let x = &x[..(LANES - 1) * step + 1];
            for l in 0..LANES {
                sums[l] += x[l * step] * dy[l];
            }
        }
    }
    let done = dy.len() - rest.len();
    for (l, &dy) in rest.iter().enumerate() {
        sums[l] += x[(done + l) * step] * dy;
    }
    sums.iter().fold(T::ZERO, |sum, &x| sum + x)
}
