//! Winograd's way to convolve: fewer multiplications, between what tiles of images and the filter become at a few points.
//!
//! A tile of the input, some taps wider than the outputs it is for, becomes a number for each point; the filter does so
//! too; what they give at each point is a GEMM over channels; and the GEMMs become the tile's outputs.
//! The gradient to the input is a convolution with the filter turned over, and that to the filter one of tiles of the
//! input with tiles of the gradient.
//!
//! Sums are taken in another order than the definition's, of numbers that are some times larger: a test holds the largest
//! error below 1e-5 of the largest result for three taps, 2e-5 for seven and 5e-5 for 5x5. For the same reason what an
//! infinite number makes NaN of is more than what sees it: the tiles it lies in, or, of a filter or in its gradient, all
//! that its channels have a part in; and an output that sees zeros alone may differ from zero by as much as others are
//! off.

mod grads;
mod matrices;
mod sums;
mod transform;

use std::any::TypeId;

use self::grads::Grads;
use self::sums::SumsOf;
use self::transform::{Job, One, Points, Side, Transform, Transforms};
use super::band::{Images, Window};
use super::{ConvGeometry, Packing, Pass, Real};
use crate::scratch::part;
use crate::{Cpu, Epilogue, Isa, Layout};

/// The shapes of filters that have transforms: four outputs of three, five or seven taps, by six, eight or ten points.
static SHAPES: [Transforms; 6] = [
    Transforms::new::<Points<6, 4, 3>, Points<6, 4, 3>>(),
    Transforms::new::<Points<8, 4, 5>, Points<8, 4, 5>>(),
    Transforms::new::<One, Points<6, 4, 3>>(),
    Transforms::new::<Points<6, 4, 3>, One>(),
    Transforms::new::<One, Points<10, 4, 7>>(),
    Transforms::new::<Points<10, 4, 7>, One>(),
];

/// From this many channels on, of the input and of the output.
const CHANNELS: usize = 16;
/// Tasks to aim for.
const TASKS: usize = 16;
/// Tasks that a small convolution has to have: with fewer, the second thread would be idle that another way keeps busy. It
/// is no larger for machines with more, as the way decides about the bits, which are the same on any number of threads.
const FEWEST: usize = 2;
/// Between the numbers of one point and those of the next, so that they are not all at the same place of the cache.
const APART: usize = 16;

/// A convolution that is computed in this way.
pub(super) enum Winograd<'a> {
    Sums(SumsOf<'a>),
    Grads(Grads<'a>),
}

impl<'a> Winograd<'a> {
    /// None where another way is better: where that takes fewer multiplications, what a transform costs in them added
    /// up, or where so much would have to be held that no cache has it.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        if TypeId::of::<T>() != TypeId::of::<f32>() || g.in_c.min(g.out_c) < CHANNELS {
            return None;
        }
        let fast = Self::possible(isa, g, pass)?;
        let (work, tasks, fits) = match &fast {
            Winograd::Sums(sums) => (sums.work(), sums.tasks(), sums.fits()),
            Winograd::Grads(grads) => (grads.work(), grads.tasks(), grads.fits()),
        };
        let pixels = match pass {
            Pass::ToInput => g.in_h * g.in_w,
            _ => g.out_h * g.out_w,
        };
        let by_taps = (g.batch * pixels) as f64 * g.filter_len() as f64;
        let alone = (FEWEST as f64 / tasks as f64).max(1.0);
        (fits && work * alone < by_taps).then_some(fast)
    }

    /// Of any filter that has transforms.
    pub(super) fn possible(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let tiling = Tiling::new(g, pass)?;
        Some(match pass {
            Pass::ToFilter => Winograd::Grads(Grads::new(isa, g, tiling)),
            _ => Winograd::Sums(SumsOf::new(isa, g, tiling, pass)),
        })
    }

    /// The scratch it needs on this many threads, in bytes.
    pub(super) fn scratch(&self, threads: usize) -> usize {
        match self {
            Winograd::Sums(sums) => sums.scratch(threads),
            Winograd::Grads(grads) => grads.scratch(threads),
        }
    }

    /// How the filter may be kept from step to step.
    pub(super) fn packing(&self) -> Option<Packing> {
        match self {
            Winograd::Sums(sums) => sums.packing(),
            Winograd::Grads(_) => None,
        }
    }

    /// Makes of the filter what is kept of it.
    pub(super) fn pack<T: Real>(
        &self,
        cpu: Cpu<'_>,
        filter: &[T],
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        if let Winograd::Sums(sums) = self {
            let (filter, to) = (bytemuck::cast_slice(filter), bytemuck::cast_slice_mut(to));
            sums.pack_all(cpu, filter, to, scratch);
        }
    }

    /// Computes it; operands as the pass's function takes them, and the filter as it was kept, if it was.
    pub(super) fn run<T: Real>(
        &self,
        cpu: Cpu<'_>,
        [a, b]: [&[T]; 2],
        packed: Option<&[T]>,
        epilogue: Epilogue<'_, T>,
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        let (a, b) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b));
        let to = bytemuck::cast_slice_mut(to);
        match self {
            Winograd::Sums(sums) => {
                let packed = packed.map(bytemuck::cast_slice);
                sums.run(cpu, [a, b], packed, epilogue.cast(), to, scratch)
            }
            Winograd::Grads(grads) => grads.run(cpu, [a, b], to, scratch),
        }
    }
}

