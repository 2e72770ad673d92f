//! Queue and accumulator ops on string references, as in TensorFlow's first graphs: FIFOQueue, QueueEnqueue,
//! ConditionalAccumulator and others.
//! Each runs as its counterpart on resource handles.

use thalweg_device::Op;
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, bool_attr, str_attr, type_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::DType;

use super::queue_ops::{PUT, PUT_ATTRS, TAKEN, TAKEN_ATTRS};
use super::queues::{FIFO_ATTRS, SHUFFLE_ATTRS};
use super::{accumulator_ops, queue_ops, queues};

const HANDLE: Arg = arg_of("handle", DType::String).reference();

fn scalar(cx: &mut Infer<'_>) -> Result<(), InferError> {
    crate::support::shapes::scalar(cx)
}

/// Base definition of an op that runs as its counterpart on handles.
const ON_HANDLES: OpDef = OpDef {
    summary: "The same behind a reference.",
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Definition of an op that creates a reference, as its counterpart creates a handle.
const fn source(name: &'static str, attrs: &'static [AttrDef], on: &'static Op) -> Op {
    Op {
        def: OpDef {
            name,
            outputs: &[HANDLE],
            attrs,
            shape: scalar,
            on_handles: Some(on.def.name),
            ..ON_HANDLES
        },
        kernels: &[],
    }
}

/// Definition of an op that takes a reference.
const fn user(
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
            ..ON_HANDLES
        },
        kernels: &[],
    }
}

const JUST: &[Arg] = &[HANDLE];
const WITH_PUT: &[Arg] = &[HANDLE, PUT];
const WITH_COUNT: &[Arg] = &[HANDLE, arg_of("n", DType::I32)];
const OUT: &[Arg] = &[TAKEN];
const CANCEL: &[AttrDef] = &[bool_attr("cancel_pending_enqueues", false)];
const IS_CLOSED_OUT: &[Arg] = &[arg_of("is_closed", DType::Bool)];
const SIZE_OUT: &[Arg] = &[arg_of("size", DType::I32)];

pub(crate) static FIFO: Op = source("FIFOQueue", FIFO_ATTRS, &queues::FIFO);
pub(crate) static PADDING_FIFO: Op = source("PaddingFIFOQueue", FIFO_ATTRS, &queues::PADDING_FIFO);
pub(crate) static RANDOM_SHUFFLE: Op =
    source("RandomShuffleQueue", SHUFFLE_ATTRS, &queues::RANDOM_SHUFFLE);
pub(crate) static ENQUEUE: Op = user(
    "QueueEnqueue",
    WITH_PUT,
    &[],
    PUT_ATTRS,
    &queue_ops::ENQUEUE,
);
pub(crate) static ENQUEUE_MANY: Op = user(
    "QueueEnqueueMany",
    WITH_PUT,
    &[],
    PUT_ATTRS,
    &queue_ops::ENQUEUE_MANY,
);
pub(crate) static DEQUEUE: Op = user("QueueDequeue", JUST, OUT, TAKEN_ATTRS, &queue_ops::DEQUEUE);
pub(crate) static DEQUEUE_MANY: Op = user(
    "QueueDequeueMany",
    WITH_COUNT,
    OUT,
    TAKEN_ATTRS,
    &queue_ops::DEQUEUE_MANY,
);
pub(crate) static DEQUEUE_UP_TO: Op = user(
    "QueueDequeueUpTo",
    WITH_COUNT,
    OUT,
    TAKEN_ATTRS,
    &queue_ops::DEQUEUE_UP_TO,
);
pub(crate) static SIZE: Op = user("QueueSize", JUST, SIZE_OUT, &[], &queue_ops::SIZE);
pub(crate) static CLOSE: Op = user("QueueClose", JUST, &[], CANCEL, &queue_ops::CLOSE);
pub(crate) static IS_CLOSED: Op = user(
    "QueueIsClosed",
    JUST,
    IS_CLOSED_OUT,
    &[],
    &queue_ops::IS_CLOSED,
);

const DTYPE: AttrDef = type_attr("dtype", DType::NUMBERS);
const ACCUMULATOR_ATTRS: &[AttrDef] = &[
    DTYPE,
    attr("shape", AttrKind::Shape),
    str_attr("container", "", &[]),
    str_attr("shared_name", "", &[]),
    str_attr("reduction_type", "MEAN", &["MEAN", "SUM"]),
];
const APPLIED: &[Arg] = &[
    HANDLE,
    arg_of("local_step", DType::I64),
    arg("gradient", "dtype"),
];
const REQUIRED: &[Arg] = &[HANDLE, arg_of("num_required", DType::I32)];
const AVERAGE: &[Arg] = &[arg("average", "dtype")];
const NUMBER: &[Arg] = &[arg_of("num_accumulated", DType::I32)];
const STEP: &[Arg] = &[HANDLE, arg_of("new_global_step", DType::I64)];
const DTYPE_ATTRS: &[AttrDef] = &[DTYPE];

pub(crate) static ACCUMULATOR: Op = source(
    "ConditionalAccumulator",
    ACCUMULATOR_ATTRS,
    &accumulator_ops::ACCUMULATOR,
);
pub(crate) static APPLY_GRADIENT: Op = user(
    "AccumulatorApplyGradient",
    APPLIED,
    &[],
    DTYPE_ATTRS,
    &accumulator_ops::APPLY_GRADIENT,
);
pub(crate) static TAKE_GRADIENT: Op = user(
    "AccumulatorTakeGradient",
    REQUIRED,
    AVERAGE,
    DTYPE_ATTRS,
    &accumulator_ops::TAKE_GRADIENT,
);
pub(crate) static NUM_ACCUMULATED: Op = user(
    "AccumulatorNumAccumulated",
    JUST,
    NUMBER,
    &[],
    &accumulator_ops::NUM_ACCUMULATED,
);
pub(crate) static SET_GLOBAL_STEP: Op = user(
    "AccumulatorSetGlobalStep",
    STEP,
    &[],
    &[],
    &accumulator_ops::SET_GLOBAL_STEP,
);
