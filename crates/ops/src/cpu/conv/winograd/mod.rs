//! Winograd's way to convolve: fewer multiplications, between what tiles of images and the filter become at a few points.
//!
//! A tile of the input, some taps wider than the outputs it is for, becomes a number for each point; the filter does so
//! too; what they give at each point is a product of matrices over channels; and the products become the tile's outputs.
//! The gradient to the input is a convolution with the filter turned over, and that to the filter one of tiles of the
//! input with tiles of the gradient.
//!
//! Sums are taken in another order than the definition's, of numbers that are some times larger: errors are about ten
//! times those of the definition in `f32` (a test holds them below 1e-5 of the largest result). An infinite number makes
//! NaN of the tiles it lies in.

mod grads;
mod matrices;
mod sums;
mod transform;

use std::any::TypeId;

use self::grads::Grads;
use self::sums::SumsOf;
use self::transform::{One, Points, Transforms};
use super::pointwise::Pass;
use super::{ConvGeometry, Real};
use crate::cpu::par::part;
use crate::cpu::{Cpu, Epilogue, Isa, Layout};

/// The shapes of filters that have transforms: four outputs of three taps by six points, two of five by six, and two of
/// seven by eight.
static SHAPES: [Transforms; 6] = [
    Transforms::new::<Points<6, 4, 3>, Points<6, 4, 3>>(),
    Transforms::new::<Points<6, 2, 5>, Points<6, 2, 5>>(),
    Transforms::new::<One, Points<6, 4, 3>>(),
    Transforms::new::<Points<6, 4, 3>, One>(),
    Transforms::new::<One, Points<8, 2, 7>>(),
    Transforms::new::<Points<8, 2, 7>, One>(),
];

/// From this many channels on, of the input and of the output.
const CHANNELS: usize = 16;

/// A convolution that is computed in this way.
pub(super) enum Winograd<'a> {
    Sums(SumsOf<'a>),
    Grads(Grads<'a>),
}

impl<'a> Winograd<'a> {
    /// None where another way is better.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let wide = g.in_c >= CHANNELS && g.out_c >= CHANNELS;
        let tiling = Tiling::new(g, pass).filter(|t| wide && t.pays(pass))?;
        (TypeId::of::<T>() == TypeId::of::<f32>()).then(|| Self::new(isa, g, pass, tiling))
    }

    /// Of any filter that has transforms.
    #[cfg(test)]
    pub(super) fn possible(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        Some(Self::new(isa, g, pass, Tiling::new(g, pass)?))
    }

    fn new(isa: Isa, g: &'a ConvGeometry, pass: Pass, tiling: Tiling) -> Self {
        match pass {
            Pass::ToFilter => Winograd::Grads(Grads::new(isa, g, tiling)),
            _ => Winograd::Sums(SumsOf::new(isa, g, tiling, pass)),
        }
    }

    /// The scratch it needs on this many threads, in bytes.
    pub(super) fn scratch(&self, threads: usize) -> usize {
        match self {
            Winograd::Sums(sums) => sums.scratch(threads),
            Winograd::Grads(grads) => grads.scratch(threads),
        }
    }

    /// Computes it; operands as the pass's function takes them.
    pub(super) fn run<T: Real>(
        &self,
        cpu: Cpu<'_>,
        [a, b]: [&[T]; 2],
        epilogue: Epilogue<'_, T>,
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        let (a, b) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b));
        let to = bytemuck::cast_slice_mut(to);
        match self {
            Winograd::Sums(sums) => {
                let epilogue = Epilogue {
                    bias: epilogue.bias.map(bytemuck::cast_slice),
                    relu: epilogue.relu,
                };
                sums.run(cpu, [a, b], epilogue, to, scratch)
            }
            Winograd::Grads(grads) => grads.run(cpu, [a, b], to, scratch),
        }
    }
}

/// The tiles of a batch of images, and the channels of a product.
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

    /// Whether this is less work than to multiply each tap, in multiplications. What a transform costs is measured (two
    /// Xeon cores, AVX-512): a number of a tile takes as long as eleven of them, one of the filter as ten, and one of its
    /// gradient as fourteen; products of the little matrices that remain take a quarter longer than those of taps.
    fn pays(&self, pass: Pass) -> bool {
        let t = self.transforms;
        let [from, to] = self.channels.map(|c| c as f64);
        let pixels = self.batch as f64 * self.of[0] as f64 * self.of[1] as f64;
        let tiles = self.batch as f64 * self.tiles[0] as f64 * self.tiles[1] as f64;
        let points = t.products() as f64;
        let filter = if pass == Pass::ToFilter { 14.0 } else { 10.0 };
        let products = 1.25 * tiles * points * from * to;
        let transforms = points * (11.0 * tiles * (from + to) + filter * from * to);
        products + transforms < pixels * (t.taps[0] * t.taps[1]) as f64 * from * to
    }

    /// How lines of tiles are cut into parts of at most so many tiles: some images each, or parts of one.
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
