//! The gradient to the filter, tap by tap: for each, the product of the input pixels it saw and the output's gradient.
//!
//! The inner dimension is all pixels of all images. It is split into a fixed number of parts, each summed into a gradient
//! of its own while its bands are in the cache, and the parts are added up in order. Where the filter is so large that
//! copies of it would take too much memory, there are fewer parts, and each is shared by several tasks that compute
//! different taps and channels. A filter that does not fit the second-level cache has one part, and pixels are padded
//! once for all tasks.

use super::algorithm::FastAlgorithm;
use super::band::{Bands, Images, Window};
use super::cache_blocked::{Padded, TASK_PIXELS, is_cache_blocked};
use super::geometry::Pass;
use super::partial_sums::add_parts;
use super::{ConvGeometry, Real};
use crate::micro_kernel::{Ahead, Tile, Tiles};
use crate::scratch::{Disjoint, Scratch, for_lanes, lanes_scratch, part};
use crate::{Cpu, Epilogue, Isa, Layout};

/// Intended number of tasks.
const TARGET_TASKS: usize = 16;
/// Maximum bytes of the gradients of all parts.
const MAX_PARTIAL_BYTES: usize = 4 << 20;

/// The division of a filter's gradient into parts and tasks.
struct FilterGradPlan<T: 'static> {
    tiles: Tiles<T>,
    bands: Bands,
    /// Parts that the bands of the batch are split into.
    parts: usize,
    /// Tasks that share a part.
    sharers: usize,
    /// Rows of the filter, as a matrix with `out_c` columns, that see the same offsets: a tap, or taps side by side.
    group_rows: usize,
    groups: usize,
    group_tiles: usize,
    /// From a pixel of the output's gradient to the next, as the tiles read it, and whether it is copied to be so.
    pixel: usize,
    copied: bool,
    /// The padded form of the images where they are padded once.
    swept: Option<Padded>,
    /// Columns from a line of what is read to the next.
    cols: usize,
}

impl<T: Real> FilterGradPlan<T> {
    fn new(isa: Isa, g: &ConvGeometry) -> Self {
        let tiles = T::tiles(isa);
        let lanes = tiles.cols() / 2;
        let pixel = g.out_c.next_multiple_of(lanes);
        let line = g.stride[0] * g.cols_seen() * g.in_c + g.out_w * pixel;
        let bands = Bands::new(g.batch, g.out_h, line * size_of::<T>());
        let (groups, group_rows) = if g.dilation[1] == 1 {
            (g.k_h, g.k_w * g.in_c)
        } else {
            (g.k_h * g.k_w, g.in_c)
        };
        let group_tiles = group_rows.div_ceil(tiles.rows());
        let swept = is_cache_blocked::<T>(g.filter_len()).then(|| Padded::new(g));
        let units = g.batch * bands.per_image;
        let parts = match swept {
            Some(_) => 1,
            None => (MAX_PARTIAL_BYTES / (g.filter_len() * size_of::<T>()))
                .clamp(1, TARGET_TASKS)
                .min(units),
        };
        FilterGradPlan {
            tiles,
            bands,
            parts,
            sharers: TARGET_TASKS.div_ceil(parts).min(groups * group_tiles),
            group_rows,
            groups,
            group_tiles,
            pixel,
            copied: g.layout == Layout::Nchw && g.out_c > 1 || pixel != g.out_c,
            swept,
            cols: swept.map_or(g.cols_seen(), |padded| padded.cols),
        }
    }

    fn partial_len(&self, g: &ConvGeometry) -> usize {
        if self.parts > 1 {
            self.parts * g.filter_len()
        } else {
            0
        }
    }

    fn band_len(&self, g: &ConvGeometry) -> usize {
        g.lines_seen(self.bands.lines) * g.cols_seen() * g.in_c
    }

    fn copy_len(&self, g: &ConvGeometry) -> usize {
        if self.copied {
            self.bands.lines * g.out_w * self.pixel
        } else {
            0
        }
    }

    /// Numbers of the gradient to the output of all images, where it is copied.
    fn grad_len(&self, g: &ConvGeometry) -> usize {
        if self.copied {
            g.batch * g.out_h * g.out_w * self.pixel
        } else {
            0
        }
    }

    fn shared(&self, g: &ConvGeometry) -> usize {
        Scratch::bytes::<T>(self.partial_len(g)) + Scratch::bytes::<usize>(self.bands.lines)
    }

    fn lane(&self, g: &ConvGeometry) -> usize {
        Scratch::bytes::<T>(self.band_len(g)) + Scratch::bytes::<T>(self.copy_len(g))
    }
}

