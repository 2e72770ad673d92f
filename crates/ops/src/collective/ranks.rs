//! How many ranks there are, which one this is, and a wait for all.

use thalweg_device::{Collective, Op, cpu_tensors, on_host};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of};
use thalweg_tensor::{DType, Tensor};

use super::run::{COLLECTIVE, SET, nothing, ranks, run, set};

/// What a rank knows without asking; to be completed.
const KNOWN: OpDef = OpDef {
    attrs: &[SET],
    shape: crate::shapes::scalar,
    gradient: Gradient::None,
    // It differs from rank to rank, so it is no constant of the graph.
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// How many there are.
pub(super) static SIZE: Op = Op {
    def: OpDef {
        name: "HorovodSize",
        summary: "The number of ranks.",
        outputs: &[arg_of("size", DType::I32)],
        ..KNOWN
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![Tensor::scalar(ranks(cx)?.size as i32)])),
        on_host(),
    ],
};

/// Which one this is.
pub(super) static RANK: Op = Op {
    def: OpDef {
        name: "HorovodRank",
        summary: "The number of this rank, from 0.",
        outputs: &[arg_of("rank", DType::I32)],
        ..KNOWN
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![Tensor::scalar(ranks(cx)?.rank as i32)])),
        on_host(),
    ],
};

/// Waits for all.
pub(super) static BARRIER: Op = Op {
    def: OpDef {
        name: "_Barrier",
        summary: "Waits until all ranks have come here.",
        attrs: &[SET],
        gradient: Gradient::None,
        ..COLLECTIVE
    },
    kernels: &[
        cpu_tensors(|cx| {
            run(cx, set(cx.attrs())?, || {
                Ok((Collective::Barrier, nothing()?))
            })
        }),
        on_host(),
    ],
};
