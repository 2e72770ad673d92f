//! The forward convolution, tap by tap: each output line is a product of the pixels under it and the filter as a matrix.

use super::algorithm::FastAlgorithm;
use super::band::{Bands, Images, Window, copy_to_planes};
use super::cache_blocked::{CacheBlocked, Lines, Padded, is_cache_blocked};
use super::geometry::Pass;
use super::{ConvGeometry, Filter, Packing, Real};
use crate::micro_kernel::{Ahead, Tile, Tiles};
use crate::scratch::{Disjoint, Scratch, for_chunks, for_lanes, lanes_scratch, part};
use crate::transpose::transpose_each;
use crate::{Cpu, Epilogue, Isa, Layout};

/// The most pixels for which a filter that fits no cache is kept in panels: to copy it takes as long as to multiply it
/// with about twenty.
const MAX_KEPT_PIXELS: usize = 256;

/// Numbers of an output channel that lie side by side.
fn after(g: &ConvGeometry) -> usize {
    match g.layout {
        Layout::Nhwc => 1,
        Layout::Nchw => g.out_h * g.out_w,
    }
}

/// The division of a forward convolution into bands and panels.
struct ForwardPlan<T: 'static> {
    tiles: Tiles<T>,
    bands: Bands,
    /// Taps that lie side by side in the image and in the filter are one.
    merged: usize,
    inner: usize,
    panels: usize,
    /// The padded form of the images where the filter is swept.
    swept: Option<Padded>,
    /// Columns from a line of the copy to the next.
    cols: usize,
}

impl<T: Real> ForwardPlan<T> {
    fn new(isa: Isa, g: &ConvGeometry) -> Self {
        let tiles = T::tiles(isa);
        let swept = is_cache_blocked::<T>(g.filter_len()).then(|| Padded::new(g));
        let cols = swept.map_or(g.cols_seen(), |padded| padded.cols);
        ForwardPlan {
            tiles,
            swept,
            cols,
            bands: Bands::new(
                g.batch,
                g.out_h,
                g.stride[0] * g.cols_seen() * g.in_c * size_of::<T>(),
            ),
            merged: if g.dilation[1] == 1 { g.k_w } else { 1 },
            inner: g.k_h * g.k_w * g.in_c,
            panels: g.out_c.div_ceil(tiles.cols()),
        }
    }

    /// Numbers of the filter in panels.
    fn filter_len(&self) -> usize {
        self.inner * self.panels * self.tiles.cols()
    }

    /// Writes the filter in panels.
    fn pack(&self, cpu: Cpu<'_>, g: &ConvGeometry, filter: &[T], to: &mut [T]) {
        let width = self.tiles.cols();
        for_chunks(cpu.pool, to, self.inner * width, &|panel, to| {
            let cols = width.min(g.out_c - panel * width);
            for (to, from) in to.chunks_exact_mut(width).zip(filter.chunks_exact(g.out_c)) {
                to[..cols].copy_from_slice(&from[panel * width..][..cols]);
                to[cols..].fill(T::zeroed());
            }
        });
    }

