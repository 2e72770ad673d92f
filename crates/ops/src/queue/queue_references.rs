//! Queue and accumulator ops on string references, as in TensorFlow's first graphs: FIFOQueue, QueueEnqueue,
//! ConditionalAccumulator, SparseConditionalAccumulator and others.
//! Each runs as its counterpart on resource handles.

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, bool_attr, str_attr, type_attr,
};
use thalweg_tensor::DType;

use super::accumulator_ops::{ACCUMULATOR_ATTRS, APPLY_ROWS_ATTRS, ROWS_OUT};
use super::queue_ops::{DEQUEUE_ATTRS, DEQUEUED, ENQUEUE_ATTRS, ENQUEUED};
use super::queues::{FIFO_ATTRS, PRIORITY_ATTRS, SHUFFLE_ATTRS};
use super::{accumulator_ops, queue_ops, queues};
use crate::support::references::{creator, on_reference, two_strings};

const HANDLE: Arg = arg_of("handle", DType::String).reference();

const HANDLE_ONLY: &[Arg] = &[HANDLE];
const HANDLE_AND_ELEMENT: &[Arg] = &[HANDLE, ENQUEUED];
const HANDLE_AND_COUNT: &[Arg] = &[HANDLE, arg_of("n", DType::I32)];
const ELEMENT_OUT: &[Arg] = &[DEQUEUED];
const CLOSE_ATTRS: &[AttrDef] = &[bool_attr("cancel_pending_enqueues", false)];
const IS_CLOSED_OUT: &[Arg] = &[arg_of("is_closed", DType::Bool)];
const SIZE_OUT: &[Arg] = &[arg_of("size", DType::I32)];

/// The strings behind a reference that something reads as a value.
pub(crate) static HANDLE_NAME: Op = Op {
    def: OpDef {
        name: "_HandleName",
        summary: "The container and the name of the resource behind a handle.",
        inputs: &[arg_of("handle", DType::Resource)],
        outputs: &[arg_of("strings", DType::String)],
        attrs: &[str_attr("container", "", &[]), str_attr("name", "", &[])],
        shape: two_strings,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let strings = ["container", "name"].map(|attr| cx.attrs().str(attr));
        Ok(vec![cx.strings_of(&[2], strings)?])
    })],
};

pub(crate) static FIFO: Op = creator("FIFOQueue", HANDLE_ONLY, FIFO_ATTRS, &queues::FIFO);
pub(crate) static PADDING_FIFO: Op = creator(
    "PaddingFIFOQueue",
    HANDLE_ONLY,
    FIFO_ATTRS,
    &queues::PADDING_FIFO,
);
pub(crate) static RANDOM_SHUFFLE: Op = creator(
    "RandomShuffleQueue",
    HANDLE_ONLY,
    SHUFFLE_ATTRS,
    &queues::RANDOM_SHUFFLE,
);
pub(crate) static PRIORITY: Op = creator(
    "PriorityQueue",
    HANDLE_ONLY,
    PRIORITY_ATTRS,
    &queues::PRIORITY,
);
pub(crate) static ENQUEUE: Op = on_reference(
    "QueueEnqueue",
    HANDLE_AND_ELEMENT,
    &[],
    ENQUEUE_ATTRS,
    &queue_ops::ENQUEUE,
);
pub(crate) static ENQUEUE_MANY: Op = on_reference(
    "QueueEnqueueMany",
    HANDLE_AND_ELEMENT,
    &[],
    ENQUEUE_ATTRS,
    &queue_ops::ENQUEUE_MANY,
);
pub(crate) static DEQUEUE: Op = on_reference(
    "QueueDequeue",
    HANDLE_ONLY,
    ELEMENT_OUT,
    DEQUEUE_ATTRS,
    &queue_ops::DEQUEUE,
);
pub(crate) static DEQUEUE_MANY: Op = on_reference(
    "QueueDequeueMany",
    HANDLE_AND_COUNT,
    ELEMENT_OUT,
    DEQUEUE_ATTRS,
    &queue_ops::DEQUEUE_MANY,
);
pub(crate) static DEQUEUE_UP_TO: Op = on_reference(
    "QueueDequeueUpTo",
    HANDLE_AND_COUNT,
    ELEMENT_OUT,
    DEQUEUE_ATTRS,
    &queue_ops::DEQUEUE_UP_TO,
);
pub(crate) static SIZE: Op =
    on_reference("QueueSize", HANDLE_ONLY, SIZE_OUT, &[], &queue_ops::SIZE);
