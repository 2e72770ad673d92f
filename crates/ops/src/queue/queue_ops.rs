//! QueueEnqueueV2, QueueEnqueueManyV2, QueueDequeueV2, QueueDequeueManyV2, QueueDequeueUpToV2, QueueSizeV2, QueueCloseV2, QueueIsClosedV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg_of, args_of, bool_attr, int_attr, types_attr,
};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::blocking_queue::BlockingQueue;
use super::elements::{QueueElement, split_batches};
use super::queues::listed;

const HANDLE: Arg = arg_of("handle", DType::Resource);
/// Input: the components to add.
pub(super) const ENQUEUED: Arg = args_of("components", "Tcomponents");
/// Output: the components that were removed.
pub(super) const DEQUEUED: Arg = args_of("components", "component_types");
/// Attributes of enqueue ops.
pub(super) const ENQUEUE_ATTRS: &[AttrDef] =
    &[types_attr("Tcomponents"), int_attr("timeout_ms", -1)];
/// Attributes of dequeue ops.
pub(super) const DEQUEUE_ATTRS: &[AttrDef] =
    &[types_attr("component_types"), int_attr("timeout_ms", -1)];

/// Base definition of a queue op that may block.
const QUEUE_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Blocking,
    ..OpDef::EMPTY
};

fn scalar(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.set(0, Shape::scalar());
    Ok(())
}

fn queue(cx: &TensorCx<'_>) -> Result<Arc<BlockingQueue>, KernelError> {
    cx.object::<BlockingQueue>(0)
}

/// The queue, whose elements have the types that the node asks for.
fn dequeued_from(cx: &TensorCx<'_>) -> Result<Arc<BlockingQueue>, KernelError> {
    let queue = queue(cx)?;
    let (found, asked) = (
        &queue.settings().dtypes,
        cx.attrs().types("component_types"),
    );
    match found == asked {
        true => Ok(queue),
        false => Err(KernelError::Invalid(format!(
            "elements of {} have component types {}, not {}",
            queue.settings().name,
            listed(found),
            listed(asked)
        ))),
    }
}

fn components(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    (1..cx.inputs()).map(|i| cx.held(i)).collect()
}

/// Adds an element.
pub(crate) static ENQUEUE: Op = Op {
    def: OpDef {
        name: "QueueEnqueueV2",
        summary: "Adds an element to a queue as soon as there is room.",
        inputs: &[HANDLE, ENQUEUED],
        attrs: ENQUEUE_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let element = || Ok(vec![QueueElement::new(components(cx)?, cx.memory())?]);
        queue(cx)?.enqueue(cx, element).map(|()| Vec::new())
    })],
};

/// Adds a batch of elements.
pub(crate) static ENQUEUE_MANY: Op = Op {
    def: OpDef {
        name: "QueueEnqueueManyV2",
        summary: "Adds the rows of its inputs to a queue as soon as there is room for each.",
        inputs: &[HANDLE, ENQUEUED],
        attrs: ENQUEUE_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let all = || split_batches(cx.memory(), &components(cx)?);
        queue(cx)?.enqueue(cx, all).map(|()| Vec::new())
    })],
};

/// Removes an element.
pub(crate) static DEQUEUE: Op = Op {
    def: OpDef {
        name: "QueueDequeueV2",
        summary: "Removes an element of a queue as soon as there is one.",
        inputs: &[HANDLE],
        outputs: &[DEQUEUED],
        attrs: DEQUEUE_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let mut taken = dequeued_from(cx)?.dequeue(cx, 1, false)?;
        let element = taken.pop().ok_or(KernelError::Argument("an element"))?;
        Ok(element.into_components())
    })],
};

fn dequeue_many(cx: &TensorCx<'_>, up_to: bool) -> Result<Vec<Tensor>, KernelError> {
    let queue = dequeued_from(cx)?;
    let elements = queue.dequeue(cx, cx.int(1)?, up_to)?;
    queue.batches(&elements)
}

/// Removes many elements, as a batch.
pub(crate) static DEQUEUE_MANY: Op = Op {
    def: OpDef {
        name: "QueueDequeueManyV2",
        summary: "Removes n elements of a queue, as batches.",
        inputs: &[HANDLE, arg_of("n", DType::I32)],
        outputs: &[DEQUEUED],
        attrs: DEQUEUE_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| dequeue_many(cx, false))],
};

/// Removes many elements, or fewer once the queue is closed.
pub(crate) static DEQUEUE_UP_TO: Op = Op {
    def: OpDef {
        name: "QueueDequeueUpToV2",
        summary: "Removes n elements of a queue, or the remaining ones once it is closed.",
        inputs: &[HANDLE, arg_of("n", DType::I32)],
        outputs: &[DEQUEUED],
        attrs: DEQUEUE_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| dequeue_many(cx, true))],
};

/// Number of elements.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "QueueSizeV2",
        summary: "The number of a queue's elements.",
        inputs: &[HANDLE],
        outputs: &[arg_of("size", DType::I32)],
        shape: scalar,
        effect: Effect::Stateful,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(queue(cx)?.len() as i32)])
    })],
};

/// Refuses further enqueues, after the pending ones or in place of them.
pub(crate) static CLOSE: Op = Op {
    def: OpDef {
        name: "QueueCloseV2",
        summary: "Closes a queue, once the enqueues that wait have ended: it refuses further elements.",
        inputs: &[HANDLE],
        attrs: &[bool_attr("cancel_pending_enqueues", false)],
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let queue = queue(cx)?;
        match cx.attrs().bool("cancel_pending_enqueues") {
            true => queue.close_and_cancel(),
            false => queue.close(cx)?,
        }
        Ok(Vec::new())
    })],
};

/// `true` if the queue is closed.
pub(crate) static IS_CLOSED: Op = Op {
    def: OpDef {
        name: "QueueIsClosedV2",
        summary: "True if a queue is closed.",
        inputs: &[HANDLE],
        outputs: &[arg_of("is_closed", DType::Bool)],
        shape: scalar,
        effect: Effect::Stateful,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(queue(cx)?.is_closed())])
    })],
};
