//! The choice of an algorithm other than that by taps: GEMMs, or Winograd's.

use super::filter::Packing;
use super::geometry::{ConvGeometry, Pass, Real};
use super::pointwise::Pointwise;
use super::winograd::Winograd;
use crate::{Cpu, Epilogue, Isa};

/// An algorithm other than that by taps.
pub(super) enum Other<'a> {
    Pointwise(Pointwise<'a>),
    Winograd(Winograd<'a>),
}

impl<'a> Other<'a> {
    /// `None` where the algorithm by taps is better.
    pub(super) fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let one = Pointwise::of::<T>(isa, g, pass).map(Other::Pointwise);
        one.or_else(|| Winograd::of::<T>(isa, g, pass).map(Other::Winograd))
    }

    /// The scratch it needs on this many threads, in bytes.
    pub(super) fn scratch<T: Real>(&self, isa: Isa, threads: usize) -> usize {
        match self {
            Other::Pointwise(one) => one.scratch::<T>(isa, threads),
            Other::Winograd(fast) => fast.scratch(threads),
        }
    }

    /// Returns the form in which the filter may be kept from step to step.
    pub(super) fn packing(&self) -> Option<Packing> {
        match self {
            Other::Pointwise(_) => None,
            Other::Winograd(fast) => fast.packing(),
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
            Other::Pointwise(_) => {}
            Other::Winograd(fast) => fast.pack(cpu, filter, to, scratch),
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
            Other::Pointwise(one) => one.run(cpu, operands, epilogue, to, scratch),
            Other::Winograd(fast) => fast.run(cpu, operands, packed, epilogue, to, scratch),
        }
    }
}