pub(crate) static CLOSE: Op = on_reference(
    "QueueClose",
    HANDLE_ONLY,
    &[],
    CLOSE_ATTRS,
    &queue_ops::CLOSE,
);
pub(crate) static IS_CLOSED: Op = on_reference(
    "QueueIsClosed",
    HANDLE_ONLY,
    IS_CLOSED_OUT,
    &[],
    &queue_ops::IS_CLOSED,
);

const DTYPE: AttrDef = type_attr("dtype", DType::NUMBERS);
const APPLY_GRADIENT_INPUTS: &[Arg] = &[
    HANDLE,
    arg_of("local_step", DType::I64),
    arg("gradient", "dtype"),
];
const TAKE_GRADIENT_INPUTS: &[Arg] = &[HANDLE, arg_of("num_required", DType::I32)];
const AVERAGE_OUT: &[Arg] = &[arg("average", "dtype")];
const NUM_ACCUMULATED_OUT: &[Arg] = &[arg_of("num_accumulated", DType::I32)];
const SET_GLOBAL_STEP_INPUTS: &[Arg] = &[HANDLE, arg_of("new_global_step", DType::I64)];
const DTYPE_ATTRS: &[AttrDef] = &[DTYPE];

pub(crate) static ACCUMULATOR: Op = creator(
    "ConditionalAccumulator",
    HANDLE_ONLY,
    ACCUMULATOR_ATTRS,
    &accumulator_ops::ACCUMULATOR,
);
pub(crate) static APPLY_GRADIENT: Op = on_reference(
    "AccumulatorApplyGradient",
    APPLY_GRADIENT_INPUTS,
    &[],
    DTYPE_ATTRS,
    &accumulator_ops::APPLY_GRADIENT,
);
pub(crate) static TAKE_GRADIENT: Op = on_reference(
    "AccumulatorTakeGradient",
    TAKE_GRADIENT_INPUTS,
    AVERAGE_OUT,
    DTYPE_ATTRS,
    &accumulator_ops::TAKE_GRADIENT,
);
pub(crate) static NUM_ACCUMULATED: Op = on_reference(
    "AccumulatorNumAccumulated",
    HANDLE_ONLY,
    NUM_ACCUMULATED_OUT,
    &[],
    &accumulator_ops::NUM_ACCUMULATED,
);
pub(crate) static SET_GLOBAL_STEP: Op = on_reference(
    "AccumulatorSetGlobalStep",
    SET_GLOBAL_STEP_INPUTS,
    &[],
    &[],
    &accumulator_ops::SET_GLOBAL_STEP,
);

const APPLY_ROWS_INPUTS: &[Arg] = &[
    HANDLE,
    arg_of("local_step", DType::I64),
    arg_of("gradient_indices", DType::I64),
    arg("gradient_values", "dtype"),
    arg_of("gradient_shape", DType::I64),
];

pub(crate) static SPARSE_ACCUMULATOR: Op = creator(
    "SparseConditionalAccumulator",
    HANDLE_ONLY,
    ACCUMULATOR_ATTRS,
    &accumulator_ops::SPARSE_ACCUMULATOR,
);
pub(crate) static APPLY_SPARSE_GRADIENT: Op = on_reference(
    "SparseAccumulatorApplyGradient",
    APPLY_ROWS_INPUTS,
    &[],
    APPLY_ROWS_ATTRS,
    &accumulator_ops::APPLY_SPARSE_GRADIENT,
);
pub(crate) static TAKE_SPARSE_GRADIENT: Op = on_reference(
    "SparseAccumulatorTakeGradient",
    TAKE_GRADIENT_INPUTS,
    ROWS_OUT,
    DTYPE_ATTRS,
    &accumulator_ops::TAKE_SPARSE_GRADIENT,
);