/// The tiles of a batch of images, and the channels of a GEMM.
#[derive(Clone, Copy)]
struct Tiling {
    transforms: &'static Transforms,
    /// Lines and columns that are tiled: those of the output, or, to the input, of the input.
    of: [usize; 2],
    /// Tiles of an image, in lines and in columns.
    tiles: [usize; 2],
    batch: usize,
    /// The first line and the first column that the first tile sees.
    first: [isize; 2],
    /// Channels of what is seen, and of the other.
    channels: [usize; 2],
    layout: Layout,
}

impl Tiling {
    /// None where the filter has no transforms.
    fn new(g: &ConvGeometry, pass: Pass) -> Option<Self> {
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
    fn lines(&self) -> usize {
        self.batch * self.tiles[0]
    }

    /// Tiles of all images.
    fn all(&self) -> usize {
        self.lines() * self.tiles[1]
    }

    /// What all this takes, in multiplications: the GEMMs, transforms of tiles of both sides, each so many times, and
    /// those of the filter. What a transform costs is measured (two Xeon cores, AVX-512): a number of a tile takes as long
    /// as eleven multiplications where there are six points in both dimensions, others by the additions they take; one of
    /// the filter as `of_filter` says; and the GEMMs take a quarter longer than those of taps.
    fn work(&self, times: [usize; 2], of_filter: f64) -> f64 {
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
    fn seen(&self, lines: usize, more: [usize; 2]) -> [usize; 2] {
        let t = self.transforms;
        [
            lines * t.outputs[0] + more[0],
            self.tiles[1] * t.outputs[1] + more[1],
        ]
    }

    /// Lines and columns that a tile of images sees beyond its outputs.
    fn more(&self) -> [usize; 2] {
        self.transforms.taps.map(|k| k - 1)
    }

    /// What tiles of images are made of.
    fn of_images<'i>(&self, images: Images<'i, f32>, channels: (usize, usize)) -> Seen<'i> {
        Seen {
            images,
            first: self.first,
            more: self.more(),
            channels,
            transform: self.transforms.of_data,
        }
    }

    /// Copies some lines of tiles of an image, padded, to `seen`, and transforms them: `pixel` numbers for each tile, at
    /// each point.
    fn transform(&self, isa: Isa, what: Seen<'_>, piece: &Piece, seen: &mut [f32], held: Held<'_>) {
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
        let step = held.tiles * held.pixel + APART;
        for line in 0..piece.lines {
            let tile = (piece.before + line) * self.tiles[1];
            let read = Side {
                line: cols * channels,
                pixel: channels,
                tile: t.outputs[1] * channels,
            };
            let written = Side {
                line: t.points[1] * step,
                pixel: step,
                tile: held.pixel,
            };
            let from = seen[line * t.outputs[0] * cols * channels..].as_ptr();
            let to = held.to[tile * held.pixel..].as_mut_ptr();
            let job = Job {
                padded: held.pixel > channels,
                ..Job::new((from, read), (to, written), self.tiles[1], channels)
            };
            // SAFETY: `seen` holds what these tiles see, and `held` their numbers at all points.
            unsafe { (what.transform)(isa, &job) };
        }
    }

    /// How lines of tiles are cut into parts of at most so many tiles, or a line: some images each, or parts of one.
    fn cut(&self, tiles: usize) -> Cut {
        let lines = (tiles / self.tiles[1]).max(1);
        let images = lines / self.tiles[0];
        Cut {
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

/// What tiles are made of.
struct Seen<'a> {
    images: Images<'a, f32>,
    /// Where the first tile begins.
    first: [isize; 2],
    /// Lines and columns of a tile beyond its outputs.
    more: [usize; 2],
    /// The first channel, and how many.
    channels: (usize, usize),
    transform: Transform,
}

/// Where transformed tiles lie.
struct Held<'a> {
    to: &'a mut [f32],
    /// How many there are, of a point.
    tiles: usize,
    /// From a tile to the next; where that is more than its channels, it is whole vectors.
    pixel: usize,
}

/// Lines of tiles, cut into parts.
#[derive(Clone, Copy)]
struct Cut {
    batch: usize,
    /// Lines of an image.
    of_image: usize,
    /// Parts of the batch, whole images each, and parts of each of those where it is one image.
    parts: usize,
    of_part: usize,
}

impl Cut {
    fn len(self) -> usize {
        self.parts * self.of_part
    }

    /// The lines of the largest part.
    fn most(self) -> usize {
        self.batch.div_ceil(self.parts) * self.of_image.div_ceil(self.of_part)
    }

    /// The lines of a part.
    fn lines(self, i: usize) -> usize {
        self.pieces(i).map(|p| p.lines).sum()
    }

    /// What a part has of each image.
    fn pieces(self, i: usize) -> impl Iterator<Item = Piece> {
        let (first, images) = part(self.batch, self.parts, i / self.of_part);
        let (line, lines) = part(self.of_image, self.of_part, i % self.of_part);
        (0..images).map(move |i| Piece {
            image: first + i,
            line,
            lines,
            before: i * lines,
        })
    }
}

/// Lines of tiles of an image.
struct Piece {
    image: usize,
    line: usize,
    lines: usize,
    /// Lines of its part before it.
    before: usize,
}
