//! The parts of an image that a task pools, and the windows in it.

use crate::Vectorize;
use crate::parallel::Disjoint;

use super::PoolGeometry;
use super::window::{Op, PoolWindow};
use crate::number::Number;
use crate::scratch::part;
use crate::{Cpu, Layout};

/// Channels of a task where they come last.
const TASK_CHANNELS: usize = 64;
/// Elements of a task where the channels come first, if a plane has fewer.
const TASK_ELEMENTS: usize = 1 << 14;
/// Intended number of tasks where a batch is small, and minimum number of elements of the input of each.
const TARGET_TASKS: usize = 16;
const MIN_TASK_ELEMENTS: usize = 1 << 12;

/// Runs `op` for every window.
pub(super) fn run<T: Number, O: Op<T>>(cpu: Cpu<'_>, g: &PoolGeometry, op: O, to: &mut [T]) {
    if to.is_empty() {
        return;
    }
    let to = &Disjoint::new(to);
    over_parts(cpu, g, O::BACKWARD, &|part| {
        cpu.isa.run_over::<T, _>(PoolPart { g, op, to, part });
    });
}

/// Calls `body` with the parts of all images, over threads.
fn over_parts(
    cpu: Cpu<'_>,
    g: &PoolGeometry,
    backward: bool,
    body: &(dyn Fn(ChannelRange) + Sync),
) {
    let (input, output) = (g.in_h * g.in_w, g.out_h * g.out_w);
    let all = g.batch * g.channels * input;
    match g.layout {
        Layout::Nhwc => {
            let blocks = g.channels.div_ceil(TASK_CHANNELS);
            // Other windows may add to the same pixels as those of the next line.
            let cuts = match backward {
                true => 1,
                false => TARGET_TASKS.min(all / MIN_TASK_ELEMENTS) / (g.batch * blocks),
            };
            let cuts = cuts.clamp(1, g.out_h.max(1));
            cpu.pool.parallel_for(g.batch * blocks * cuts, &|task| {
                let (lines, task) = (part(g.out_h, cuts, task % cuts), task / cuts);
                let (image, channel) = (task / blocks, task % blocks * TASK_CHANNELS);
                let first = image * g.channels;
                body(ChannelRange {
                    input: first * input + channel,
                    output: first * output + channel,
                    lines,
                    channels: TASK_CHANNELS.min(g.channels - channel),
                    pixel: g.channels,
                });
            });
        }
        Layout::Nchw => {
            let planes = g.batch * g.channels;
            let elements = (all / TARGET_TASKS).clamp(MIN_TASK_ELEMENTS, TASK_ELEMENTS);
            let block = (elements / input.max(1)).clamp(1, planes);
            cpu.pool.parallel_for(planes.div_ceil(block), &|task| {
                for plane in task * block..planes.min((task + 1) * block) {
                    body(ChannelRange {
                        input: plane * input,
                        output: plane * output,
                        lines: (0, g.out_h),
                        channels: 1,
                        pixel: 1,
                    });
                }
            });
        }
    }
}

/// Some channels of an image, side by side.
#[derive(Clone, Copy)]
struct ChannelRange {
    /// Their offset in the input's images.
    input: usize,
    /// Their offset in the output's images.
    output: usize,
    /// The first line of windows, and their number.
    lines: (usize, usize),
    channels: usize,
    /// From a pixel to the next.
    pixel: usize,
}

/// The pooling of some channels.
struct PoolPart<'a, T, O> {
    g: &'a PoolGeometry,
    op: O,
    /// The result; no other task writes this part's elements.
    to: &'a Disjoint<'a, T>,
    part: ChannelRange,
}

impl<T: Number, O: Op<T>> Vectorize for PoolPart<'_, T, O> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let PoolPart { g, op, to, part } = self;
        let ChannelRange {
            input,
            output,
            lines: (first, count),
            channels,
            pixel,
        } = part;
        let (alone, whole) = (g.are_apart(), g.are_apart() && g.cover());
        if O::BACKWARD && !whole {
            for i in 0..if pixel == 1 { 1 } else { g.in_h * g.in_w } {
                let len = if pixel == 1 {
                    g.in_h * g.in_w
                } else {
                    channels
                };
                // SAFETY: this part's own elements, and nothing else of them is borrowed.
                unsafe { to.slice(input + i * pixel, len) }.fill(T::ZERO);
            }
        }
        if pixel == 1 && self.halves() {
            for y in first..first + count {
                let from = input + 2 * y * g.in_w;
                let window = PoolWindow {
                    at: from,
                    lines: 2,
                    cols: 2,
                    line: g.in_w,
                    pixel: 1,
                    alone,
                };
                op.halve(window, output + y * g.out_w, g.out_w, to);
            }
            return;
        }
        for y in first..first + count {
            let (top, lines) = seen(y * g.stride[0], g.k_h, g.pad_top, g.in_h);
            for x in 0..g.out_w {
                let (left, cols) = seen(x * g.stride[1], g.k_w, g.pad_left, g.in_w);
                let window = PoolWindow {
                    at: input + (top * g.in_w + left) * pixel,
                    lines,
                    cols,
                    line: g.in_w * pixel,
                    pixel,
                    alone,
                };
                let out = output + (y * g.out_w + x) * pixel;
                op.channels(window, out, channels, to);
            }
        }
    }
}

impl PoolGeometry {
    /// `true` if no two windows have a pixel in common.
    fn are_apart(&self) -> bool {
        self.stride[0] >= self.k_h && self.stride[1] >= self.k_w
    }

    /// `true` if every pixel is in a window, of windows that are apart.
    fn cover(&self) -> bool {
        let lines = self.stride[0] == self.k_h && self.out_h * self.k_h >= self.in_h + self.pad_top;
        let cols = self.stride[1] == self.k_w && self.out_w * self.k_w >= self.in_w + self.pad_left;
        lines && cols
    }
}

impl<T, O> PoolPart<'_, T, O> {
    /// `true` if the windows are squares of two that tile the image from its corner.
    fn halves(&self) -> bool {
        let g = self.g;
        g.k_h == 2
            && g.k_w == 2
            && g.stride == [2, 2]
            && g.pad_top + g.pad_left == 0
            && 2 * g.out_h <= g.in_h
            && 2 * g.out_w <= g.in_w
    }
}

/// Returns the first pixel, and the number of pixels, that a window of length `k` sees, which begins at `start` before
/// the padding.
#[inline(always)]
fn seen(start: usize, k: usize, pad: usize, len: usize) -> (usize, usize) {
    let first = start.saturating_sub(pad);
    (first, (start + k - pad).min(len) - first)
}
