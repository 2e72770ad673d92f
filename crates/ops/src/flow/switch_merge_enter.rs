//! TensorFlow 1's control flow: Switch, Merge, Enter, Exit, NextIteration, LoopCond, ControlTrigger, RefSelect, and
//! the variants on references.
//! A session interprets these ops; see `thalweg_graph::flow`.

use thalweg_device::{Body, Kernel, KernelError, Op, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, bool_attr, count_attr, int_attr, type_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use crate::support::shapes::expect_scalar;
use crate::support::trivial_kernels::VIEW;

/// Kernel of an op that a session's interpreter runs itself.
const INTERPRETED: Kernel = Kernel {
    body: Body::Nothing,
    ..VIEW
};

/// Base definition of an op of control flow.
const CONTROL_FLOW_OP: OpDef = OpDef {
    gradient: Gradient::Missing,
    effect: Effect::Flow,
    ..OpDef::EMPTY
};

const T: AttrDef = type_attr("T", &DType::ALL);

/// Gives every output the input's shape and the variable behind it.
fn forward_input_facts(cx: &mut Infer<'_>) {
    for i in 0..cx.outputs() {
        cx.set(i, cx.shape(0).clone());
        if let Some((dtype, shape)) = cx.variable(0) {
            cx.set_variable(i, dtype, shape);
        }
    }
}

fn switch(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 1)?;
    forward_input_facts(cx);
    Ok(())
}

/// Sets the output's shape to the common part of all inputs' shapes.
fn merge(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut shape = cx.shape(0).clone();
    for i in 1..cx.inputs() {
        shape = shape.common(cx.shape(i));
    }
    cx.set(0, shape);
    cx.set(1, Shape::scalar());
    if let Some((dtype, shape)) = cx.variable(0) {
        cx.set_variable(0, dtype, shape);
    }
    Ok(())
}

/// Passes the input to one of two outputs.
pub(crate) static SWITCH: Op = Op {
    def: OpDef {
        name: "Switch",
        summary: "Passes its input to the output that a bool selects; the other one is dead.",
        inputs: &[arg("data", "T"), arg_of("pred", DType::Bool)],
        outputs: &[arg("output_false", "T"), arg("output_true", "T")],
        attrs: &[T],
        shape: switch,
        ..CONTROL_FLOW_OP
    },
    kernels: &[INTERPRETED],
};

/// Like [`SWITCH`], for references.
pub(crate) static REF_SWITCH: Op = Op {
    def: OpDef {
        name: "RefSwitch",
        summary: "Passes a reference to the output that a bool selects.",
        inputs: &[arg("data", "T").reference(), arg_of("pred", DType::Bool)],
        outputs: &[
            arg("output_false", "T").reference(),
            arg("output_true", "T").reference(),
        ],
        attrs: &[T],
        shape: switch,
        on_handles: Some("Switch"),
        ..CONTROL_FLOW_OP
    },
    kernels: &[],
};

/// Passes on the first input that is not dead.
pub(crate) static MERGE: Op = Op {
    def: OpDef {
        name: "Merge",
        summary: "The first input that arrives and is not dead, and its index.",
        inputs: &[arg("inputs", "T").list("N")],
        outputs: &[arg("output", "T"), arg_of("value_index", DType::I32)],
        attrs: &[T, count_attr("N")],
        shape: merge,
        ..CONTROL_FLOW_OP
    },
    kernels: &[INTERPRETED],
};

/// Like [`MERGE`], for references.
pub(crate) static REF_MERGE: Op = Op {
    def: OpDef {
        name: "RefMerge",
        summary: "The first reference that arrives and is not dead, and its index.",
        inputs: &[arg("inputs", "T").list("N").reference()],
        outputs: &[
            arg("output", "T").reference(),
            arg_of("value_index", DType::I32),
        ],
        attrs: &[T, count_attr("N")],
        shape: merge,
        on_handles: Some("Merge"),
        ..CONTROL_FLOW_OP
    },
    kernels: &[],
};

const ENTER_ATTRS: &[AttrDef] = &[
    T,
    attr("frame_name", AttrKind::Str),
    bool_attr("is_constant", false),
    int_attr("parallel_iterations", 10),
];

fn unchanged(cx: &mut Infer<'_>) -> Result<(), InferError> {
    forward_input_facts(cx);
    Ok(())
}

/// Passes a value into a loop's frame.
pub(crate) static ENTER: Op = Op {
    def: OpDef {
        name: "Enter",
        summary: "Passes its input into a loop: for its first iteration, or, if constant, for every one.",
        inputs: &[arg("data", "T")],
        outputs: &[arg("output", "T")],
        attrs: ENTER_ATTRS,
        shape: unchanged,
        ..CONTROL_FLOW_OP
    },
    kernels: &[INTERPRETED],
};

