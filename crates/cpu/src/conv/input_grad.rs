//! The gradient to the input, tap by tap: each input pixel gathers from the output pixels that saw it.
//!
//! With a stride, pixels whose places differ by a multiple of it are seen through the same taps, and others through
//! other taps. Such a set of pixels is a *phase*; within one, this is again a convolution of stride one, of the output's
//! gradient with the taps of that phase in reverse.

use super::algorithm::FastAlgorithm;
use super::band::{Bands, Images, Window, copy_to_planes};
use super::cache_blocked::{CacheBlocked, Lines, is_cache_blocked};
use super::geometry::Pass;
use super::{ConvGeometry, Real};
use crate::micro_kernel::{Ahead, Tile, Tiles};
use crate::scratch::{Disjoint, Scratch, for_lanes, lanes_scratch, part};
use crate::transpose::{Rows, transpose, transpose_each};
use crate::{Cpu, Epilogue, Isa, Layout};

/// One dimension of a convolution, as its phases see it.
#[derive(Clone, Copy)]
struct PhaseAxis {
    taps: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
    /// Distance in output pixels that the farthest tap reaches back.
    reach: usize,
}

impl PhaseAxis {
    fn new(g: &ConvGeometry, axis: usize) -> Self {
        let (taps, pad) = [(g.k_h, g.pad_top), (g.k_w, g.pad_left)][axis];
        let (stride, dilation) = (g.stride[axis], g.dilation[axis]);
        PhaseAxis {
            taps,
            stride,
            dilation,
            pad,
            reach: (taps - 1) * dilation / stride,
        }
    }

    /// The taps of a phase from the last to the first, each with its place in the reach: the output pixel that input
    /// pixel `at` was seen from through it is `(at + pad) / stride - reach + place`.
    fn taps(self, phase: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        let seen = move |tap: &usize| tap * self.dilation % self.stride == phase;
        (0..self.taps)
            .rev()
            .filter(seen)
            .map(move |tap| (tap, self.reach - tap * self.dilation / self.stride))
    }

    /// `true` if the taps of a phase lie side by side.
    fn merges(self, phase: usize) -> bool {
        let mut next = None;
        self.taps(phase)
            .all(|(_, place)| next.replace(place + 1).is_none_or(|p| p == place))
    }

    /// The first input pixel of a phase.
    fn first_of(self, phase: usize) -> usize {
        (phase + self.stride - self.pad % self.stride) % self.stride
    }

    /// The first output pixel in the reach of input pixel `at`.
    fn first(self, at: usize) -> isize {
        ((at + self.pad) / self.stride) as isize - self.reach as isize
    }
}

struct InputGradPlan<T: 'static> {
    tiles: Tiles<T>,
    bands: Bands,
    axes: [PhaseAxis; 2],
    panels: usize,
    /// Output columns in the reach of a line.
    cols: usize,
    swept: bool,
}

impl<T: Real> InputGradPlan<T> {
    fn new(isa: Isa, g: &ConvGeometry) -> Self {
        let tiles = T::tiles(isa);
        let axes = [PhaseAxis::new(g, 0), PhaseAxis::new(g, 1)];
        let cols = (axes[1].first(g.in_w - 1) - axes[1].first(0)) as usize + axes[1].reach + 1;
        let line_bytes = (cols * g.out_c).div_ceil(g.stride[0]) * size_of::<T>();
        InputGradPlan {
            tiles,
            bands: Bands::new(g.batch, g.in_h, line_bytes),
            axes,
            panels: g.in_c.div_ceil(tiles.cols()),
            cols,
            swept: is_cache_blocked::<T>(g.filter_len()),
        }
    }

    /// The phases, in the order in which they are packed.
    fn phases(&self) -> impl Iterator<Item = Phase> {
        let [rows, cols] = self.axes;
        let places = (0..rows.stride).flat_map(move |y| (0..cols.stride).map(move |x| [y, x]));
        places.scan(0, move |done, at| {
            let per_line = cols.taps(at[1]).count();
            let taps = rows.taps(at[0]).count() * per_line;
            let merged = if cols.merges(at[1]) {
                per_line.max(1)
            } else {
                1
            };
            let phase = Phase {
                at,
                taps,
                merged,
                done: *done,
            };
            *done += taps;
            Some(phase)
        })
    }

