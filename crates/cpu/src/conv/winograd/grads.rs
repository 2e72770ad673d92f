//! The gradient to the filter, from tiles of the images and of the gradient to the output.

use super::super::ConvGeometry;
use super::super::band::Images;
use super::super::partial_sums::add_parts;
use super::tiling::{
    MIN_TASKS, POINT_PADDING, TARGET_TASKS, TileParts, TileSource, Tiling, TransformedTiles,
};
use super::transform::{TileLayout, TransformJob};
use crate::micro_kernel::{Ahead, Tile, Tiled, Tiles};
use crate::scratch::{Disjoint, Scratch, for_lanes, lanes_scratch, part};
use crate::{Cpu, Epilogue, Isa};

/// Maximum numbers of transformed tiles, and of their GEMMs, in a task: parts of the second-level cache.
const MAX_TILE_NUMBERS: usize = 140 << 10;
const MAX_GEMM_NUMBERS: usize = 200 << 10;
/// Tiles of a part, about, below which its GEMMs would take too long to become a gradient.
const MIN_PART_TILES: usize = 16;
/// Maximum numbers of the gradients of all parts.
const MAX_PARTIAL_NUMBERS: usize = 1 << 20;

/// The division of the gradient into tasks. A task computes a block of it, of some channels of both sides, from a part
/// of the images.
pub(in super::super) struct Grads<'a> {
    g: &'a ConvGeometry,
    tiling: Tiling,
    tiles: Tiles<f32>,
    /// Parts of the lines of tiles, which are added up in the end.
    parts: usize,
    /// Blocks of channels, of the input and of the output.
    blocks: [usize; 2],
    /// Lines of tiles that are transformed and multiplied at once.
    cut: TileParts,
}

impl<'a> Grads<'a> {
    pub(super) fn new(isa: Isa, g: &'a ConvGeometry, tiling: Tiling) -> Self {
        let tiles = f32::tiles(isa);
        let points = tiling.transforms.gemms();
        let mut blocks = [1, 1];
        let block = |i: usize, blocks: &[usize; 2]| tiling.channels[i].div_ceil(blocks[i]);
        let parts = tiling.all().div_ceil(MIN_PART_TILES);
        loop {
            let lens = [0, 1].map(|i| block(i, &blocks));
            let too_few = parts * blocks[0] * blocks[1] < MIN_TASKS && lens != [1, 1];
            if points * lens[0] * lens[1] <= MAX_GEMM_NUMBERS && !too_few {
                break;
            }
            blocks[usize::from(lens[1] > lens[0])] += 1;
        }
        let each = points * (block(0, &blocks) + block(1, &blocks));
        let parts = parts.min(TARGET_TASKS.div_ceil(blocks[0] * blocks[1]));
        let parts = parts
            .min(MAX_PARTIAL_NUMBERS / g.filter_len().max(1))
            .max(1);
        let cut = tiling.cut((MAX_TILE_NUMBERS / each).min(tiling.all().div_ceil(parts)));
        let parts = parts.min(cut.len());
        Grads {
            g,
            tiling,
            tiles,
            parts,
            blocks,
            cut,
        }
    }

    /// Returns its cost in multiplications.
    pub(super) fn work(&self) -> f64 {
        let [rows, columns] = self.blocks;
        (self.tiling).work([columns, rows], 14.0 * self.parts as f64)
    }

    /// `true` if a task's tiles fit a cache, or nearly.
    pub(super) fn fits(&self) -> bool {
        let tiles = self.cut.most() * self.tiling.tiles[1];
        self.points() * tiles * self.most().iter().sum::<usize>() <= 2 * MAX_TILE_NUMBERS
    }

    /// Returns the number of times that products of some tiles are added to those of others.
    #[cfg(test)]
    pub(in super::super) fn additions(&self) -> usize {
        self.cut.len() - self.parts
    }

    fn points(&self) -> usize {
        self.tiling.transforms.gemms()
    }

    pub(super) fn tasks(&self) -> usize {
        self.parts * self.blocks[0] * self.blocks[1]
    }

    /// Numbers of the gradients of the parts.
    fn partial_len(&self) -> usize {
        match self.parts {
            1 => 0,
            parts => parts * self.g.filter_len(),
        }
    }

    /// Channels of a block, at most; those of the output in whole vectors.
    fn most(&self) -> [usize; 2] {
        let [from, to] = [0, 1].map(|i| self.tiling.channels[i].div_ceil(self.blocks[i]));
        [from, to.next_multiple_of(self.tiles.cols() / 2)]
    }

    /// Numbers that a task copies, those it holds transformed of images and of the gradient, and their GEMMs.
    fn lens(&self) -> [usize; 4] {
        let [from, to] = self.most();
        let tiles = self.cut.most() * self.tiling.tiles[1];
        let of_one = self.cut.most().min(self.tiling.tiles[0]);
        let [images, grads] =
            [self.tiling.more(), [0, 0]].map(|more| self.tiling.seen(of_one, more));
        [
            (images[0] * images[1] * from).max(grads[0] * grads[1] * to),
            self.points() * (tiles * from + POINT_PADDING),
            self.points() * (tiles * to + POINT_PADDING),
            self.points() * (from * to + POINT_PADDING),
        ]
    }

    fn lane(&self) -> usize {
        self.lens().map(Scratch::bytes::<f32>).iter().sum()
    }

    pub(super) fn scratch(&self, threads: usize) -> usize {
        Scratch::bytes::<f32>(self.partial_len())
            + lanes_scratch(self.tasks(), threads, self.lane())
    }

