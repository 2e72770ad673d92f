//! Images gathered through taps: the convolution, and the gradient of its images.
//!
//! An input channel may have several filters. With channels last, its pixels are then repeated for each of them before the
//! convolution, and its gradients are added up after it.

use super::axis::{Axis, Taps, Through, axes, through_taps};
use super::channels_first::AddLines;
use super::channels_last::{Line, WriteLine};
use super::multiplier::{filters, repeat};
use crate::conv::{ConvGeometry, Real};
use crate::parallel::Disjoint;
use crate::scratch::{Scratch, for_lanes, lanes_scratch};
use crate::vector::run_in_vectors;
use crate::{Cpu, Epilogue, Layout};

/// Elements of a task.
const TASK_ELEMENTS: usize = 8 * 1024;

/// The convolution of images `x` with a filter, and the epilogue of its outputs.
///
/// # Panics
/// A slice is not as long as `g` says, or the scratch memory is smaller than [`depthwise_scratch`].
pub fn depthwise<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    [x, filter]: [&[T]; 2],
    epilogue: Epilogue<'_, T>,
    y: &mut [T],
    scratch: &mut [u8],
) {
    Gather::<T, false>::new(g, x, filter, epilogue).run(cpu, y, scratch);
}

/// The gradient of the images.
///
/// # Panics
/// As [`depthwise`].
pub fn depthwise_input_grad<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    [filter, dy]: [&[T]; 2],
    dx: &mut [T],
    scratch: &mut [u8],
) {
    Gather::<T, true>::new(g, dy, filter, Epilogue::NONE).run(cpu, dx, scratch);
}

/// Bytes of scratch memory that the convolution, and the gradient of its images, need on so many threads.
pub fn depthwise_scratch<T: Real>(threads: usize, g: &ConvGeometry) -> usize {
    lanes_scratch(threads, threads, lane_bytes::<T>(g))
}

/// Bytes of a thread: the lines that an output line sees, or a line of gradients, with all filters' channels.
fn lane_bytes<T>(g: &ConvGeometry) -> usize {
    match filters(g) {
        0 | 1 => 0,
        _ if g.layout == Layout::Nchw => 0,
        _ => Scratch::bytes::<T>(g.k_h * g.in_w * g.out_c),
    }
}

/// Lines, columns and channels.
type Size = [usize; 3];

/// Elements of a line.
fn line_len(g: &ConvGeometry, [_, columns, channels]: Size) -> usize {
    match g.layout {
        Layout::Nhwc => columns * channels,
        Layout::Nchw => columns,
    }
}

/// Lines of an image of this size in a task.
fn lines_of_task(g: &ConvGeometry, size: Size) -> usize {
    (TASK_ELEMENTS / line_len(g, size).max(1)).max(1)
}

/// An image gathered from the other: the output from the input, or, `BACK`, the input's gradient from the output's.
struct Gather<'a, T, const BACK: bool> {
    g: &'a ConvGeometry,
    from: &'a [T],
    filter: &'a [T],
    epilogue: Epilogue<'a, T>,
    /// This image, and the other.
    size: Size,
    other: Size,
    rows: Axis,
    columns: Axis,
}

impl<'a, T: Real, const BACK: bool> Gather<'a, T, BACK> {
    fn new(g: &'a ConvGeometry, from: &'a [T], filter: &'a [T], epilogue: Epilogue<'a, T>) -> Self {
        let (input, output) = ([g.in_h, g.in_w, g.in_c], [g.out_h, g.out_w, g.out_c]);
        let (size, other) = if BACK {
            (input, output)
        } else {
            (output, input)
        };
        let [rows, columns] = axes(g);
        Gather {
            g,
            from,
            filter,
            epilogue,
            size,
            other,
            rows,
            columns,
        }
    }

    fn taps(axis: &Axis, place: usize) -> Taps {
        if BACK {
            axis.seeing(place)
        } else {
            axis.seen(place)
        }
    }