    /// Output lines in the reach of an image.
    fn lines_of_all(&self, g: &ConvGeometry) -> usize {
        let rows = self.axes[0];
        (rows.first(g.in_h - 1) - rows.first(0)) as usize + rows.reach + 1
    }

    /// Numbers of the padded gradient, and of a result whose channels are to be brought first.
    fn swept_lens(&self, g: &ConvGeometry) -> [usize; 2] {
        [
            g.batch * self.lines_of_all(g) * self.cols * g.out_c,
            if g.layout == Layout::Nchw {
                g.input_len()
            } else {
                0
            },
        ]
    }

    /// The most output lines in the reach of a band.
    fn lines_seen(&self) -> usize {
        (self.bands.lines - 1).div_ceil(self.axes[0].stride) + self.axes[0].reach + 1
    }

    fn shared(&self, g: &ConvGeometry) -> usize {
        Scratch::bytes::<T>(g.k_h * g.k_w * g.out_c * self.panels * self.tiles.cols())
            + Scratch::bytes::<usize>(g.k_h * g.k_w)
    }

    fn lane(&self, g: &ConvGeometry) -> usize {
        let turned = if g.layout == Layout::Nchw {
            self.bands.lines * g.in_w * g.in_c
        } else {
            0
        };
        Scratch::bytes::<T>(self.lines_seen() * self.cols * g.out_c) + Scratch::bytes::<T>(turned)
    }
}

/// The scratch that [`conv2d_input_grad`] needs on this many threads, in bytes.
pub fn conv2d_input_grad_scratch<T: Real>(isa: Isa, threads: usize, g: &ConvGeometry) -> usize {
    if g.is_empty() {
        return 0;
    }
    if let Some(other) = FastAlgorithm::of::<T>(isa, g, Pass::ToInput) {
        return other.scratch::<T>(isa, threads);
    }
    let plan = InputGradPlan::<T>::new(isa, g);
    let own = match plan.swept {
        true => plan.swept_lens(g).map(Scratch::bytes::<T>).iter().sum(),
        false => lanes_scratch(g.batch * plan.bands.per_image, threads, plan.lane(g)),
    };
    plan.shared(g) + own
}

/// The gradient of a convolution to its input, from the gradient to its output.
///
/// # Panics
/// If a slice is not as long as the geometry says, or the scratch is too small.
pub fn conv2d_input_grad<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    filter: &[T],
    output_grad: &[T],
    input_grad: &mut [T],
    scratch: &mut [u8],
) {
    assert!(
        input_grad.len() == g.input_len()
            && filter.len() == g.filter_len()
            && output_grad.len() == g.output_len(),
        "operands do not fit {g:?}"
    );
    if g.is_empty() {
        return input_grad.fill(T::zeroed());
    }
    if let Some(other) = FastAlgorithm::of::<T>(cpu.isa, g, Pass::ToInput) {
        return other.run(
            cpu,
            [filter, output_grad],
            None,
            Epilogue::default(),
            input_grad,
            scratch,
        );
    }
    let plan = InputGradPlan::<T>::new(cpu.isa, g);
    let width = plan.tiles.cols();
    let mut scratch = Scratch::new(scratch);
    let packed = scratch.take::<T>(g.k_h * g.k_w * g.out_c * plan.panels * width);
    let offsets = scratch.take::<usize>(g.k_h * g.k_w);
    pack(cpu, g, &plan, filter, packed);
    for phase in plan.phases() {
        let firsts = phase.each_tap(&plan).step_by(phase.merged);
        for (offset, ((_, y), (_, x))) in offsets[phase.done..].iter_mut().zip(firsts) {
            *offset = (y * plan.cols + x) * g.out_c;
        }
    }
    let images = Images::output(g, output_grad);
    if plan.swept {
        let [seen_len, turned_len] = plan.swept_lens(g);
        let (seen, turned) = (scratch.take::<T>(seen_len), scratch.take::<T>(turned_len));
        let from = plan.axes.map(|axis| axis.first(0));
        images.copy_all(cpu, from, [plan.lines_of_all(g), plan.cols], g.out_c, seen);
        let to = match g.layout {
            Layout::Nhwc => &mut *input_grad,
            Layout::Nchw => &mut *turned,
        };
        sweep(cpu, g, &plan, [seen, packed], offsets, to);
        if g.layout == Layout::Nchw {
            transpose_each(cpu, [g.in_h * g.in_w, g.in_c], turned, input_grad);
        }
        return;
    }
    let run = InputGradCall {
        isa: cpu.isa,
        g,
        plan: &plan,
        output_grad: images,
        packed,
        offsets,
        input_grad: Disjoint::new(input_grad),
    };
    let tasks = g.batch * plan.bands.per_image;
    for_lanes(
        cpu.pool,
        tasks,
        scratch.rest(),
        plan.lane(g),
        &|task, scratch| run.task(task, scratch),
    );
}

