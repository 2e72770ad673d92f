//! Winograd's forward convolution, and its gradient to the input (the same sums with the filter turned over).

mod task;

use super::super::geometry::Pass;
use super::super::{ConvGeometry, Packing};
use super::tiling::{MIN_TASKS, POINT_PADDING, TARGET_TASKS, TileParts, Tiling};
use super::transform::{TileLayout, TransformJob};
use crate::micro_kernel::{Tiled, Tiles};
use crate::scratch::{Disjoint, Scratch, for_lanes, lanes_scratch, part};
use crate::transpose::{Rows, transpose};
use crate::{Cpu, Isa, Layout};

/// Maximum numbers of transformed tiles in a task: a part of the second-level cache.
const MAX_TILE_NUMBERS: usize = 280 << 10;
/// Maximum number of channels that are transformed at once, and of columns of a task.
const MAX_BLOCK_CHANNELS: usize = 128;
/// Minimum number of tasks of a convolution that is cut into few along its images: more would transform those again and
/// again.
const MIN_WIDE_TASKS: usize = 8;
/// The largest filter, transformed, that is kept in memory, in numbers.
const MAX_PACKED_FILTER: usize = 16 << 20;
/// The largest that is worth keeping from step to step, in numbers, of few tiles and of many: a larger one takes memory,
/// and the time to read it, that the transforms of a large filter are small beside.
const MAX_KEPT_FILTER: [usize; 2] = [4 << 20, 1 << 20];
/// The most tiles that are few: the filter's transforms take as long as their products with about eight.
const FEW_TILES: usize = 32;
/// Tiles of a task, about, below which the filter would be read too often.
const MIN_TASK_TILES: usize = 24;
/// Rows of a panel that are transformed at once before the tasks.
const PACK_ROWS: usize = 32;

/// The division of the sums into tasks. A task computes some columns, which are channels of the output, of some lines
/// of tiles.
pub(in super::super) struct OutputSums<'a> {
    g: &'a ConvGeometry,
    tiling: Tiling,
    tiles: Tiles<f32>,
    turned_over: bool,
    /// Blocks of the channels that are summed over.
    inner: usize,
    panels: usize,
    /// Tasks, by lines of tiles and by panels.
    cut: TileParts,
    by_panels: usize,
    /// `true` if the filter is transformed before the tasks, and not by each that needs it.
    packed: bool,
}

impl<'a> OutputSums<'a> {
    pub(super) fn new(isa: Isa, g: &'a ConvGeometry, tiling: Tiling, pass: Pass) -> Self {
        let tiles = f32::tiles(isa);
        let [from, to] = tiling.channels;
        let inner = from.div_ceil(MAX_BLOCK_CHANNELS);
        let panels = to.div_ceil(tiles.cols());
        let mut by_panels = to.div_ceil(MAX_BLOCK_CHANNELS).min(panels);
        let block = from.div_ceil(inner) + panels.div_ceil(by_panels) * tiles.cols();
        let most = MAX_TILE_NUMBERS / (tiling.transforms.gemms() * block);
        let all = tiling.all();
        let by_tasks = TARGET_TASKS
            .div_ceil(by_panels)
            .min(all.div_ceil(MIN_TASK_TILES));
        let by_tasks = by_tasks.max(MIN_TASKS.div_ceil(panels)).min(tiling.lines());
        let cut = tiling.cut(most.min(all.div_ceil(by_tasks)));
        if cut.len() * by_panels < MIN_WIDE_TASKS {
            by_panels = MIN_WIDE_TASKS.div_ceil(cut.len()).min(panels);
        }
        OutputSums {
            g,
            tiling,
            tiles,
            turned_over: pass == Pass::ToInput,
            inner,
            panels,
            cut,
            by_panels,
            packed: cut.len() > 1,
        }
    }

    /// Returns its cost in multiplications.
    pub(super) fn work(&self) -> f64 {
        self.tiling.work([self.by_panels, 1], 10.0)
    }

    pub(super) fn tasks(&self) -> usize {
        self.cut.len() * self.by_panels
    }

    /// `true` if a task's tiles fit a cache, or nearly, and the filter memory.
    pub(super) fn fits(&self) -> bool {
        let [_, tiles, inner, columns] = self.most();
        self.points() * tiles * (inner + columns) <= 2 * MAX_TILE_NUMBERS
            && self.packed_len() <= MAX_PACKED_FILTER
    }

    fn points(&self) -> usize {
        self.tiling.transforms.gemms()
    }

    /// Lines of tiles, tiles, channels of a block and columns of a task, at most.
    fn most(&self) -> [usize; 4] {
        let lines = self.cut.most();
        let inner = self.tiling.channels[0].div_ceil(self.inner);
        let columns = self.panels.div_ceil(self.by_panels) * self.tiles.cols();
        [lines, lines * self.tiling.tiles[1], inner, columns]
    }

    /// Numbers that a task copies, that it holds transformed, that it multiplies, and that it turns.
    fn lens(&self) -> [usize; 4] {
        let [lines, tiles, inner, columns] = self.most();
        let of_one = lines.min(self.tiling.tiles[0]);
        let [seen_lines, seen_columns] = self.tiling.seen(of_one, self.tiling.more());
        let whole = of_one * self.tiling.transforms.outputs[0] * self.tiling.of[1] * columns;
        let turns = self.tiling.layout == Layout::Nchw;
        [
            seen_lines * seen_columns * inner,
            self.points() * (tiles * inner + POINT_PADDING),
            self.points() * (tiles * columns + POINT_PADDING),
            usize::from(turns) * whole,
        ]
    }