    /// Returns the filter in panels: the kept one, or packed into `to`.
    fn packed<'a>(
        &self,
        cpu: Cpu<'_>,
        g: &ConvGeometry,
        filter: Filter<'a, T>,
        to: &'a mut [T],
    ) -> &'a [T] {
        let packed = filter.packed.unwrap_or_else(|| {
            self.pack(cpu, g, filter.taps, to);
            to
        });
        assert_eq!(packed.len(), self.filter_len(), "another filter's");
        packed
    }

    /// Writes where each stretch of taps begins, from the first tap of a pixel.
    fn write_offsets(&self, g: &ConvGeometry, offsets: &mut [usize]) {
        let per_line = g.k_w / self.merged;
        for (tap, offset) in offsets.iter_mut().enumerate() {
            let (i, j) = (tap / per_line, tap % per_line);
            *offset = (i * g.dilation[0] * self.cols + j * g.dilation[1]) * g.in_c;
        }
    }

    fn shared(&self, g: &ConvGeometry) -> usize {
        let width = self.panels * self.tiles.cols();
        Scratch::bytes::<T>(self.filter_len())
            + Scratch::bytes::<T>(Epilogue::<T>::room(width))
            + Scratch::bytes::<usize>(g.k_h * g.k_w / self.merged)
    }

    fn band_len(&self, g: &ConvGeometry) -> usize {
        g.lines_seen(self.bands.lines) * g.cols_seen() * g.in_c
    }

    fn lane(&self, g: &ConvGeometry) -> usize {
        let turned = match g.layout {
            Layout::Nhwc => 0,
            Layout::Nchw => self.bands.lines * g.out_w * g.out_c,
        };
        Scratch::bytes::<T>(self.band_len(g)) + Scratch::bytes::<T>(turned)
    }
}

/// The scratch that [`conv2d`] needs on this many threads, in bytes.
pub fn conv2d_scratch<T: Real>(isa: Isa, threads: usize, g: &ConvGeometry) -> usize {
    if g.is_empty() {
        return 0;
    }
    if let Some(other) = FastAlgorithm::of::<T>(isa, g, Pass::Forward) {
        return other.scratch::<T>(isa, threads);
    }
    let plan = ForwardPlan::<T>::new(isa, g);
    let own = match plan.swept {
        Some(padded) => Scratch::bytes::<T>(padded.len(g)) + Scratch::bytes::<T>(turned_len(g)),
        None => lanes_scratch(g.batch * plan.bands.per_image, threads, plan.lane(g)),
    };
    plan.shared(g) + own
}

/// Returns the packed form of [`conv2d`]'s filter, where packing is worth keeping while the filter stays as it is.
pub fn conv2d_packing<T: Real>(isa: Isa, g: &ConvGeometry) -> Option<Packing> {
    if g.is_empty() {
        return None;
    }
    if let Some(other) = FastAlgorithm::of::<T>(isa, g, Pass::Forward) {
        return other.packing();
    }
    if is_cache_blocked::<T>(g.filter_len()) && g.batch * g.out_h * g.out_w > MAX_KEPT_PIXELS {
        // It would take as much memory again, and copying it is a small part of reading it for all pixels.
        return None;
    }
    let plan = ForwardPlan::<T>::new(isa, g);
    Some(Packing::new(
        g,
        [0, 0],
        plan.tiles.cols(),
        plan.filter_len(),
    ))
}

/// Packs a filter, with the scratch of [`conv2d`].
///
/// # Panics
/// If there is no packing, or a slice does not have its length.
pub fn conv2d_pack<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    filter: &[T],
    to: &mut [T],
    scratch: &mut [u8],
) {
    let packing = conv2d_packing::<T>(cpu.isa, g);
    assert!(
        filter.len() == g.filter_len() && packing.is_some_and(|p| p.len() == to.len()),
        "operands do not fit {g:?}"
    );
    match FastAlgorithm::of::<T>(cpu.isa, g, Pass::Forward) {
        Some(other) => other.pack(cpu, filter, to, scratch),
        None => ForwardPlan::<T>::new(cpu.isa, g).pack(cpu, g, filter, to),
    }
}

/// Numbers of an output that is computed with its channels last and then turned.
fn turned_len(g: &ConvGeometry) -> usize {
    match g.layout {
        Layout::Nhwc => 0,
        Layout::Nchw => g.output_len(),
    }
}

