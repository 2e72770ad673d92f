//! One task of Winograd's convolution: some lines of tiles, times some panels of the transformed filter.

use super::super::tiling::{POINT_PADDING, TileLines, TransformedTiles};
use super::super::transform::{TileLayout, TransformJob};
use super::{OutputSums, PanelRows};
use crate::conv::band::{Images, copy_to_planes};
use crate::micro_kernel::{Ahead, Tile};
use crate::scratch::{Disjoint, Scratch, for_lanes, part};
use crate::{Cpu, Epilogue, Isa, Layout};

/// Numbers of a cache line.
const LINE_NUMBERS: usize = 16;

/// Transformed rows of a panel.
struct Panel<'a> {
    rows: &'a [f32],
    /// From a point to the next.
    step: usize,
    /// Number of rows.
    channels: usize,
    columns: usize,
}

/// State that the tasks of one call share.
pub(super) struct SumsCall<'a> {
    pub isa: Isa,
    pub sums: &'a OutputSums<'a>,
    pub images: Images<'a, f32>,
    pub filter: &'a [f32],
    /// All of the filter, where it has been transformed; if not, tasks do it.
    pub packed: Option<&'a [f32]>,
    pub epilogue: Epilogue<'a, f32>,
    pub to: Disjoint<'a, f32>,
}

impl SumsCall<'_> {
    pub(super) fn run(&self, task: usize, scratch: &mut [u8]) {
        let (sums, tiling) = (self.sums, &self.sums.tiling);
        let which = task / sums.by_panels;
        let panels = part(sums.panels, sums.by_panels, task % sums.by_panels);
        let mut scratch = Scratch::new(scratch);
        let [seen, held, gemms, turned] = sums.lens().map(|len| scratch.take::<f32>(len));
        let most = if self.packed.is_some() {
            0
        } else {
            sums.most()[2]
        };
        let panel_scratch = sums.panel_lens(most).map(|len| scratch.take::<f32>(len));
        let [turned_taps, own] = panel_scratch;
        let tiles = sums.cut.lines(which) * tiling.tiles[1];
        for block in 0..sums.inner {
            let channels = part(tiling.channels[0], sums.inner, block);
            for piece in sums.cut.pieces(which) {
                let what = tiling.of_images(self.images, channels);
                let held = TransformedTiles {
                    to: &mut *held,
                    tiles,
                    pixel: channels.1,
                };
                tiling.transform(self.isa, what, &piece, seen, held);
            }
            for at in 0..panels.1 {
                let number = panels.0 + at;
                let width = sums.tiles.cols();
                let (rows, step) = if let Some(packed) = self.packed {
                    let step = sums.panel_step(tiling.channels[0]);
                    let at = number * sums.points() * step + channels.0 * width;
                    (&packed[at..], step)
                } else {
                    let step = sums.panel_step(channels.1);
                    let to = own.as_mut_ptr();
                    let rows = PanelRows {
                        panel: number,
                        first: channels.0,
                        count: channels.1,
                    };
                    // SAFETY: `own` holds all points of these rows.
                    unsafe { sums.pack(self.isa, self.filter, rows, turned_taps, (to, step)) };
                    (&*own, step)
                };
                let panel = Panel {
                    rows,
                    step,
                    channels: channels.1,
                    columns: width.min(tiling.channels[1] - number * width),
                };
                let to = &mut gemms[at * width..];
                self.multiply(&panel, held, tiles, (to, panels.1 * width), block > 0);
            }
        }
        for piece in sums.cut.pieces(which) {
            self.outputs(&piece, panels, tiles, gemms, turned);
        }
    }

    /// Multiplies, at each point, a block of channels of tiles with those rows of a panel; `to` is where its first column
    /// is, among so many.
    fn multiply(
        &self,
        panel: &Panel<'_>,
        held: &[f32],
        tiles: usize,
        (to, columns): (&mut [f32], usize),
        add: bool,
    ) {
        let (sums, channels) = (self.sums, panel.channels);
        let width = sums.tiles.cols();
        let row_tiles = tiles.div_ceil(sums.tiles.rows());
        // The next point's rows, a part of them during each tile.
        let ahead = (channels * width).div_ceil(LINE_NUMBERS * row_tiles);
        let every = if self.packed.is_some() {
            (channels / ahead.max(1)).max(1)
        } else {
            0
        };
        for point in 0..sums.points() {
            let a = point * (tiles * channels + POINT_PADDING);
            let c = point * (tiles * columns + POINT_PADDING);
            let next = panel.rows.as_ptr().wrapping_add((point + 1) * panel.step);
            for tile in 0..row_tiles {
                let (row, rows) = part(tiles, row_tiles, tile);
                let tile = Tile {
                    a: held[a + row * channels..].as_ptr(),
                    offsets: &[0],
                    len: channels,
                    a_row: channels,
                    a_col: 1,
                    b: panel.rows[point * panel.step..].as_ptr(),
                    b_row: width,
                    c: to[c + row * columns..].as_mut_ptr(),
                    c_row: columns,
                    cols: panel.columns,
                    add,
                    epilogue: Epilogue::NONE,
                    ahead: Ahead::lines(
                        next.wrapping_add(tile * ahead * LINE_NUMBERS),
                        LINE_NUMBERS,
                        every,
                    ),
                };
                // SAFETY: rows of tiles that are held, of a panel in whole vectors, and of the GEMMs, which are this
                // task's.
                unsafe { sums.tiles.run(rows, &tile) };
            }
        }
    }

    /// Transforms the GEMMs of a piece to outputs.
    fn outputs(
        &self,
        piece: &TileLines,
        (panel, panels): (usize, usize),
        tiles: usize,
        gemms: &[f32],
        turned: &mut [f32],
    ) {
        let (sums, tiling) = (self.sums, &self.sums.tiling);
        let (t, width, [h, w]) = (tiling.transforms, sums.tiles.cols(), tiling.of);
        let (columns, all) = (panels * width, tiling.channels[1]);
        let (channel, step) = (panel * width, tiles * columns + POINT_PADDING);
        let channels = columns.min(all - channel);
        let y = piece.line * t.outputs[0];
        let lines = (piece.lines * t.outputs[0]).min(h - y);
        let (to, pixel) = match tiling.layout {
            Layout::Nhwc => {
                let at = (piece.image * h + y) * w * all + channel;
                (self.to.pointer(at), all)
            }
            Layout::Nchw => (turned.as_mut_ptr(), channels),
        };
        for line in 0..piece.lines {
            let tile = (piece.before + line) * tiling.tiles[1];
            let from = gemms[tile * columns..].as_ptr();
            let read = TileLayout {
                line: t.points[1] * step,
                pixel: step,
                tile: columns,
            };
            let to = to.wrapping_add(line * t.outputs[0] * w * pixel);
            let written = TileLayout {
                line: w * pixel,
                pixel,
                tile: t.outputs[1] * pixel,
            };
            let job = TransformJob {
                limit: [lines - line * t.outputs[0], w],
                epilogue: self.epilogue.channels(channel..),
                ..TransformJob::new((from, read), (to, written), tiling.tiles[1], channels)
            };
            // SAFETY: the GEMMs of these tiles, and the lines of this piece in the output or in memory of its own.
            unsafe { (t.to_outputs)(self.isa, &job) };
        }
        if tiling.layout == Layout::Nchw {
            let place = (piece.image * all + channel) * h * w + y * w;
            let to = self.to.pointer(place);
            // SAFETY: the lines of this piece in each of this task's planes of its image, which no other writes.
            unsafe { copy_to_planes(self.isa, turned, lines * w, channels, to, h * w) };
        }
    }
}