    /// Numbers of a point of a panel, of so many rows.
    fn panel_step(&self, rows: usize) -> usize {
        rows * self.tiles.cols() + POINT_PADDING
    }

    /// Numbers of all of the filter, transformed.
    fn filter_len(&self) -> usize {
        self.panels * self.points() * self.panel_step(self.tiling.channels[0])
    }

    /// Numbers of the filter that is transformed before the tasks.
    fn packed_len(&self) -> usize {
        usize::from(self.packed) * self.filter_len()
    }

    /// Returns the form in which the filter may be kept; `None` where it is too large.
    pub(super) fn packing(&self) -> Option<Packing> {
        let len = self.filter_len();
        let [few, many] = MAX_KEPT_FILTER;
        let most = match self.tiling.all() <= FEW_TILES {
            true => few,
            false => many,
        };
        (len <= most).then(|| {
            Packing::new(
                self.g,
                self.tiling.transforms.points,
                self.tiles.cols(),
                len,
            )
        })
    }

    /// Numbers that a task needs to transform rows of a panel: the rows turned over, and, where it keeps them, the
    /// transformed ones.
    fn panel_lens(&self, rows: usize) -> [usize; 2] {
        let taps = usize::from(self.turned_over) * self.g.k_h * self.g.k_w;
        let kept = usize::from(!self.packed) * self.points();
        [
            taps * rows * self.tiles.cols(),
            kept * self.panel_step(rows),
        ]
    }

    fn lane(&self) -> usize {
        let rows = if self.packed { 0 } else { self.most()[2] };
        let bytes = |lens: &[usize]| {
            lens.iter()
                .map(|&l| Scratch::bytes::<f32>(l))
                .sum::<usize>()
        };
        bytes(&self.lens()) + bytes(&self.panel_lens(rows))
    }

    /// Returns the bytes to transform some rows of the filter, and the number of times for all.
    fn pack_lane(&self) -> (usize, usize) {
        let parts = self.tiling.channels[0].div_ceil(PACK_ROWS);
        let bytes = Scratch::bytes::<f32>(self.panel_lens(PACK_ROWS)[0]);
        (bytes, self.panels * parts)
    }

    pub(super) fn scratch(&self, threads: usize) -> usize {
        let (pack, packs) = self.pack_lane();
        let lanes = lanes_scratch(self.tasks(), threads, self.lane());
        Scratch::bytes::<f32>(self.packed_len()) + lanes.max(lanes_scratch(packs, threads, pack))
    }

    /// Transforms all of the filter.
    pub(super) fn pack_all(
        &self,
        cpu: Cpu<'_>,
        filter: &[f32],
        to: &mut [f32],
        scratch: &mut [u8],
    ) {
        assert_eq!(to.len(), self.filter_len(), "memory for the filter");
        let (pack, packs) = self.pack_lane();
        let panels = Disjoint::new(to);
        for_lanes(cpu.pool, packs, scratch, pack, &|task, scratch| {
            let parts = packs / self.panels;
            let (first, count) = part(self.tiling.channels[0], parts, task % parts);
            let rows = PanelRows {
                panel: task / parts,
                first,
                count,
            };
            let turned = Scratch::new(scratch).take::<f32>(self.panel_lens(PACK_ROWS)[0]);
            let step = self.panel_step(self.tiling.channels[0]);
            let at = rows.panel * self.points() * step + first * self.tiles.cols();
            // SAFETY: rows of a panel that are this task's.
            unsafe { self.pack(cpu.isa, filter, rows, turned, (panels.pointer(at), step)) };
        });
    }

    /// Transforms some rows of a panel of the filter: for each point, a row for each channel that is summed over.
    ///
    /// # Safety
    /// `to` is valid for writes of these rows of all points, `step` apart.
    unsafe fn pack(
        &self,
        isa: Isa,
        filter: &[f32],
        rows: PanelRows,
        turned: &mut [f32],
        (to, step): (*mut f32, usize),
    ) {
        let PanelRows {
            panel,
            first: row,
            count: rows,
        } = rows;
        let (t, width) = (self.tiling.transforms, self.tiles.cols());
        let [from, all] = self.tiling.channels;
        let columns = width.min(all - panel * width);
        let tap = self.g.in_c * self.g.out_c;
        let (filter, read) = if self.turned_over {
            // The taps from the last to the first, with the channels of the output before those of the input.
            let taps = t.taps[0] * t.taps[1];
            for i in 0..taps {
                let start = (taps - 1 - i) * tap + panel * width * from + row;
                let from_rows = Rows {
                    start,
                    stride: from,
                };
                let to_rows = Rows {
                    start: i * rows * width,
                    stride: width,
                };
                transpose(isa, (columns, rows), (filter, from_rows), (turned, to_rows));
            }
            let side = TileLayout {
                line: t.taps[1] * rows * width,
                pixel: rows * width,
                tile: width,
            };
            (turned.as_ptr(), side)
        } else {
            let side = TileLayout {
                line: t.taps[1] * tap,
                pixel: tap,
                tile: all,
            };
            (filter[row * all + panel * width..].as_ptr(), side)
        };
        let written = TileLayout {
            line: t.points[1] * step,
            pixel: step,
            tile: width,
        };
        let job = TransformJob {
            padded: true,
            ..TransformJob::new((filter, read), (to, written), rows, columns)
        };
        // SAFETY: it reads taps of the filter, and writes the memory that the caller vouches for.
        unsafe { (t.of_taps)(isa, &job) };
    }
}

/// Rows of a panel of the filter.
#[derive(Clone, Copy)]
struct PanelRows {
    panel: usize,
    first: usize,
    count: usize,
}