/// The convolution of `input` with `filter`, and the epilogue, to `output`.
///
/// # Panics
/// If a slice is not as long as the geometry says, or the scratch is too small.
pub fn conv2d<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    input: &[T],
    filter: Filter<'_, T>,
    epilogue: Epilogue<'_, T>,
    output: &mut [T],
    scratch: &mut [u8],
) {
    assert!(
        input.len() == g.input_len()
            && filter.taps.len() == g.filter_len()
            && output.len() == g.output_len(),
        "operands do not fit {g:?}"
    );
    assert!(
        epilogue.fits(g.out_c, output),
        "one scale and one bias for each output channel, and its residual"
    );
    if output.is_empty() {
        return;
    }
    if g.is_empty() {
        // No channels or no taps: every sum is zero.
        output.fill(T::zeroed());
        return epilogue.apply(cpu, g.out_c, after(g), output);
    }
    // Sums with channels first are not computed where they are stored.
    let (epilogue, then) = match g.layout {
        Layout::Nhwc => (epilogue, Epilogue::NONE),
        Layout::Nchw => epilogue.split_at_residual(),
    };
    sums(cpu, g, input, filter, epilogue, output, scratch);
    then.apply(cpu, g.out_c, after(g), output);
}

/// The convolution by the algorithm that is the fastest for it.
fn sums<T: Real>(
    cpu: Cpu<'_>,
    g: &ConvGeometry,
    input: &[T],
    filter: Filter<'_, T>,
    epilogue: Epilogue<'_, T>,
    output: &mut [T],
    scratch: &mut [u8],
) {
    if let Some(other) = FastAlgorithm::of::<T>(cpu.isa, g, Pass::Forward) {
        return other.run(
            cpu,
            [input, filter.taps],
            filter.packed,
            epilogue,
            output,
            scratch,
        );
    }
    let plan = ForwardPlan::<T>::new(cpu.isa, g);
    let mut scratch = Scratch::new(scratch);
    let own = scratch.take::<T>(plan.filter_len());
    let packed = plan.packed(cpu, g, filter, own);
    let width = plan.panels * plan.tiles.cols();
    let epilogue = epilogue.padded(scratch.take::<T>(Epilogue::<T>::room(width)));
    let offsets = scratch.take::<usize>(g.k_h * g.k_w / plan.merged);
    plan.write_offsets(g, offsets);
    let call = ForwardCall {
        cpu,
        g,
        plan: &plan,
        input: Images::input(g, input),
        packed,
        offsets,
        epilogue,
    };
    match plan.swept {
        Some(padded) => call.sweep(padded, output, scratch),
        None => call.run_bands(output, scratch),
    }
}

/// State that the tasks of one call share.
struct ForwardCall<'a, T: 'static> {
    cpu: Cpu<'a>,
    g: &'a ConvGeometry,
    plan: &'a ForwardPlan<T>,
    input: Images<'a, T>,
    packed: &'a [T],
    offsets: &'a [usize],
    /// Its lists have whole panels.
    epilogue: Epilogue<'a, T>,
}

