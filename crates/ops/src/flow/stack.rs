//! Stacks: what TensorFlow 1's loops keep values in for their gradients. One lives for a step.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, Effect, Gradient, arg, arg_of, bool_attr, str_attr, type_attr};
use thalweg_tensor::{DType, Shape, Tensor};

struct Stack {
    dtype: DType,
    /// The most values that it takes; any number where it is negative.
    most: i64,
    values: Mutex<Vec<Tensor>>,
}

/// A stack op; to be completed.
const STATE: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// A new stack.
pub(crate) static STACK: Op = Op {
    def: OpDef {
        name: "StackV2",
        summary: "A new stack, which lives as long as the step.",
        inputs: &[arg_of("max_size", DType::I32)],
        outputs: &[arg_of("handle", DType::Resource)],
        attrs: &[
            type_attr("elem_type", &DType::ALL),
            str_attr("stack_name", "", &[]),
        ],
        shape: |cx| {
            cx.set(0, Shape::scalar());
            Ok(())
        },
        ..STATE
    },
    kernels: &[cpu_tensors(|cx| new(cx, cx.int(0)?))],
};

fn new(cx: &TensorCx<'_>, most: i64) -> Result<Vec<Tensor>, KernelError> {
    let stack = Stack {
        dtype: cx.attrs().dtype("elem_type").unwrap_or(DType::F32),
        most,
        values: Mutex::default(),
    };
    Ok(vec![Tensor::handle(DType::Resource, Arc::new(stack))?])
}

/// Puts a value on a stack.
pub(crate) static PUSH: Op = Op {
    def: OpDef {
        name: "StackPushV2",
        summary: "Puts a value on a stack; gives the value on.",
        inputs: &[arg_of("handle", DType::Resource), arg("elem", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL), bool_attr("swap_memory", false)],
        shape: |cx| {
            cx.set(0, cx.shape(1).clone());
            Ok(())
        },
        ..STATE
    },
    kernels: &[cpu_tensors(|cx| {
        let (stack, value) = (cx.thing::<Stack>(0)?, cx.value(1)?);
        let mut values = stack.values.lock().unwrap_or_else(PoisonError::into_inner);
        value.check_holdable()?;
        if value.dtype() != stack.dtype {
            return Err(KernelError::DType(value.dtype()));
        }
        if usize::try_from(stack.most).is_ok_and(|most| values.len() >= most) {
            return Err(KernelError::Invalid(format!(
                "the stack overflowed: it takes {} values",
                stack.most
            )));
        }
        values.push(value.clone());
        Ok(vec![value])
    })],
};

/// Takes the last value from a stack.
pub(crate) static POP: Op = Op {
    def: OpDef {
        name: "StackPopV2",
        summary: "Takes the value from a stack that was put on it last.",
        inputs: &[arg_of("handle", DType::Resource)],
        outputs: &[arg("elem", "elem_type")],
        attrs: &[type_attr("elem_type", &DType::ALL)],
        ..STATE
    },
    kernels: &[cpu_tensors(|cx| {
        let stack = cx.thing::<Stack>(0)?;
        let mut values = stack.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.pop();
        let empty = || KernelError::Invalid("the stack is empty".to_owned());
        Ok(vec![value.ok_or_else(empty)?])
    })],
};

/// Gives up what a stack holds.
pub(crate) static CLOSE: Op = Op {
    def: OpDef {
        name: "StackCloseV2",
        summary: "Gives up what a stack holds.",
        inputs: &[arg_of("handle", DType::Resource)],
        ..STATE
    },
    kernels: &[cpu_tensors(|cx| {
        let stack = cx.thing::<Stack>(0)?;
        let mut values = stack.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.clear();
        Ok(Vec::new())
    })],
};

const REF: Arg = arg_of("handle", DType::String).reference();

/// A new stack that takes any number of values.
pub(crate) static NEW: Op = Op {
    def: OpDef {
        name: "_NewStack",
        summary: "A new stack, which takes any number of values.",
        inputs: &[],
        ..STACK.def
    },
    kernels: &[cpu_tensors(|cx| new(cx, -1))],
};

/// A new stack, behind a reference.
pub(crate) static REF_STACK: Op = Op {
    def: OpDef {
        name: "Stack",
        inputs: &[],
        outputs: &[REF],
        on_handles: Some("_NewStack"),
        ..STACK.def
    },
    kernels: &[],
};

/// As [`PUSH`], of a reference.
pub(crate) static REF_PUSH: Op = Op {
    def: OpDef {
        name: "StackPush",
        inputs: &[REF, arg("elem", "T")],
        on_handles: Some("StackPushV2"),
        ..PUSH.def
    },
    kernels: &[],
};

/// As [`POP`], of a reference.
pub(crate) static REF_POP: Op = Op {
    def: OpDef {
        name: "StackPop",
        inputs: &[REF],
        on_handles: Some("StackPopV2"),
        ..POP.def
    },
    kernels: &[],
};

/// As [`CLOSE`], of a reference.
pub(crate) static REF_CLOSE: Op = Op {
    def: OpDef {
        name: "StackClose",
        inputs: &[REF],
        on_handles: Some("StackCloseV2"),
        ..CLOSE.def
    },
    kernels: &[],
};
