//! Barrier, BarrierInsertMany, BarrierTakeMany, BarrierClose, BarrierReadySize, BarrierIncompleteSize: TensorFlow has them
//! on references only. Each runs as its counterpart on handles.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, bool_attr, int_attr, list_attr, str_attr,
    type_attr, types_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::barrier::Barrier;
use super::queue_ops::DEQUEUED;
use super::queues::{listed, resource_handle, shared_name};
use crate::support::references::{creator, on_reference};
use crate::support::shapes::scalar;

const HANDLE: Arg = arg_of("handle", DType::Resource);
const REFERENCE: Arg = arg_of("handle", DType::String).reference();

const BARRIER_ATTRS: &[AttrDef] = &[
    types_attr("component_types"),
    list_attr("shapes", AttrKind::Shapes),
    int_attr("capacity", -1),
    str_attr("container", "", &[]),
    str_attr("shared_name", "", &[]),
];
const INSERT_ATTRS: &[AttrDef] = &[
    type_attr("T", &DType::ALL),
    attr("component_index", AttrKind::Int),
];
const TAKE_ATTRS: &[AttrDef] = &[
    types_attr("component_types"),
    bool_attr("allow_small_batch", false),
    bool_attr("wait_for_incomplete", false),
    int_attr("timeout_ms", -1),
];
const CLOSE_ATTRS: &[AttrDef] = &[bool_attr("cancel_pending_enqueues", false)];
const KEYS: Arg = arg_of("keys", DType::String);
const COUNT: Arg = arg_of("num_elements", DType::I32);
const TAKEN: &[Arg] = &[
    arg_of("indices", DType::I64),
    KEYS,
    Arg {
        name: "values",
        ..DEQUEUED
    },
];
const SIZE: &[Arg] = &[arg_of("size", DType::I32)];

/// Base definition of an op on a barrier.
const BARRIER_OP: OpDef = OpDef {
    inputs: &[HANDLE],
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Shape rule of an insertion.
fn insertion(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(1, 1).map(drop)
}

fn barrier(cx: &TensorCx<'_>) -> Result<Arc<Barrier>, KernelError> {
    cx.object::<Barrier>(0)
}

fn make(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let (types, shapes) = (attrs.types("component_types"), attrs.shapes("shapes"));
    let invalid = |text: String| Err(KernelError::Invalid(text));
    if shapes.len() != types.len() {
        return invalid("All of the component shapes must be specified".to_owned());
    }
    if attrs.int("capacity") != -1 {
        return invalid(
            "Barrier only accepts capacity=-1. Feed its inputs through a queue to enforce a limited capacity"
                .to_owned(),
        );
    }
    let handle = resource_handle(cx, &|name| {
        Ok(Arc::new(Barrier::new(cx, name, types, shapes)))
    })?;
    let name = shared_name(cx);
    let Some(found) = handle.first().and_then(Tensor::object::<Barrier>) else {
        return invalid(format!(
            "'{name}' is no barrier: give this one another shared_name"
        ));
    };
    if found.dtypes != types || found.shapes != shapes {
        return invalid(format!(
            "shared barrier '{name}' has component types {} and component shapes {}, but this node asks for {} and \
             {}: give it another shared_name",
            listed(&found.dtypes),
            listed(&found.shapes),
            listed(types),
            listed(shapes)
        ));
    }
    Ok(handle)
}

fn insert(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (barrier, values) = (barrier(cx)?, cx.held(2)?);
    let index = cx.attrs().int("component_index");
    let component = usize::try_from(index).ok();
    let component = component.filter(|c| *c < barrier.dtypes.len());
    let component = component.ok_or_else(|| {
        KernelError::Invalid(format!(
            "The component ID is out of range: {index}, and num_components is {}",
            barrier.dtypes.len()
        ))
    })?;
    if values.dtype() != barrier.dtypes[component] {
        return Err(KernelError::Invalid(format!(
            "component {component} of barrier '{}' is {}, not {}",
            barrier.name,
            barrier.dtypes[component],
            values.dtype()
        )));
    }
    barrier.insert(cx, cx.strings(1)?, component, &values)?;
    Ok(Vec::new())
}

fn take(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (barrier, attrs) = (barrier(cx)?, cx.attrs());
    if attrs.int("timeout_ms") != -1 {
        return Err(KernelError::Invalid(
            "Timeout not supported yet: leave timeout_ms at -1".to_owned(),
        ));
    }
    if attrs.types("component_types") != barrier.dtypes {
        return Err(KernelError::Invalid(format!(
            "elements of barrier '{}' have component types {}, not {}",
            barrier.name,
            listed(&barrier.dtypes),
            listed(attrs.types("component_types"))
        )));
    }
    barrier.take(cx, cx.int(1)?, attrs.bool("allow_small_batch"))
}

/// Creates a barrier.
pub(crate) static MAKE: Op = Op {
    def: OpDef {
        name: "_KeyedBarrier",
        summary: "A barrier: elements by key, which can be taken once all of their components are there.",
        inputs: &[],
        outputs: &[HANDLE],
        attrs: BARRIER_ATTRS,
        shape: scalar,
        ..BARRIER_OP
    },
    kernels: &[cpu_tensors(make)],
};

/// Sets components.
pub(crate) static INSERT: Op = Op {
    def: OpDef {
        name: "_KeyedBarrierInsertMany",
        summary: "Sets a component of the elements of keys of a barrier.",
        inputs: &[HANDLE, KEYS, arg("values", "T")],
        attrs: INSERT_ATTRS,
        shape: insertion,
        ..BARRIER_OP
    },
    kernels: &[cpu_tensors(insert)],
};

/// Removes complete elements.
pub(crate) static TAKE: Op = Op {
    def: OpDef {
        name: "_KeyedBarrierTakeMany",
        summary: "Removes complete elements of a barrier as batches, as soon as there are enough.",
        inputs: &[HANDLE, COUNT],
        outputs: TAKEN,
        attrs: TAKE_ATTRS,
        shape: |cx| {
            for i in 0..2 {
                cx.set(i, Shape::partial([None]));
            }
            Ok(())
        },
        effect: Effect::Blocking,
        ..BARRIER_OP
    },
    kernels: &[cpu_tensors(take)],
};

/// Refuses new keys.
pub(crate) static CLOSE: Op = Op {
    def: OpDef {
        name: "_KeyedBarrierClose",
        summary: "Closes a barrier: it takes no new keys, or nothing at all.",
        attrs: CLOSE_ATTRS,
        ..BARRIER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        barrier(cx)?.close(cx.attrs().bool("cancel_pending_enqueues"))?;
        Ok(Vec::new())
    })],
};