/// Like [`ENTER`], for references.
pub(crate) static REF_ENTER: Op = Op {
    def: OpDef {
        name: "RefEnter",
        summary: "Passes a reference into a loop.",
        inputs: &[arg("data", "T").reference()],
        outputs: &[arg("output", "T").reference()],
        attrs: ENTER_ATTRS,
        shape: unchanged,
        on_handles: Some("Enter"),
        ..CONTROL_FLOW_OP
    },
    kernels: &[],
};

const DATA: &[Arg] = &[arg("data", "T")];
const OUTPUT: &[Arg] = &[arg("output", "T")];
const REF_DATA: &[Arg] = &[arg("data", "T").reference()];
const REF_OUTPUT: &[Arg] = &[arg("output", "T").reference()];

/// Definition of an op that passes its input on.
const fn forwarding_op(name: &'static str, summary: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary,
            inputs: DATA,
            outputs: OUTPUT,
            attrs: &[T],
            shape: unchanged,
            ..CONTROL_FLOW_OP
        },
        kernels: &[INTERPRETED],
    }
}

/// Like `on`, for references.
const fn ref_forwarding_op(name: &'static str, summary: &'static str, on: &'static Op) -> Op {
    Op {
        def: OpDef {
            name,
            summary,
            inputs: REF_DATA,
            outputs: REF_OUTPUT,
            attrs: &[T],
            shape: unchanged,
            on_handles: Some(on.def.name),
            ..CONTROL_FLOW_OP
        },
        kernels: &[],
    }
}

/// Passes a value out of a loop's frame.
pub(crate) static EXIT: Op = forwarding_op("Exit", "Passes its input out of a loop, once.");
/// Like [`EXIT`], for references.
pub(crate) static REF_EXIT: Op =
    ref_forwarding_op("RefExit", "Passes a reference out of a loop.", &EXIT);
/// Passes a value to the next iteration of a loop.
pub(crate) static NEXT_ITERATION: Op = forwarding_op(
    "NextIteration",
    "Passes its input to the next iteration of a loop.",
);
/// Like [`NEXT_ITERATION`], for references.
pub(crate) static REF_NEXT_ITERATION: Op = ref_forwarding_op(
    "RefNextIteration",
    "Passes a reference to the next iteration of a loop.",
    &NEXT_ITERATION,
);

/// Condition on which a loop continues.
pub(crate) static LOOP_COND: Op = Op {
    def: OpDef {
        name: "LoopCond",
        summary: "The condition on which a loop continues: its input, unchanged.",
        inputs: &[arg_of("input", DType::Bool)],
        outputs: &[arg_of("output", DType::Bool)],
        shape: unchanged,
        ..CONTROL_FLOW_OP
    },
    kernels: &[INTERPRETED],
};

/// Orders nodes, even after dead ones.
pub(crate) static CONTROL_TRIGGER: Op = Op {
    def: OpDef {
        name: "ControlTrigger",
        summary: "Does nothing, and is never dead: orders nodes after a branch.",
        effect: Effect::Control,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[INTERPRETED],
};

/// Passes on one of several references.
pub(crate) static REF_SELECT: Op = Op {
    def: OpDef {
        name: "RefSelect",
        summary: "The reference at an index.",
        inputs: &[
            arg_of("index", DType::I32),
            arg("inputs", "T").list("N").reference(),
        ],
        outputs: &[arg("output", "T").reference()],
        attrs: &[T, count_attr("N")],
        shape: ref_select_shape,
        gradient: Gradient::None,
        on_handles: Some(HANDLE_OF.def.name),
        ..OpDef::EMPTY
    },
    kernels: &[],
};

/// Sets the output's shape to the common part of the shapes of all inputs from the second on.
fn ref_select_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 0)?;
    let mut shape = cx.variable_shape(1);
    for i in 2..cx.inputs() {
        shape = shape.common(&cx.variable_shape(i));
    }
    if let Some((dtype, _)) = cx.variable(1) {
        cx.set_variable(0, dtype, shape);
    }
    Ok(())
}

/// Passes on one of several handles.
pub(crate) static HANDLE_OF: Op = Op {
    def: OpDef {
        name: "_SelectHandle",
        summary: "The handle at an index.",
        inputs: &[
            arg_of("index", DType::I32),
            arg_of("inputs", DType::Resource).list("N"),
        ],
        outputs: &[arg_of("output", DType::Resource)],
        attrs: &[count_attr("N")],
        shape: ref_select_shape,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (index, count) = (cx.int(0)?, cx.inputs().saturating_sub(1));
        match usize::try_from(index).ok().filter(|&i| i < count) {
            Some(i) => Ok(vec![cx.value(i + 1)?]),
            None => Err(KernelError::Invalid(format!(
                "the index must be in the range [0, {count}) but is {index}"
            ))),
        }
    })],
};
