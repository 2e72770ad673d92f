//! NoOp.

use thalweg_device::{Body, Kernel, Op};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient};

use crate::support::trivial_kernels::VIEW;

/// No computation: only control dependencies.
pub(crate) static NO_OP: Op = Op {
    def: OpDef {
        name: "NoOp",
        summary: "Does nothing: its control inputs are what it is for.",
        gradient: Gradient::None,
        effect: Effect::Control,
        ..OpDef::EMPTY
    },
    kernels: &[Kernel {
        body: Body::Nothing,
        ..VIEW
    }],
};
