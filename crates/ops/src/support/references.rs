//! Definitions of ops on string references, as in TensorFlow's first graphs. Each runs as its counterpart on resource
//! handles.

use thalweg_device::Op;
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::Shape;

/// Shape rule of a reference: behind it are a container and a name.
pub(crate) fn two_strings(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.set(0, Shape::known(&[2]));
    Ok(())
}

/// Base definition of an op that runs as its counterpart on handles.
const REFERENCE_OP: OpDef = OpDef {
    summary: "The op of the same kind on a string reference.",
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Definition of an op that creates a reference, as its counterpart creates a handle.
pub(crate) const fn creator(
    name: &'static str,
    handle: &'static [Arg],
    attrs: &'static [AttrDef],
    on: &'static Op,
) -> Op {
    Op {
        def: OpDef {
            name,
            outputs: handle,
            attrs,
            shape: two_strings,
            on_handles: Some(on.def.name),
            ..REFERENCE_OP
        },
        kernels: &[],
    }
}

/// Definition of an op that takes a reference.
pub(crate) const fn on_reference(
    name: &'static str,
    inputs: &'static [Arg],
    outputs: &'static [Arg],
    attrs: &'static [AttrDef],
    on: &'static Op,
) -> Op {
    Op {
        def: OpDef {
            name,
            inputs,
            outputs,
            attrs,
            shape: on.def.shape,
            effect: on.def.effect,
            on_handles: Some(on.def.name),
            ..REFERENCE_OP
        },
        kernels: &[],
    }
}
