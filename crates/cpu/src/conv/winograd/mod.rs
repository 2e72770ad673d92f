//! Winograd's convolution: fewer multiplications, between transforms of image tiles and of the filter at a few points.
//!
//! A tile of the input, some taps wider than the outputs it is for, becomes a number for each point; the filter does so
//! too; their products at each point are a GEMM over channels; and the GEMMs become the tile's outputs. The gradient to
//! the input is a convolution with the filter turned over, and that to the filter one of tiles of the input with tiles
//! of the gradient.
//!
//! Sums are taken in another order than the definition's, of numbers that are some times larger: a test holds the
//! largest error below 1e-5 of the largest result for three taps, 2e-5 for seven and 5e-5 for 5x5. For the same reason
//! an infinite number makes more outputs NaN than those that see it: the tiles it lies in, or, in a filter or its
//! gradient, all outputs of its channels; and an output that sees zeros alone may differ from zero by the error of the
//! others.

mod grads;
mod matrices;
mod sums;
mod tiling;
mod transform;

use std::any::TypeId;

use self::grads::Grads;
use self::sums::OutputSums;
use self::tiling::{MIN_TASKS, Tiling};
use super::geometry::Pass;
use super::{ConvGeometry, Packing, Real};
use crate::{Cpu, Epilogue, Isa};

/// Minimum number of channels, of the input and of the output.
const MIN_CHANNELS: usize = 16;

/// A convolution by Winograd's transforms.
pub(super) enum Winograd<'a> {
    Sums(OutputSums<'a>),
    Grads(Grads<'a>),
}

impl<'a> Winograd<'a> {
    /// `None` where another algorithm is better: where it takes fewer multiplications, with the cost of the transforms
    /// counted in them, or where the transformed tiles fit no cache.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        if TypeId::of::<T>() != TypeId::of::<f32>() || g.in_c.min(g.out_c) < MIN_CHANNELS {
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
        let alone = (MIN_TASKS as f64 / tasks as f64).max(1.0);
        (fits && work * alone < by_taps).then_some(fast)
    }

    /// For any filter that has transforms.
    pub(super) fn possible(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let tiling = Tiling::new(g, pass)?;
        Some(match pass {
            Pass::ToFilter => Winograd::Grads(Grads::new(isa, g, tiling)),
            _ => Winograd::Sums(OutputSums::new(isa, g, tiling, pass)),
        })
    }

    /// The scratch it needs on this many threads, in bytes.
    pub(super) fn scratch(&self, threads: usize) -> usize {
        match self {
            Winograd::Sums(sums) => sums.scratch(threads),
            Winograd::Grads(grads) => grads.scratch(threads),
        }
    }

    /// Returns the form in which the filter may be kept from step to step.
    pub(super) fn packing(&self) -> Option<Packing> {
        match self {
            Winograd::Sums(sums) => sums.packing(),
            Winograd::Grads(_) => None,
        }
    }

    /// Packs the filter.
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

    /// Computes it; operands as the pass's function takes them, and the packed filter, if there is one.
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