    /// Operands are images, and the gradient to the output.
    pub(super) fn run(
        &self,
        cpu: Cpu<'_>,
        [images, grads]: [&[f32]; 2],
        to: &mut [f32],
        scratch: &mut [u8],
    ) {
        let g = self.g;
        let mut scratch = Scratch::new(scratch);
        let partials = scratch.take::<f32>(self.partial_len());
        let images = Images::input(g, images);
        let grads = Images::output(g, grads);
        let run = GradsCall {
            isa: cpu.isa,
            grads: self,
            operands: [images, grads],
            to: Disjoint::new(match self.parts {
                1 => &mut *to,
                _ => &mut *partials,
            }),
        };
        for_lanes(
            cpu.pool,
            self.tasks(),
            scratch.rest(),
            self.lane(),
            &|task, scratch| run.task(task, scratch),
        );
        if self.parts > 1 {
            add_parts(cpu, partials, to);
        }
    }
}

/// State that the tasks of one call share.
struct GradsCall<'a> {
    isa: Isa,
    grads: &'a Grads<'a>,
    /// Images, and the gradient to the output.
    operands: [Images<'a, f32>; 2],
    to: Disjoint<'a, f32>,
}

impl GradsCall<'_> {
    fn task(&self, task: usize, scratch: &mut [u8]) {
        let (grads, tiling) = (self.grads, &self.grads.tiling);
        let [rows, cols] = grads.blocks;
        let (which, block) = (task / (rows * cols), task % (rows * cols));
        let channels = [
            part(tiling.channels[0], rows, block / cols),
            part(tiling.channels[1], cols, block % cols),
        ];
        let (first, cuts) = part(grads.cut.len(), grads.parts, which);
        let mut scratch = Scratch::new(scratch);
        let [seen, held, held_grads, gemms] = grads.lens().map(|len| scratch.take::<f32>(len));
        for i in first..first + cuts {
            let tiles = grads.cut.lines(i) * tiling.tiles[1];
            for piece in grads.cut.pieces(i) {
                for (operand, to) in [&mut *held, &mut *held_grads].into_iter().enumerate() {
                    let what = self.seen(operand, channels[operand]);
                    let pixel = self.pixel(operand, channels[operand].1);
                    let held = TransformedTiles { to, tiles, pixel };
                    tiling.transform(self.isa, what, &piece, seen, held);
                }
            }
            self.multiply(channels, tiles, held, held_grads, gemms, i > first);
        }
        self.gradient(which, channels, gemms);
    }

    /// From a pixel of an operand to the next, as it is held.
    fn pixel(&self, operand: usize, channels: usize) -> usize {
        match operand {
            0 => channels,
            _ => channels.next_multiple_of(self.grads.tiles.cols() / 2),
        }
    }

    /// Returns the source of an operand's tiles.
    fn seen(&self, operand: usize, channels: (usize, usize)) -> TileSource<'_> {
        let (tiling, images) = (&self.grads.tiling, self.operands[operand]);
        match operand {
            0 => tiling.of_images(images, channels),
            _ => TileSource {
                images,
                first: [0, 0],
                more: [0, 0],
                channels,
                transform: tiling.transforms.of_grads,
            },
        }
    }

    /// Adds, at each point, the products of some tiles.
    fn multiply(
        &self,
        [(_, from), (_, to)]: [(usize, usize); 2],
        tiles: usize,
        held: &[f32],
        held_grads: &[f32],
        gemms: &mut [f32],
        add: bool,
    ) {
        let grads = self.grads;
        let (width, pixel) = (grads.tiles.cols(), self.pixel(1, to));
        let row_tiles = from.div_ceil(grads.tiles.rows());
        for point in 0..grads.points() {
            let a = point * (tiles * from + POINT_PADDING);
            let b = point * (tiles * pixel + POINT_PADDING);
            let c = point * (from * to + POINT_PADDING);
            for col in (0..to).step_by(width) {
                for tile in 0..row_tiles {
                    let (row, rows) = part(from, row_tiles, tile);
                    let tile = Tile {
                        a: held[a + row..].as_ptr(),
                        offsets: &[0],
                        len: tiles,
                        a_row: 1,
                        a_col: from,
                        b: held_grads[b + col..].as_ptr(),
                        b_row: pixel,
                        c: gemms[c + row * to + col..].as_mut_ptr(),
                        c_row: to,
                        cols: width.min(to - col),
                        add,
                        epilogue: Epilogue::NONE,
                        ahead: Ahead::NONE,
                    };
                    // SAFETY: channels of tiles that are held, the gradient's in whole vectors, and GEMMs of this task.
                    unsafe { grads.tiles.run(rows, &tile) };
                }
            }
        }
    }

    /// Transforms the GEMMs of a block to its gradient.
    fn gradient(
        &self,
        which: usize,
        [(row, rows), (col, cols)]: [(usize, usize); 2],
        gemms: &[f32],
    ) {
        let (g, t) = (self.grads.g, self.grads.tiling.transforms);
        let step = rows * cols + POINT_PADDING;
        let read = TileLayout {
            line: t.points[1] * step,
            pixel: step,
            tile: cols,
        };
        let to = (self.to).pointer(which * g.filter_len() + row * g.out_c + col);
        let written = TileLayout {
            line: g.k_w * g.in_c * g.out_c,
            pixel: g.in_c * g.out_c,
            tile: g.out_c,
        };
        let job = TransformJob::new((gemms.as_ptr(), read), (to, written), rows, cols);
        // SAFETY: all GEMMs of the block, and its numbers in the gradient of this part, which no other task writes.
        unsafe { (t.to_tap_grads)(self.isa, &job) };
    }
}