impl<T: Real> ForwardCall<'_, T> {
    /// Computes all images along a filter that does not fit the cache, from images that are padded once.
    fn sweep(&self, padded: Padded, output: &mut [T], mut scratch: Scratch<'_>) {
        let (g, plan) = (self.g, self.plan);
        let copy = scratch.take::<T>(padded.len(g));
        let turned = scratch.take::<T>(turned_len(g));
        let seen = padded.read(self.cpu, g, self.input, copy);
        let to = match g.layout {
            Layout::Nhwc => &mut *output,
            Layout::Nchw => &mut *turned,
        };
        CacheBlocked {
            tiles: plan.tiles,
            images: g.batch,
            lines: g.out_h,
            pixels: g.out_w,
            seen: (seen, padded.seen(g)),
            offsets: self.offsets,
            len: plan.merged * g.in_c,
            packed: self.packed,
            panels: plan.panels,
            channels: g.out_c,
            to: (
                &Disjoint::new(to),
                Lines {
                    start: 0,
                    image: g.out_h * g.out_w * g.out_c,
                    line: g.out_w * g.out_c,
                    pixel: g.out_c,
                },
            ),
            epilogue: self.epilogue,
        }
        .run(self.cpu);
        if g.layout == Layout::Nchw {
            transpose_each(self.cpu, [g.out_h * g.out_w, g.out_c], turned, output);
        }
    }

    /// Computes all images band by band, where the filter stays in the cache.
    fn run_bands(&self, output: &mut [T], scratch: Scratch<'_>) {
        let tasks = self.g.batch * self.plan.bands.per_image;
        let output = Disjoint::new(output);
        for_lanes(
            self.cpu.pool,
            tasks,
            scratch.rest(),
            self.plan.lane(self.g),
            &|task, scratch| self.task(task, &output, scratch),
        );
    }

    /// Computes one band of one image.
    fn task(&self, task: usize, output: &Disjoint<'_, T>, scratch: &mut [u8]) {
        let (g, plan) = (self.g, self.plan);
        let (image, band) = (task / plan.bands.per_image, task % plan.bands.per_image);
        let (line, lines) = part(g.out_h, plan.bands.per_image, band);
        let mut scratch = Scratch::new(scratch);
        let seen = scratch.take::<T>(plan.band_len(g));
        let window = Window {
            image,
            y: (line * g.stride[0]) as isize - g.pad_top as isize,
            lines: g.lines_seen(lines),
            x: -(g.pad_left as isize),
            cols: g.cols_seen(),
            channel: 0,
            channels: g.in_c,
        };
        self.input.copy(self.cpu.isa, window, seen, g.in_c);
        let pixels = lines * g.out_w;
        let place = image * g.out_h * g.out_w * g.out_c;
        match g.layout {
            Layout::Nhwc => {
                // SAFETY: the lines of this task, which no other writes.
                let to =
                    unsafe { output.slice(place + line * g.out_w * g.out_c, pixels * g.out_c) };
                self.lines(seen, lines, to);
            }
            Layout::Nchw => {
                let turned = scratch.take::<T>(pixels * g.out_c);
                self.lines(seen, lines, turned);
                let to = output.pointer(place + line * g.out_w);
                // SAFETY: the lines of this task in each plane of its image, which no other writes.
                unsafe {
                    copy_to_planes(self.cpu.isa, turned, pixels, g.out_c, to, g.out_h * g.out_w)
                };
            }
        }
    }

    /// Computes output lines from the input lines they see, both channels last.
    fn lines(&self, seen: &[T], lines: usize, to: &mut [T]) {
        let (g, plan, width) = (self.g, self.plan, self.plan.tiles.cols());
        let line_seen = g.stride[0] * g.cols_seen() * g.in_c;
        // Where the lines follow each other at the pixels' own distance, they are one long line.
        let joined = g.stride[0] * g.cols_seen() == g.out_w * g.stride[1];
        let (lines, pixels) = if joined {
            (1, lines * g.out_w)
        } else {
            (lines, g.out_w)
        };
        let row_tiles = pixels.div_ceil(plan.tiles.rows());
        for line in 0..lines {
            for tile in 0..row_tiles {
                let (x, rows) = part(pixels, row_tiles, tile);
                for panel in 0..plan.panels {
                    let col = panel * width;
                    let cols = width.min(g.out_c - col);
                    let tile = Tile {
                        a: seen[line * line_seen + x * g.stride[1] * g.in_c..].as_ptr(),
                        offsets: self.offsets,
                        len: plan.merged * g.in_c,
                        a_row: g.stride[1] * g.in_c,
                        a_col: 1,
                        b: self.packed[col * plan.inner..].as_ptr(),
                        b_row: width,
                        c: to[(line * pixels + x) * g.out_c + col..].as_mut_ptr(),
                        c_row: g.out_c,
                        cols,
                        add: false,
                        epilogue: self.epilogue.channels(col..),
                        ahead: Ahead::NONE,
                    };
                    // SAFETY: the band holds all that these pixels see, the panel `inner` rows, and `to` the pixels.
                    unsafe { plan.tiles.run(rows, &tile) };
                }
            }
        }
    }
}
