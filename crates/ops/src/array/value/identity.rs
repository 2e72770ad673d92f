//! Identity, IdentityN, DebugGradientIdentity, EnsureShape, GuaranteeConst, Snapshot, DeepCopy, PreventGradient, StopGradient.

use smallvec::smallvec;
use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg, args_of, attr, str_attr, type_attr, types_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::DType;

use crate::support::trivial_kernels::VIEW;

const ANY: AttrDef = type_attr("T", &DType::ALL);

/// Shape rule: output 0 has every known fact of input 0.
fn same(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if let Some(fact) = cx.fact(0) {
        cx.set_fact(0, fact);
    }
    Ok(())
}

/// The input, unchanged.
pub(crate) static IDENTITY: Op = Op {
    def: OpDef {
        name: "Identity",
        summary: "The input, unchanged.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            cx.set(0, cx.shape(0).clone());
            if cx.dtype(0) == DType::Resource
                && let Some((dtype, shape)) = cx.variable(0)
            {
                cx.set_variable(0, dtype, shape);
            }
            if let Some(value) = cx.value(0) {
                cx.set_value(0, value.clone());
            } else if let Some(elements) = cx.elements(0) {
                cx.set_elements(0, elements);
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
        same_as: |_| Some(0),
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};

const ONE: OpDef = OpDef {
    inputs: &[arg("input", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[ANY],
    shape: same,
    gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
    ..OpDef::EMPTY
};

/// The input, whose shape must match the attribute.
pub(crate) static ENSURE_SHAPE: Op = Op {
    def: OpDef {
        name: "EnsureShape",
        summary: "The input, which must have a shape.",
        attrs: &[attr("shape", AttrKind::Shape), ANY],
        shape: |cx| {
            let wanted = cx.attrs().shape("shape");
            let shape = wanted.merge(cx.shape(0));
            let shape = shape.ok_or_else(|| InferError::Mismatch {
                what: "the input must have the shape that the node says".to_owned(),
                left: cx.shape(0).clone(),
                right: wanted,
            })?;
            same(cx)?;
            cx.set(0, shape);
            Ok(())
        },
        ..ONE
    },
    kernels: &[VIEW],
};

/// The input, unchanged.
pub(crate) static SNAPSHOT: Op = Op {
    def: OpDef {
        name: "Snapshot",
        summary: "The input, unchanged.",
        ..ONE
    },
    kernels: &[VIEW],
};

/// The input, where a debugger of gradients looks.
pub(crate) static DEBUG_GRADIENT_IDENTITY: Op = Op {
    def: OpDef {
        name: "DebugGradientIdentity",
        summary: "The input, unchanged.",
        ..ONE
    },
    kernels: &[VIEW],
};

/// The input, which the program says is the same in all steps. Nothing here relies on it.
pub(crate) static GUARANTEE_CONST: Op = Op {
    def: OpDef {
        name: "GuaranteeConst",
        summary: "The input, unchanged.",
        ..ONE
    },
    kernels: &[VIEW],
};

/// A copy of the input. No copy is made here, since values never share writable memory.
pub(crate) static DEEP_COPY: Op = Op {
    def: OpDef {
        name: "DeepCopy",
        summary: "The input as it is now.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..ONE
    },
    kernels: &[VIEW],
};

/// The input; a gradient through it is an error.
pub(crate) static PREVENT_GRADIENT: Op = Op {
    def: OpDef {
        name: "PreventGradient",
        summary: "The input, unchanged; asking for a gradient through it is an error.",
        attrs: &[ANY, str_attr("message", "", &[])],
        gradient: Gradient::Missing,
        ..ONE
    },
    kernels: &[VIEW],
};

/// All inputs, unchanged.
pub(crate) static IDENTITY_N: Op = Op {
    def: OpDef {
        name: "IdentityN",
        summary: "The inputs, unchanged.",
        inputs: &[args_of("input", "T")],
        outputs: &[args_of("output", "T")],
        attrs: &[types_attr("T")],
        shape: |cx| {
            for i in 0..cx.inputs() {
                if let Some(fact) = cx.fact(i) {
                    cx.set_fact(i, fact);
                }
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| (0..g.inputs()).map(|i| g.dy(i)).collect()),
        same_as: |_| Some(0),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        (0..cx.inputs()).map(|i| cx.value(i)).collect()
    })],
};

/// The input, without a gradient.
pub(crate) static STOP_GRADIENT: Op = Op {
    def: OpDef {
        name: "StopGradient",
        summary: "The input; no gradient goes back through it.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            match cx.value(0).cloned() {
                Some(value) => cx.set_value(0, value),
                None => cx.set(0, cx.shape(0).clone()),
            }
            Ok(())
        },
        gradient: Gradient::None,
        same_as: |_| Some(0),
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};
