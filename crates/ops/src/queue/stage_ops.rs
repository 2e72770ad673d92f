//! Stage, Unstage, StagePeek, StageSize, StageClear.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg_of, args_of, int_attr, list_attr, str_attr, types_attr,
};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::queues::shared_name;
use super::staging_area::StagingArea;

pub(super) const CAPACITY: AttrDef = int_attr("capacity", 0);
pub(super) const MEMORY_LIMIT: AttrDef = int_attr("memory_limit", 0);
pub(super) const CONTAINER: AttrDef = str_attr("container", "", &[]);
pub(super) const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);
pub(super) const ATTRS: &[AttrDef] = &[
    CAPACITY,
    MEMORY_LIMIT,
    types_attr("dtypes"),
    CONTAINER,
    SHARED_NAME,
];
pub(super) const ATTRS_OF_ANY_TYPES: &[AttrDef] = &[
    CAPACITY,
    MEMORY_LIMIT,
    list_attr("dtypes", AttrKind::Types),
    CONTAINER,
    SHARED_NAME,
];

const STAGE_OP: OpDef = OpDef {
    attrs: ATTRS,
    gradient: Gradient::None,
    effect: Effect::Blocking,
    ..OpDef::EMPTY
};

/// Staging area of the node's name; created on first use.
fn staging_area(cx: &TensorCx<'_>) -> Result<Arc<StagingArea>, KernelError> {
    let attrs = cx.attrs();
    let size = |attr| usize::try_from(attrs.int(attr)).unwrap_or(0);
    let (container, name) = (attrs.str("container"), shared_name(cx));
    let thing = cx.environment().object(container, name, &mut || {
        Ok(Arc::new(StagingArea::new(
            size("capacity"),
            size("memory_limit"),
        )))
    })?;
    thing.downcast().map_err(|_| {
        KernelError::Invalid(format!("'{name}' is no staging area: give it another name"))
    })
}

/// Appends values to a staging area.
pub(crate) static STAGE: Op = Op {
    def: OpDef {
        name: "Stage",
        summary: "Appends values to a staging area as soon as there is room.",
        inputs: &[args_of("values", "dtypes")],
        ..STAGE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let entry = (0..cx.inputs()).map(|i| cx.held(i));
        let entry = entry.collect::<Result<_, _>>()?;
        staging_area(cx)?.put(cx, entry).map(|()| Vec::new())
    })],
};

/// Removes the oldest values of a staging area.
pub(crate) static UNSTAGE: Op = Op {
    def: OpDef {
        name: "Unstage",
        summary: "Removes the oldest values of a staging area as soon as there are some.",
        outputs: &[args_of("values", "dtypes")],
        ..STAGE_OP
    },
    kernels: &[cpu_tensors(|cx| staging_area(cx)?.take(cx))],
};

/// Reads the values at an index, without removing them.
pub(crate) static PEEK: Op = Op {
    def: OpDef {
        name: "StagePeek",
        summary: "The values at an index of a staging area, as soon as there are some.",
        inputs: &[arg_of("index", DType::I32)],
        outputs: &[args_of("values", "dtypes")],
        ..STAGE_OP
    },
    kernels: &[cpu_tensors(|cx| staging_area(cx)?.peek(cx, cx.int(0)?))],
};

/// Number of entries.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "StageSize",
        summary: "The number of entries of a staging area.",
        outputs: &[arg_of("size", DType::I32)],
        attrs: ATTRS_OF_ANY_TYPES,
        shape: crate::support::shapes::scalar,
        effect: Effect::Stateful,
        ..STAGE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(staging_area(cx)?.len() as i32)])
    })],
};

/// Removes all entries.
pub(crate) static CLEAR: Op = Op {
    def: OpDef {
        name: "StageClear",
        summary: "Removes all entries of a staging area.",
        attrs: ATTRS_OF_ANY_TYPES,
        effect: Effect::Stateful,
        ..STAGE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        staging_area(cx)?.clear();
        Ok(Vec::new())
    })],
};