/// The scratch that [`conv2d_filter_grad`] needs on this many threads, in bytes.
pub fn conv2d_filter_grad_scratch<T: Real>(isa: Isa, threads: usize, g: &ConvGeometry) -> usize {
    if g.is_empty() {
        return 0;
    }
    if let Some(other) = FastAlgorithm::of::<T>(isa, g, Pass::ToFilter) {
        return other.scratch::<T>(isa, threads);
    }
    let plan = FilterGradPlan::<T>::new(isa, g);
    if let Some(padded) = plan.swept {
        return Scratch::bytes::<T>(padded.len(g))
            + Scratch::bytes::<T>(plan.grad_len(g))
            + Scratch::bytes::<usize>(g.batch * g.out_h);
    }
    plan.shared(g) + lanes_scratch(plan.parts * plan.sharers, threads, plan.lane(g))
}

/// The gradient of a convolution to its filter, from its input and the gradient to its output.
///
/// # Panics
/// If a slice is not as long as the geometry says, or the scratch is too small.
pub fn conv2d_filter_grad<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    input: &[T],
    output_grad: &[T],
    filter_grad: &mut [T],
    scratch: &mut [u8],
) {
    assert!(
        input.len() == g.input_len()
            && filter_grad.len() == g.filter_len()
            && output_grad.len() == g.output_len(),
        "operands do not fit {g:?}"
    );
    if g.is_empty() {
        return filter_grad.fill(T::zeroed());
    }
    if let Some(other) = FastAlgorithm::of::<T>(cpu.isa, g, Pass::ToFilter) {
        return other.run(
            cpu,
            [input, output_grad],
            None,
            Epilogue::default(),
            filter_grad,
            scratch,
        );
    }
    let plan = FilterGradPlan::<T>::new(cpu.isa, g);
    let call = FilterGradCall {
        cpu,
        g,
        plan: &plan,
        input: Images::input(g, input),
        output_grad: Images::output(g, output_grad),
    };
    match plan.swept {
        Some(padded) => call.sweep(padded, filter_grad, Scratch::new(scratch)),
        None => call.run_bands(filter_grad, Scratch::new(scratch)),
    }
}

/// The operands of one call.
struct FilterGradCall<'a, T: 'static> {
    cpu: Cpu<'a>,
    g: &'a ConvGeometry,
    plan: &'a FilterGradPlan<T>,
    input: Images<'a, T>,
    output_grad: Images<'a, T>,
}

impl<T: Real> FilterGradCall<'_, T> {
    /// Computes a gradient that does not fit the cache, from pixels that are padded once.
    fn sweep(&self, padded: Padded, filter_grad: &mut [T], mut scratch: Scratch<'_>) {
        let (g, plan) = (self.g, self.plan);
        let copy = scratch.take::<T>(padded.len(g));
        let seen = padded.read(self.cpu, g, self.input, copy);
        let copy = scratch.take::<T>(plan.grad_len(g));
        let grad = if plan.copied {
            self.output_grad
                .copy_all(self.cpu, [0, 0], [g.out_h, g.out_w], plan.pixel, copy);
            &*copy
        } else {
            self.output_grad.data
        };
        let offsets = scratch.take::<usize>(g.batch * g.out_h);
        let lines = padded.seen(g);
        for (line, offset) in offsets.iter_mut().enumerate() {
            *offset = lines.at(line / g.out_h, line % g.out_h, 0);
        }
        let tasks = FilterGradTasks {
            call: self,
            offsets,
            grads: Disjoint::new(filter_grad),
        };
        self.cpu
            .pool
            .parallel_for(plan.sharers, &|sharer| tasks.sweep_rows(sharer, seen, grad));
    }

    /// Computes the gradients of the parts, band by band, and adds them up.
    fn run_bands(&self, filter_grad: &mut [T], mut scratch: Scratch<'_>) {
        let (g, plan) = (self.g, self.plan);
        let partials = scratch.take::<T>(plan.partial_len(g));
        let offsets = scratch.take::<usize>(plan.bands.lines);
        for (line, offset) in offsets.iter_mut().enumerate() {
            *offset = line * g.stride[0] * g.cols_seen() * g.in_c;
        }
        let tasks = FilterGradTasks {
            call: self,
            offsets,
            grads: Disjoint::new(if plan.parts > 1 {
                &mut *partials
            } else {
                &mut *filter_grad
            }),
        };
        for_lanes(
            self.cpu.pool,
            plan.parts * plan.sharers,
            scratch.rest(),
            plan.lane(g),
            &|task, scratch| tasks.run(task, scratch),
        );
        if plan.parts > 1 {
            add_parts(self.cpu, partials, filter_grad);
        }
    }
}