/// Computes the pixels of each phase of all images.
fn sweep<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    plan: &InputGradPlan<T>,
    [seen, packed]: [&[T]; 2],
    offsets: &[usize],
    to: &mut [T],
) {
    let [rows, cols] = plan.axes;
    let to = Disjoint::new(to);
    for phase in plan.phases() {
        let (y, x) = (rows.first_of(phase.at[0]), cols.first_of(phase.at[1]));
        if y >= g.in_h || x >= g.in_w {
            continue;
        }
        let from = |axis: PhaseAxis, at: usize| (axis.first(at) - axis.first(0)) as usize;
        CacheBlocked {
            tiles: plan.tiles,
            images: g.batch,
            lines: (g.in_h - y).div_ceil(rows.stride),
            pixels: (g.in_w - x).div_ceil(cols.stride),
            seen: (
                seen,
                Lines {
                    start: (from(rows, y) * plan.cols + from(cols, x)) * g.out_c,
                    image: plan.lines_of_all(g) * plan.cols * g.out_c,
                    line: plan.cols * g.out_c,
                    pixel: g.out_c,
                },
            ),
            offsets: &offsets[phase.done..][..phase.taps / phase.merged],
            len: phase.merged * g.out_c,
            packed: &packed[phase.done * plan.panels * g.out_c * plan.tiles.cols()..],
            panels: plan.panels,
            channels: g.in_c,
            to: (
                &to,
                Lines {
                    start: (y * g.in_w + x) * g.in_c,
                    image: g.in_h * g.in_w * g.in_c,
                    line: rows.stride * g.in_w * g.in_c,
                    pixel: cols.stride * g.in_c,
                },
            ),
            epilogue: Epilogue::NONE,
        }
        .run(cpu);
    }
}

/// Lays the taps out phase by phase, each as panels of a matrix of `taps out_c` rows and `in_c` columns.
fn pack<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    plan: &InputGradPlan<T>,
    filter: &[T],
    packed: &mut [T],
) {
    let width = plan.tiles.cols();
    let packed = Disjoint::new(packed);
    cpu.pool.parallel_for(plan.panels, &|panel| {
        let channels = width.min(g.in_c - panel * width);
        for phase in plan.phases() {
            let start = (phase.done * plan.panels + phase.taps * panel) * g.out_c * width;
            // SAFETY: this phase's part of this panel, which no other index writes.
            let to = unsafe { packed.slice(start, phase.taps * g.out_c * width) };
            if channels < width {
                to.fill(T::zeroed());
            }
            for (i, (y, x)) in phase.each_tap(plan).enumerate() {
                let start = (y.0 * g.k_w + x.0) * g.in_c * g.out_c + panel * width * g.out_c;
                let from = Rows {
                    start,
                    stride: g.out_c,
                };
                let to_rows = Rows {
                    start: i * g.out_c * width,
                    stride: width,
                };
                transpose(cpu.isa, (channels, g.out_c), (filter, from), (to, to_rows));
            }
        }
    });
}

/// The pixels that are seen through the same taps.
#[derive(Clone, Copy)]
struct Phase {
    /// By axis.
    at: [usize; 2],
    taps: usize,
    /// Taps that lie side by side are one.
    merged: usize,
    /// Taps of the phases before this one.
    done: usize,
}

impl Phase {
    /// For each tap, its place in the filter and in the reach, by axis.
    fn each_tap<T>(
        self,
        plan: &InputGradPlan<T>,
    ) -> impl Iterator<Item = ((usize, usize), (usize, usize))> {
        let [rows, cols] = plan.axes;
        rows.taps(self.at[0])
            .flat_map(move |y| cols.taps(self.at[1]).map(move |x| (y, x)))
    }
}

/// State that the tasks of one call share.
struct InputGradCall<'a, T: 'static> {
    isa: Isa,
    g: &'a ConvGeometry,
    plan: &'a InputGradPlan<T>,
    output_grad: Images<'a, T>,
    packed: &'a [T],
    offsets: &'a [usize],
    input_grad: Disjoint<'a, T>,
}

