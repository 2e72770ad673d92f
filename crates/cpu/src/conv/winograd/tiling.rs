//! Tilings: the tiles of images, their transforms, and how tasks share them.

use super::super::band::{Images, Window};
use super::super::geometry::{ConvGeometry, Pass};
use super::transform::{One, Points, TileLayout, Transform, TransformJob, Transforms};
use crate::scratch::part;
use crate::{Isa, Layout};

/// The shapes of filters that have transforms: four outputs of three, five or seven taps, by six, eight or ten points.
pub(super) static SHAPES: [Transforms; 6] = [
    Transforms::new::<Points<6, 4, 3>, Points<6, 4, 3>>(),
    Transforms::new::<Points<8, 4, 5>, Points<8, 4, 5>>(),
    Transforms::new::<One, Points<6, 4, 3>>(),
    Transforms::new::<Points<6, 4, 3>, One>(),
    Transforms::new::<One, Points<10, 4, 7>>(),
    Transforms::new::<Points<10, 4, 7>, One>(),
];

/// Intended number of tasks.
pub(super) const TARGET_TASKS: usize = 16;

/// Minimum number of tasks of a small convolution: with fewer, the second thread would be idle that another algorithm
/// keeps busy. It is no larger for machines with more threads, as the algorithm decides about the bits, which are the
/// same on any number of threads.
pub(super) const MIN_TASKS: usize = 2;

/// Distance between the numbers of one point and those of the next, so that they are not all in the same set of the
/// cache.
pub(super) const POINT_PADDING: usize = 16;

/// The tiles of a batch of images, and the channels of a GEMM.
#[derive(Clone, Copy)]
pub(super) struct Tiling {
    pub(super) transforms: &'static Transforms,
    /// Lines and columns that are tiled: those of the output, or, to the input, of the input.
    pub(super) of: [usize; 2],
    /// Tiles of an image, in lines and in columns.
    pub(super) tiles: [usize; 2],
    pub(super) batch: usize,
    /// The first line and the first column that the first tile sees.
    pub(super) first: [isize; 2],
    /// Channels of the images that are seen, and of the others.
    pub(super) channels: [usize; 2],
    pub(super) layout: Layout,
}

impl Tiling {
    /// `None` where the filter has no transforms.
    pub(super) fn new(g: &ConvGeometry, pass: Pass) -> Option<Self> {
        let plain = g.stride == [1, 1] && g.dilation == [1, 1];
        let mut shapes = SHAPES.iter().filter(|_| plain);
        let transforms = shapes.find(|t| t.taps == [g.k_h, g.k_w])?;
        let pads = [g.pad_top as isize, g.pad_left as isize];
        let (of, first, channels) = match pass {
            Pass::ToInput => {
                let [h, w] = [g.k_h, g.k_w].map(|k| 1 - k as isize);
                let first = [pads[0] + h, pads[1] + w];
                ([g.in_h, g.in_w], first, [g.out_c, g.in_c])
            }
            _ => ([g.out_h, g.out_w], pads.map(|p| -p), [g.in_c, g.out_c]),
        };
        let [m_h, m_w] = transforms.outputs;
        Some(Tiling {
            transforms,
            of,
            tiles: [of[0].div_ceil(m_h), of[1].div_ceil(m_w)],
            batch: g.batch,
            first,
            channels,
            layout: g.layout,
        })
    }

    /// Lines of tiles.
    pub(super) fn lines(&self) -> usize {
        self.batch * self.tiles[0]
    }

    /// Tiles of all images.
    pub(super) fn all(&self) -> usize {
        self.lines() * self.tiles[1]
    }

    /// Returns the cost in multiplications: the GEMMs, transforms of tiles of both sides, each so many times, and those
    /// of the filter. The costs of transforms are measured (two Xeon cores, AVX-512): a number of a tile takes as long
    /// as eleven multiplications where there are six points in both dimensions, others by the additions they take; one
    /// of the filter costs `of_filter`; and the GEMMs take a quarter longer than those of taps.
    pub(super) fn work(&self, times: [usize; 2], of_filter: f64) -> f64 {
        let points = self.transforms.gemms() as f64;
        let [from, to] = self.channels.map(|c| c as f64);
        let tiles = self.all() as f64;
        let [seen, other] = times.map(|t| t as f64);
        // A dimension takes half as many additions as there are points, and one more.
        let additions = |n: usize| if n > 1 { 1.0 + n as f64 / 2.0 } else { 0.0 };
        let price: f64 = self.transforms.points.map(additions).iter().sum();
        let each = 1.25 * from * to + 11.0 / 8.0 * price * (from * seen + to * other);
        points * (tiles * each + of_filter * from * to)
    }

    /// Lines and columns that some lines of tiles see, each so many beyond its outputs.
    pub(super) fn seen(&self, lines: usize, more: [usize; 2]) -> [usize; 2] {
        let t = self.transforms;
        [
            lines * t.outputs[0] + more[0],
            self.tiles[1] * t.outputs[1] + more[1],
        ]
    }

