//! Whether all, or any, are true.

use thalweg_device::{Op, cpu, gpu};
use thalweg_graph::OpDef;

use super::axes::{BOOLS, on_gpu};
use super::fold::{Fold, over_axes};

/// Whether all elements over axes are true; true of no element.
pub(crate) static ALL: Op = Op {
    def: OpDef {
        name: "All",
        summary: "Whether all elements over the given axes are true.",
        ..BOOLS
    },
    kernels: &[cpu(|p| over_axes(p, Logical::<true>)), gpu(on_gpu)],
};

/// Whether any element over axes is true; false of no element.
pub(crate) static ANY: Op = Op {
    def: OpDef {
        name: "Any",
        summary: "Whether any element over the given axes is true.",
        ..BOOLS
    },
    kernels: &[cpu(|p| over_axes(p, Logical::<false>)), gpu(on_gpu)],
};

/// Whether all (`ALL`) or any are true, as 1 or 0: bools cannot lie in scratch memory.
#[derive(Clone, Copy)]
struct Logical<const ALL: bool>;

impl<const ALL: bool> Fold for Logical<ALL> {
    type In = bool;
    type Acc = u8;
    type Out = bool;
    #[inline(always)]
    fn empty(self) -> u8 {
        u8::from(ALL)
    }
    #[inline(always)]
    fn lift(self, x: bool) -> u8 {
        u8::from(x)
    }
    #[inline(always)]
    fn join(self, a: u8, b: u8) -> u8 {
        if ALL { a & b } else { a | b }
    }
    #[inline(always)]
    fn finish(self, acc: u8) -> bool {
        acc != 0
    }
}
