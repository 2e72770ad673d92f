//! All, Any.

use thalweg_device::{Op, cpu, gpu};
use thalweg_graph::OpDef;

use super::axes::{BOOLS, on_gpu};
use super::fold::{Fold, over_axes};

/// `true` if all elements over axes are true; true without elements.
pub(crate) static ALL: Op = Op {
    def: OpDef {
        name: "All",
        summary: "Whether all elements over the given axes are true.",
        ..BOOLS
    },
    kernels: &[cpu(|p| over_axes(p, Logical::<true>)), gpu(on_gpu)],
};

/// `true` if any element over axes is true; false without elements.
pub(crate) static ANY: Op = Op {
    def: OpDef {
        name: "Any",
        summary: "Whether any element over the given axes is true.",
        ..BOOLS
    },
    kernels: &[cpu(|p| over_axes(p, Logical::<false>)), gpu(on_gpu)],
};

/// Logical and (`ALL`) or logical or, as 1 or 0: scratch memory cannot hold bools.
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