    /// Lines and columns that a tile of images sees beyond its outputs.
    pub(super) fn more(&self) -> [usize; 2] {
        self.transforms.taps.map(|k| k - 1)
    }

    /// Returns the source of tiles of images.
    pub(super) fn of_images<'i>(
        &self,
        images: Images<'i, f32>,
        channels: (usize, usize),
    ) -> TileSource<'i> {
        TileSource {
            images,
            first: self.first,
            more: self.more(),
            channels,
            transform: self.transforms.of_data,
        }
    }

    /// Copies some lines of tiles of an image, padded, to `seen`, and transforms them: `pixel` numbers for each tile, at
    /// each point.
    pub(super) fn transform(
        &self,
        isa: Isa,
        what: TileSource<'_>,
        piece: &TileLines,
        seen: &mut [f32],
        held: TransformedTiles<'_>,
    ) {
        let t = self.transforms;
        let (channel, channels) = what.channels;
        let [lines, cols] = self.seen(piece.lines, what.more);
        let window = Window {
            image: piece.image,
            y: what.first[0] + (piece.line * t.outputs[0]) as isize,
            lines,
            x: what.first[1],
            cols,
            channel,
            channels,
        };
        what.images.copy(isa, window, seen, channels);
        let step = held.tiles * held.pixel + POINT_PADDING;
        for line in 0..piece.lines {
            let tile = (piece.before + line) * self.tiles[1];
            let read = TileLayout {
                line: cols * channels,
                pixel: channels,
                tile: t.outputs[1] * channels,
            };
            let written = TileLayout {
                line: t.points[1] * step,
                pixel: step,
                tile: held.pixel,
            };
            let from = seen[line * t.outputs[0] * cols * channels..].as_ptr();
            let to = held.to[tile * held.pixel..].as_mut_ptr();
            let job = TransformJob {
                padded: held.pixel > channels,
                ..TransformJob::new((from, read), (to, written), self.tiles[1], channels)
            };
            // SAFETY: `seen` holds the pixels of these tiles, and `held` their numbers at all points.
            unsafe { (what.transform)(isa, &job) };
        }
    }

    /// Cuts lines of tiles into parts of at most so many tiles, or a line: some images each, or parts of one.
    pub(super) fn cut(&self, tiles: usize) -> TileParts {
        let lines = (tiles / self.tiles[1]).max(1);
        let images = lines / self.tiles[0];
        TileParts {
            batch: self.batch,
            of_image: self.tiles[0],
            parts: match images {
                0 => self.batch,
                _ => self.batch.div_ceil(images),
            },
            of_part: match images {
                0 => self.tiles[0].div_ceil(lines),
                _ => 1,
            },
        }
    }
}

/// The source of tiles: images, a window, and a transform.
pub(super) struct TileSource<'a> {
    pub(super) images: Images<'a, f32>,
    /// The line and column at which the first tile begins.
    pub(super) first: [isize; 2],
    /// Lines and columns of a tile beyond its outputs.
    pub(super) more: [usize; 2],
    /// The first channel, and their number.
    pub(super) channels: (usize, usize),
    pub(super) transform: Transform,
}

/// The memory of transformed tiles.
pub(super) struct TransformedTiles<'a> {
    pub(super) to: &'a mut [f32],
    /// Number of tiles of a point.
    pub(super) tiles: usize,
    /// From a tile to the next; where that is more than its channels, it is whole vectors.
    pub(super) pixel: usize,
}

/// Lines of tiles, cut into parts.
#[derive(Clone, Copy)]
pub(super) struct TileParts {
    pub(super) batch: usize,
    /// Lines of an image.
    pub(super) of_image: usize,
    /// Parts of the batch, whole images each, and parts of each of those where it is one image.
    pub(super) parts: usize,
    pub(super) of_part: usize,
}

impl TileParts {
    pub(super) fn len(self) -> usize {
        self.parts * self.of_part
    }

    /// The lines of the largest part.
    pub(super) fn most(self) -> usize {
        self.batch.div_ceil(self.parts) * self.of_image.div_ceil(self.of_part)
    }

    /// The lines of a part.
    pub(super) fn lines(self, i: usize) -> usize {
        self.pieces(i).map(|p| p.lines).sum()
    }

    /// Returns the lines of a part in each image.
    pub(super) fn pieces(self, i: usize) -> impl Iterator<Item = TileLines> {
        let (first, images) = part(self.batch, self.parts, i / self.of_part);
        let (line, lines) = part(self.of_image, self.of_part, i % self.of_part);
        (0..images).map(move |i| TileLines {
            image: first + i,
            line,
            lines,
            before: i * lines,
        })
    }
}

/// Lines of tiles of an image.
pub(super) struct TileLines {
    pub(super) image: usize,
    pub(super) line: usize,
    pub(super) lines: usize,
    /// Lines of its part before it.
    pub(super) before: usize,
}
