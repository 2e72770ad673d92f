//! HorovodSize, HorovodRank, HorovodBarrier.

use thalweg_device::{Collective, Op, cpu_tensors, on_host};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of};
use thalweg_tensor::{DType, Tensor};

use super::run::{COLLECTIVE_OP, PROCESS_SET, barrier_input, process_set, ranks, run};

/// Base definition of an op whose value a rank knows without communication.
const RANK_OP: OpDef = OpDef {
    attrs: &[PROCESS_SET],
    shape: crate::support::shapes::scalar,
    gradient: Gradient::None,
    // It differs from rank to rank, so it is no constant of the graph.
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Number of ranks.
pub(super) static SIZE: Op = Op {
    def: OpDef {
        name: "HorovodSize",
        summary: "The number of ranks.",
        outputs: &[arg_of("size", DType::I32)],
        ..RANK_OP
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![Tensor::scalar(ranks(cx)?.size as i32)])),
        on_host(),
    ],
};

/// Index of this rank.
pub(super) static RANK: Op = Op {
    def: OpDef {
        name: "HorovodRank",
        summary: "The index of this rank, from 0.",
        outputs: &[arg_of("rank", DType::I32)],
        ..RANK_OP
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![Tensor::scalar(ranks(cx)?.rank as i32)])),
        on_host(),
    ],
};

/// Waits for all ranks.
pub(super) static BARRIER: Op = Op {
    def: OpDef {
        name: "_Barrier",
        summary: "Waits until all ranks have reached the barrier.",
        attrs: &[PROCESS_SET],
        gradient: Gradient::None,
        ..COLLECTIVE_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            run(cx, process_set(cx.attrs())?, || {
                Ok((Collective::Barrier, barrier_input()?))
            })
        }),
        on_host(),
    ],
};