/// Number of complete elements.
pub(crate) static READY_SIZE: Op = Op {
    def: OpDef {
        name: "_KeyedBarrierReadySize",
        summary: "The number of complete elements of a barrier.",
        outputs: SIZE,
        shape: scalar,
        ..BARRIER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(barrier(cx)?.ready_len() as i32)])
    })],
};

/// Number of incomplete elements.
pub(crate) static INCOMPLETE_SIZE: Op = Op {
    def: OpDef {
        name: "_KeyedBarrierIncompleteSize",
        summary: "The number of incomplete elements of a barrier.",
        outputs: SIZE,
        shape: scalar,
        ..BARRIER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(barrier(cx)?.incomplete_len() as i32)])
    })],
};

pub(crate) static REF_MAKE: Op = creator("Barrier", &[REFERENCE], BARRIER_ATTRS, &MAKE);
pub(crate) static REF_INSERT: Op = on_reference(
    "BarrierInsertMany",
    &[REFERENCE, KEYS, arg("values", "T")],
    &[],
    INSERT_ATTRS,
    &INSERT,
);
pub(crate) static REF_TAKE: Op = on_reference(
    "BarrierTakeMany",
    &[REFERENCE, COUNT],
    TAKEN,
    TAKE_ATTRS,
    &TAKE,
);
pub(crate) static REF_CLOSE: Op =
    on_reference("BarrierClose", &[REFERENCE], &[], CLOSE_ATTRS, &CLOSE);
pub(crate) static REF_READY_SIZE: Op =
    on_reference("BarrierReadySize", &[REFERENCE], SIZE, &[], &READY_SIZE);
pub(crate) static REF_INCOMPLETE_SIZE: Op = on_reference(
    "BarrierIncompleteSize",
    &[REFERENCE],
    SIZE,
    &[],
    &INCOMPLETE_SIZE,
);
