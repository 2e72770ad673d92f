//! Stage, Unstage, StagePeek, StageSize, StageClear.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg_of, args_of, int_attr, list_attr, str_attr, types_attr,
};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::queues::shared_name;
use super::stage::Stage;

const CAPACITY: AttrDef = int_attr("capacity", 0);
const LIMIT: AttrDef = int_attr("memory_limit", 0);
const CONTAINER: AttrDef = str_attr("container", "", &[]);
const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);
const ATTRS: &[AttrDef] = &[
    CAPACITY,
    LIMIT,
    types_attr("dtypes"),
    CONTAINER,
    SHARED_NAME,
];
const LOOSE: &[AttrDef] = &[
    CAPACITY,
    LIMIT,
    list_attr("dtypes", AttrKind::Types),
    CONTAINER,
    SHARED_NAME,
];

const WAITS: OpDef = OpDef {
    attrs: ATTRS,
    gradient: Gradient::None,
    effect: Effect::Waits,
    ..OpDef::EMPTY
};

/// Staging area of the node's name; created on first use.
fn stage(cx: &TensorCx<'_>) -> Result<Arc<Stage>, KernelError> {
    let attrs = cx.attrs();
    let size = |attr| usize::try_from(attrs.int(attr)).unwrap_or(0);
    let (container, name) = (attrs.str("container"), shared_name(cx));
    let thing = cx.environment().thing(container, name, &mut || {
        Ok(Arc::new(Stage::new(size("capacity"), size("memory_limit"))))
    })?;
    thing.downcast().map_err(|_| {
        KernelError::Invalid(format!("'{name}' is no staging area: give it another name"))
    })
}

/// Appends values to a staging area.
pub(crate) static STAGE: Op = Op {
    def: OpDef {
        name: "Stage",
        summary: "Puts values into a staging area, as soon as there is room.",
        inputs: &[args_of("values", "dtypes")],
        ..WAITS
    },
    kernels: &[cpu_tensors(|cx| {
        let entry = (0..cx.inputs()).map(|i| cx.value(i));
        let entry = entry.collect::<Result<_, _>>()?;
        stage(cx)?.put(cx, entry).map(|()| Vec::new())
    })],
};

/// Removes the oldest values of a staging area.
pub(crate) static UNSTAGE: Op = Op {
    def: OpDef {
        name: "Unstage",
        summary: "Takes values out of a staging area, as soon as there are some.",
        outputs: &[args_of("values", "dtypes")],
        ..WAITS
    },
    kernels: &[cpu_tensors(|cx| stage(cx)?.take(cx))],
};

/// Reads the values at an index, without removing them.
pub(crate) static PEEK: Op = Op {
    def: OpDef {
        name: "StagePeek",
        summary: "The values at a place of a staging area, as soon as there are some.",
        inputs: &[arg_of("index", DType::I32)],
        outputs: &[args_of("values", "dtypes")],
        ..WAITS
    },
    kernels: &[cpu_tensors(|cx| stage(cx)?.peek(cx, cx.int(0)?))],
};

/// Number of entries.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "StageSize",
        summary: "How much lies in a staging area.",
        outputs: &[arg_of("size", DType::I32)],
        attrs: LOOSE,
        shape: crate::support::shapes::scalar,
        effect: Effect::Stateful,
        ..WAITS
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(stage(cx)?.len() as i32)])
    })],
};

/// Removes all entries.
pub(crate) static CLEAR: Op = Op {
    def: OpDef {
        name: "StageClear",
        summary: "Gives up all that lies in a staging area.",
        attrs: LOOSE,
        effect: Effect::Stateful,
        ..WAITS
    },
    kernels: &[cpu_tensors(|cx| {
        stage(cx)?.clear();
        Ok(Vec::new())
    })],
};