    fn run(&self, cpu: Cpu<'_>, to: &mut [T], scratch: &mut [u8]) {
        let (g, [h, w, channels]) = (self.g, self.size);
        assert!(
            self.epilogue.fits(channels, to) && self.epilogue.residual.is_none(),
            "an epilogue of {channels} channels, without a residual"
        );
        if to.is_empty() {
            return;
        }
        if self.from.is_empty() || self.filter.is_empty() {
            to.fill(T::ZERO);
            let after = match g.layout {
                Layout::Nhwc => 1,
                Layout::Nchw => h * w,
            };
            return self.epilogue.apply(cpu, channels, after, to);
        }
        match g.layout {
            Layout::Nhwc => {
                let columns: Vec<Taps> = (0..w).map(|x| Self::taps(&self.columns, x)).collect();
                self.each_line(cpu, to, scratch, |line, to, scratch| {
                    self.channels_last(cpu, line, &columns, to, scratch);
                });
            }
            Layout::Nchw => {
                let columns = through_taps(&self.columns);
                self.each_line(cpu, to, scratch, |line, to, _| {
                    self.channels_first(cpu, line, &columns, to);
                });
            }
        }
    }

    /// Calls `write(number, line, scratch)` for each line of this image.
    fn each_line<W>(&self, cpu: Cpu<'_>, to: &mut [T], scratch: &mut [u8], write: W)
    where
        W: Fn(usize, &mut [T], &mut [u8]) + Sync,
    {
        let (len, lines) = (
            line_len(self.g, self.size),
            lines_of_task(self.g, self.size),
        );
        let all = to.len() / len;
        let to = Disjoint::new(to);
        let lane = lane_bytes::<T>(self.g);
        for_lanes(
            cpu.pool,
            all.div_ceil(lines),
            scratch,
            lane,
            &|task, scratch| {
                for line in task * lines..all.min((task + 1) * lines) {
                    // SAFETY: each line belongs to one task.
                    write(line, unsafe { to.slice(line * len, len) }, scratch);
                }
            },
        );
    }

    fn channels_last(
        &self,
        cpu: Cpu<'_>,
        number: usize,
        columns: &[Taps],
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        let (g, each, [other_h, width, other_c]) = (self.g, filters(self.g), self.other);
        let (image, y) = (number / self.size[0], number % self.size[0]);
        let rows = Self::taps(&self.rows, y);
        let line_len = width * other_c;
        let from = &self.from[image * other_h * line_len..][..other_h * line_len];
        let line = |from, rows| Line {
            channels: g.out_c,
            from,
            width,
            filter: self.filter,
            k_w: g.k_w,
            rows,
            columns,
            epilogue: self.epilogue,
        };
        if each == 1 {
            return run_in_vectors(cpu.isa, WriteLine(line(from, rows), to));
        }
        let room = Scratch::new(scratch).take::<T>(g.k_h * g.in_w * g.out_c);
        if BACK {
            let sums = &mut room[..g.in_w * g.out_c];
            run_in_vectors(cpu.isa, WriteLine(line(from, rows), &mut *sums));
            for (to, sums) in to.iter_mut().zip(sums.chunks_exact(each)) {
                *to = sums.iter().fold(T::ZERO, |sum, &x| sum + x);
            }
            return;
        }
        let lines = room.chunks_exact_mut(g.in_w * g.out_c).take(rows.count);
        for (i, repeated) in lines.enumerate() {
            let from = &from[rows.get(i).1 * line_len..][..line_len];
            repeat(from, each, repeated);
        }
        let rows = Taps {
            at: 0,
            at_step: 1,
            ..rows
        };
        run_in_vectors(cpu.isa, WriteLine(line(room, rows), to));
    }

    fn channels_first(&self, cpu: Cpu<'_>, number: usize, columns: &[Through], to: &mut [T]) {
        let (each, [h, _, channels], [other_h, other_w, other_c]) =
            (filters(self.g), self.size, self.other);
        let (plane, y) = (number / h, number % h);
        let (image, channel) = (plane / channels, plane % channels);
        let (first, count, first_channel) = match BACK {
            true => (channel * each, each, channel * each),
            false => (channel / each, 1, channel),
        };
        let len = other_h * other_w;
        to.fill(T::ZERO);
        cpu.isa.run_over::<T, _>(AddLines::<T, BACK> {
            g: self.g,
            rows: Self::taps(&self.rows, y),
            columns,
            step: self.columns.stride,
            planes: &self.from[(image * other_c + first) * len..][..count * len],
            filter: self.filter,
            first_channel,
            to: &mut *to,
        });
        self.epilogue.apply_to_plane(cpu.isa, channel, to);
    }
}