impl<T: Real> InputGradCall<'_, T> {
    /// Computes one band of one image.
    fn task(&self, task: usize, scratch: &mut [u8]) {
        let (g, plan) = (self.g, self.plan);
        let [rows, cols] = plan.axes;
        let (image, band) = (task / plan.bands.per_image, task % plan.bands.per_image);
        let (line, lines) = part(g.in_h, plan.bands.per_image, band);
        let mut scratch = Scratch::new(scratch);
        let window = Window {
            image,
            y: rows.first(line),
            lines: (rows.first(line + lines - 1) - rows.first(line)) as usize + rows.reach + 1,
            x: cols.first(0),
            cols: plan.cols,
            channel: 0,
            channels: g.out_c,
        };
        let seen = scratch.take::<T>(window.lines * window.cols * g.out_c);
        self.output_grad.copy(self.isa, window, seen, g.out_c);
        let pixels = lines * g.in_w;
        let place = image * g.in_h * g.in_w * g.in_c;
        match g.layout {
            Layout::Nhwc => {
                // SAFETY: the lines of this task, which no other writes.
                let to = unsafe {
                    self.input_grad
                        .slice(place + line * g.in_w * g.in_c, pixels * g.in_c)
                };
                self.phases(seen, line, lines, to);
            }
            Layout::Nchw => {
                let turned = scratch.take::<T>(pixels * g.in_c);
                self.phases(seen, line, lines, turned);
                let to = self.input_grad.pointer(place + line * g.in_w);
                // SAFETY: the lines of this task in each plane of its image, which no other writes.
                unsafe { copy_to_planes(self.isa, turned, pixels, g.in_c, to, g.in_h * g.in_w) };
            }
        }
    }

    /// Computes the pixels of a band, phase by phase.
    fn phases(&self, seen: &[T], line: usize, lines: usize, to: &mut [T]) {
        let (g, [rows, cols]) = (self.g, self.plan.axes);
        for phase in self.plan.phases() {
            // The first column of the phase, and the distance of its first line from the band's.
            let x = cols.first_of(phase.at[1]);
            let skip = (phase.at[0] + rows.stride - (line + rows.pad) % rows.stride) % rows.stride;
            if x >= g.in_w {
                continue;
            }
            for y in (line + skip..line + lines).step_by(rows.stride) {
                let seen =
                    &seen[(rows.first(y) - rows.first(line)) as usize * self.plan.cols * g.out_c..];
                let to = &mut to[(y - line) * g.in_w * g.in_c..][..g.in_w * g.in_c];
                self.line(phase, seen, x, to);
            }
        }
    }

    /// Computes the pixels of one line that belong to a phase, the first at column `x`.
    fn line(&self, phase: Phase, seen: &[T], x: usize, to: &mut [T]) {
        let (g, plan, width) = (self.g, self.plan, self.plan.tiles.cols());
        let cols = plan.axes[1];
        let pixels = (g.in_w - x).div_ceil(cols.stride);
        let row_tiles = pixels.div_ceil(plan.tiles.rows());
        for tile in 0..row_tiles {
            let (first, rows) = part(pixels, row_tiles, tile);
            let pixel = x + first * cols.stride;
            let start = (cols.first(pixel) - cols.first(0)) as usize * g.out_c;
            for panel in 0..plan.panels {
                let col = panel * width;
                let packed = (phase.done * plan.panels + phase.taps * panel) * g.out_c * width;
                let tile = Tile {
                    a: seen[start..].as_ptr(),
                    offsets: &self.offsets[phase.done..][..phase.taps / phase.merged],
                    len: phase.merged * g.out_c,
                    a_row: g.out_c,
                    a_col: 1,
                    b: self.packed[packed..].as_ptr(),
                    b_row: width,
                    c: to[pixel * g.in_c + col..].as_mut_ptr(),
                    c_row: cols.stride * g.in_c,
                    cols: width.min(g.in_c - col),
                    add: false,
                    epilogue: Epilogue::NONE,
                    ahead: Ahead::NONE,
                };
                // SAFETY: the band holds the reach of these pixels, the panel the taps of the phase, `to` the line.
                unsafe { plan.tiles.run(rows, &tile) };
            }
        }
    }
}
