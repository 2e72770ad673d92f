//! Stacks (StackV2, StackPushV2, StackPopV2, StackCloseV2, and the variants on references): TensorFlow 1's loops keep
//! values for their gradients on them. A stack lives for a step.

use std::sync::{Arc, Mutex};

use thalweg_device::{HolderHandle, KernelError, Op, TensorCx, TensorHolder, cpu_tensors, on_host};
use thalweg_graph::op::{Arg, Effect, Gradient, arg, arg_of, bool_attr, str_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Reservation, Shape, Tensor};

use crate::support::tensors::reserved;

struct Stack {
    dtype: DType,
    /// Maximum number of values; negative for no limit.
    max_size: i64,
    values: Mutex<Values>,
}

#[derive(Default)]
struct Values {
    stack: Vec<StackValue>,
    /// The common part of the shapes of all values so far.
    shape: Option<Shape>,
}

impl TensorHolder for Stack {
    fn shape(&self) -> Shape {
        let values = self.values.lock().unpoisoned();
        values.shape.clone().unwrap_or(Shape::UNKNOWN)
    }
}

/// Widens the common shape of values so far to admit one more value.
pub(super) fn widen(shape: &mut Option<Shape>, value: &Tensor) {
    match shape {
        Some(shape) if shape.admits(value.dims()) => {}
        Some(shape) => *shape = shape.common(&value.shape()),
        none => *none = Some(value.shape()),
    }
}

/// A value on a stack.
struct StackValue {
    value: Tensor,
    /// Memory of its place: one value may stand in many.
    _reserved: Reservation,
}

/// Base definition of a stack op.
const STACK_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Creates a stack.
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
        ..STACK_OP
    },
    kernels: &[cpu_tensors(|cx| new_stack(cx, cx.int(0)?)), on_host()],
};

fn new_stack(cx: &TensorCx<'_>, max_size: i64) -> Result<Vec<Tensor>, KernelError> {
    let stack = Stack {
        dtype: cx.attrs().dtype("elem_type").unwrap_or(DType::F32),
        max_size,
        values: Mutex::default(),
    };
    let handle = HolderHandle(Arc::new(stack));
    Ok(vec![Tensor::handle(DType::Resource, Arc::new(handle))?])
}

/// Pushes a value.
pub(crate) static PUSH: Op = Op {
    def: OpDef {
        name: "StackPushV2",
        summary: "Pushes a value on a stack, and passes it on.",
        inputs: &[arg_of("handle", DType::Resource), arg("elem", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL), bool_attr("swap_memory", false)],
        shape: |cx| {
            cx.set(0, cx.shape(1).clone());
            Ok(())
        },
        ..STACK_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let (stack, value) = (cx.holder::<Stack>(0)?, cx.held(1)?);
            let mut values = stack.values.lock().unpoisoned();
            if value.dtype() != stack.dtype {
                return Err(KernelError::DType(value.dtype()));
            }
            if usize::try_from(stack.max_size).is_ok_and(|max_size| values.stack.len() >= max_size)
            {
                return Err(KernelError::Invalid(format!(
                    "the stack overflowed: it takes {} values",
                    stack.max_size
                )));
            }
            let _reserved = reserved(size_of::<StackValue>(), Some(cx.memory()))?;
            widen(&mut values.shape, &value);
            values.stack.push(StackValue {
                value: value.clone(),
                _reserved,
            });
            Ok(vec![value])
        }),
        on_host(),
    ],
};

/// Sets the output to the known shape of the tensors behind the handle.
pub(super) fn held_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if let Some(shape) = cx.held(0) {
        cx.set(0, shape);
    }
    Ok(())
}

/// Pops the last value.
pub(crate) static POP: Op = Op {
    def: OpDef {
        name: "StackPopV2",
        summary: "Pops the last value of a stack.",
        inputs: &[arg_of("handle", DType::Resource)],
        outputs: &[arg("elem", "elem_type")],
        attrs: &[type_attr("elem_type", &DType::ALL)],
        shape: held_shape,
        ..STACK_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let stack = cx.holder::<Stack>(0)?;
            let mut values = stack.values.lock().unpoisoned();
            let value = values.stack.pop();
            let empty = || KernelError::Invalid("the stack is empty".to_owned());
            Ok(vec![value.ok_or_else(empty)?.value])
        }),
        on_host(),
    ],
};

/// Releases the values of a stack.
pub(crate) static CLOSE: Op = Op {
    def: OpDef {
        name: "StackCloseV2",
        summary: "Releases the values of a stack.",
        inputs: &[arg_of("handle", DType::Resource)],
        ..STACK_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let stack = cx.holder::<Stack>(0)?;
            let mut values = stack.values.lock().unpoisoned();
            values.stack.clear();
            Ok(Vec::new())
        }),
        on_host(),
    ],
};

const REF_HANDLE: Arg = arg_of("handle", DType::String).reference();

/// Creates a stack without a limit.
pub(crate) static NEW: Op = Op {
    def: OpDef {
        name: "_NewStack",
        summary: "A new stack, which takes any number of values.",
        inputs: &[],
        ..STACK.def
    },
    kernels: &[cpu_tensors(|cx| new_stack(cx, -1)), on_host()],
};

/// Creates a stack behind a reference.
pub(crate) static REF_STACK: Op = Op {
    def: OpDef {
        name: "Stack",
        inputs: &[],
        outputs: &[REF_HANDLE],
        // Behind the reference are a container and a name.
        shape: |cx| {
            cx.set(0, Shape::known(&[2]));
            Ok(())
        },
        on_handles: Some("_NewStack"),
        ..STACK.def
    },
    kernels: &[],
};

/// Like [`PUSH`], for a reference.
pub(crate) static REF_PUSH: Op = Op {
    def: OpDef {
        name: "StackPush",
        inputs: &[REF_HANDLE, arg("elem", "T")],
        on_handles: Some("StackPushV2"),
        ..PUSH.def
    },
    kernels: &[],
};

/// Like [`POP`], for a reference.
pub(crate) static REF_POP: Op = Op {
    def: OpDef {
        name: "StackPop",
        inputs: &[REF_HANDLE],
        on_handles: Some("StackPopV2"),
        ..POP.def
    },
    kernels: &[],
};

/// Like [`CLOSE`], for a reference.
pub(crate) static REF_CLOSE: Op = Op {
    def: OpDef {
        name: "StackClose",
        inputs: &[REF_HANDLE],
        on_handles: Some("StackCloseV2"),
        ..CLOSE.def
    },
    kernels: &[],
};