impl OutputSums<'_> {
    /// Operands are images and filter, or, to the input, filter and gradient; the filter may have been transformed before.
    pub(in super::super) fn run(
        &self,
        cpu: Cpu<'_>,
        [a, b]: [&[f32]; 2],
        packed: Option<&[f32]>,
        epilogue: Epilogue<'_, f32>,
        to: &mut [f32],
        scratch: &mut [u8],
    ) {
        let g = self.g;
        let mut scratch = Scratch::new(scratch);
        let own = scratch.take::<f32>(self.packed_len());
        let lanes = scratch.rest();
        let (data, filter) = if self.turned_over { (b, a) } else { (a, b) };
        let packed = match packed {
            Some(packed) => {
                assert_eq!(packed.len(), self.filter_len(), "another filter's");
                Some(packed)
            }
            None if self.packed => {
                self.pack_all(cpu, filter, own, lanes);
                Some(&*own)
            }
            None => None,
        };
        let (h, w) = if self.turned_over {
            (g.out_h, g.out_w)
        } else {
            (g.in_h, g.in_w)
        };
        let run = SumsCall {
            isa: cpu.isa,
            sums: self,
            images: Images {
                data,
                h,
                w,
                c: self.tiling.channels[0],
                layout: g.layout,
            },
            filter,
            packed,
            epilogue,
            to: Disjoint::new(to),
        };
        for_lanes(
            cpu.pool,
            self.tasks(),
            lanes,
            self.lane(),
            &|task, scratch| run.run(task, scratch),
        );
    }
}
