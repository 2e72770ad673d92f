//! _ShapeError: fails in place of a node whose inputs do not fit it.

use thalweg_device::{KernelError, Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, args_of, str_attr, types_attr};

/// Fails with the error that the shape rule of another op has found. A branch that is not taken does not run it.
pub(crate) static SHAPE_ERROR: Op = Op {
    def: OpDef {
        name: "_ShapeError",
        summary: "Fails as a node whose inputs do not fit it, if it runs.",
        inputs: &[args_of("input", "Tin")],
        outputs: &[args_of("output", "Tout")],
        attrs: &[
            types_attr("Tin"),
            types_attr("Tout"),
            str_attr("op", "", &[]),
            str_attr("message", "", &[]),
        ],
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (op, message) = (cx.attrs().str("op"), cx.attrs().str("message"));
        Err(KernelError::Invalid(format!("{op}: {message}")))
    })],
};
