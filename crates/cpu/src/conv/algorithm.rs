//! The choice of an algorithm other than that by taps: GEMMs, Winograd's, or patches.

use super::filter::Packing;
use super::geometry::{ConvGeometry, Pass, Real};
use super::patches::Patches;
use super::pointwise::Pointwise;
use super::winograd::Winograd;
use crate::{Cpu, Epilogue, Isa};

/// An algorithm other than that by taps.
pub(super) enum FastAlgorithm<'a> {
    Pointwise(Pointwise<'a>),
    Winograd(Winograd<'a>),
    Patches(Patches<'a>),
}

impl<'a> FastAlgorithm<'a> {
    /// `None` where the algorithm by taps is better.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let one = Pointwise::of::<T>(isa, g, pass).map(FastAlgorithm::Pointwise);
        one.or_else(|| Winograd::of::<T>(isa, g, pass).map(FastAlgorithm::Winograd))
            .or_else(|| Patches::of::<T>(isa, g, pass).map(FastAlgorithm::Patches))
    }

    /// The scratch it needs on this many threads, in bytes.
    pub(super) fn scratch<T: Real>(&self, isa: Isa, threads: usize) -> usize {
        match self {
            FastAlgorithm::Pointwise(one) => one.scratch::<T>(isa, threads),
            FastAlgorithm::Winograd(fast) => fast.scratch(threads),
            FastAlgorithm::Patches(patches) => patches.scratch::<T>(isa, threads),
        }
    }

    /// Returns the form in which the filter may be kept from step to step.
    pub(super) fn packing(&self) -> Option<Packing> {
        match self {
            FastAlgorithm::Pointwise(_) | FastAlgorithm::Patches(_) => None,
            FastAlgorithm::Winograd(fast) => fast.packing(),
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
        match self {
            FastAlgorithm::Pointwise(_) | FastAlgorithm::Patches(_) => {}
            FastAlgorithm::Winograd(fast) => fast.pack(cpu, filter, to, scratch),
        }
    }

    /// Computes it, with the epilogue of a forward pass; operands as the pass's function takes them, and the packed
    /// filter, if there is one.
    pub(super) fn run<T: Real>(
        &self,
        cpu: Cpu<'_>,
        operands: [&[T]; 2],
        packed: Option<&[T]>,
        epilogue: Epilogue<'_, T>,
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        match self {
            FastAlgorithm::Pointwise(one) => one.run(cpu, operands, epilogue, to, scratch),
            FastAlgorithm::Winograd(fast) => fast.run(cpu, operands, packed, epilogue, to, scratch),
            FastAlgorithm::Patches(patches) => patches.run(cpu, operands, to, scratch),
        }
    }
}