/// State that the tasks of one call share.
struct FilterGradTasks<'a, T: 'static> {
    call: &'a FilterGradCall<'a, T>,
    /// The offsets of the input that the lines of the output's gradient see.
    offsets: &'a [usize],
    /// The gradients of the parts, one after the other.
    grads: Disjoint<'a, T>,
}

impl<T: Real> FilterGradTasks<'_, T> {
    /// Computes some rows of the gradient of one part.
    fn run(&self, task: usize, scratch: &mut [u8]) {
        let (call, g, plan) = (self.call, self.call.g, self.call.plan);
        let (which, sharer) = (task / plan.sharers, task % plan.sharers);
        let (first, units) = part(g.batch * plan.bands.per_image, plan.parts, which);
        let mut scratch = Scratch::new(scratch);
        let seen = scratch.take::<T>(plan.band_len(g));
        let copy = scratch.take::<T>(plan.copy_len(g));
        for unit in first..first + units {
            let (image, band) = (unit / plan.bands.per_image, unit % plan.bands.per_image);
            let (line, lines) = part(g.out_h, plan.bands.per_image, band);
            let window = Window {
                image,
                y: (line * g.stride[0]) as isize - g.pad_top as isize,
                lines: g.lines_seen(lines),
                x: -(g.pad_left as isize),
                cols: g.cols_seen(),
                channel: 0,
                channels: g.in_c,
            };
            call.input.copy(call.cpu.isa, window, seen, g.in_c);
            let grad = if plan.copied {
                let window = Window {
                    image,
                    y: line as isize,
                    lines,
                    x: 0,
                    cols: g.out_w,
                    channel: 0,
                    channels: g.out_c,
                };
                call.output_grad
                    .copy(call.cpu.isa, window, copy, plan.pixel);
                &*copy
            } else {
                let start = (image * g.out_h + line) * g.out_w * g.out_c;
                &call.output_grad.data[start..][..lines * g.out_w * g.out_c]
            };
            self.unit(
                sharer,
                which,
                seen,
                grad,
                &self.offsets[..lines],
                unit > first,
            );
        }
    }

    /// Computes the rows of one sharer, from the pixels of all images.
    fn sweep_rows(&self, sharer: usize, seen: &[T], grad: &[T]) {
        let (g, all) = (self.call.g, self.offsets.len());
        let units = (all * g.out_w).div_ceil(TASK_PIXELS).clamp(1, all.max(1));
        for unit in 0..units {
            let (line, lines) = part(all, units, unit);
            let grad = &grad[line * g.out_w * self.call.plan.pixel..];
            let offsets = &self.offsets[line..line + lines];
            self.unit(sharer, 0, seen, grad, offsets, unit > 0);
        }
    }

    /// Adds the products of one band to the rows of one sharer.
    fn unit(
        &self,
        sharer: usize,
        which: usize,
        seen: &[T],
        grad: &[T],
        offsets: &[usize],
        add: bool,
    ) {
        let (g, plan) = (self.call.g, self.call.plan);
        let width = plan.tiles.cols();
        let per_line = plan.groups / g.k_h;
        let (first, count) = part(plan.groups * plan.group_tiles, plan.sharers, sharer);
        for tile in first..first + count {
            let (group, tile) = (tile / plan.group_tiles, tile % plan.group_tiles);
            let (row, rows) = part(plan.group_rows, plan.group_tiles, tile);
            let (y, x) = (group / per_line, group % per_line);
            let tap = (y * g.dilation[0] * plan.cols + x * g.dilation[1]) * g.in_c;
            let place = which * g.filter_len() + (group * plan.group_rows + row) * g.out_c;
            for col in (0..g.out_c).step_by(width) {
                let tile = Tile {
                    a: seen[tap + row..].as_ptr(),
                    offsets,
                    len: g.out_w,
                    a_row: 1,
                    a_col: g.stride[1] * g.in_c,
                    b: grad[col..].as_ptr(),
                    b_row: plan.pixel,
                    c: self.grads.pointer(place + col),
                    c_row: g.out_c,
                    cols: width.min(g.out_c - col),
                    add,
                    epilogue: Epilogue::NONE,
                    ahead: Ahead::NONE,
                };
                // SAFETY: the band holds the pixels of these taps; each of its output pixels has `pixel` numbers, a
                // whole number of vectors, in `grad`; the rows are this task's alone.
                unsafe { plan.tiles.run(rows, &tile) };
            }
        }
    }
}
