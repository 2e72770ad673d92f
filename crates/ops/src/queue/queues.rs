//! FIFOQueueV2, PaddingFIFOQueueV2, RandomShuffleQueueV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg_of, int_attr, list_attr, str_attr, types_attr,
};
use thalweg_graph::{AttrKind, Attrs, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::blocking_queue::Queue;
use super::elements::{QueueSettings, Shuffle};
use crate::random::philox::Philox;

/// Attributes of every queue.
const TYPES: AttrDef = types_attr("component_types");
const SHAPES: AttrDef = list_attr("shapes", AttrKind::Shapes);
const CAPACITY: AttrDef = int_attr("capacity", -1);
const CONTAINER: AttrDef = str_attr("container", "", &[]);
const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);

/// Attributes of a first-in, first-out queue.
pub(super) const FIFO_ATTRS: &[AttrDef] = &[TYPES, SHAPES, CAPACITY, CONTAINER, SHARED_NAME];
/// Attributes of a shuffling queue.
pub(super) const SHUFFLE_ATTRS: &[AttrDef] = &[
    TYPES,
    SHAPES,
    CAPACITY,
    int_attr("min_after_dequeue", 0),
    int_attr("seed", 0),
    int_attr("seed2", 0),
    CONTAINER,
    SHARED_NAME,
];

/// Name of the resource that a node stands for: `shared_name`, or the node's name.
pub(super) fn shared_name<'a>(cx: &TensorCx<'a>) -> &'a str {
    match cx.attrs().str("shared_name") {
        "" => &cx.node().name,
        shared => shared,
    }
}

/// Handle of the resource of the node's name; `make` creates it on first use.
pub(super) fn resource_handle(
    cx: &TensorCx<'_>,
    make: &dyn Fn(&str) -> Result<SharedObject, KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    let (container, name) = (cx.attrs().str("container"), shared_name(cx));
    let thing = cx
        .environment()
        .object(container, name, &mut || make(name))?;
    Ok(vec![Tensor::handle(DType::Resource, thing)?])
}

fn queue(
    cx: &TensorCx<'_>,
    pads: bool,
    shuffle: fn(&Attrs) -> Option<Shuffle>,
) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    resource_handle(cx, &|name| {
        Ok(Arc::new(Queue::new(QueueSettings {
            name: format!("{} '{name}'", cx.node().op.name.trim_end_matches("V2")),
            dtypes: attrs.types("component_types").to_vec(),
            shapes: attrs.shapes("shapes").to_vec(),
            capacity: attrs.int("capacity"),
            pads,
            shuffle: shuffle(attrs),
            memory: cx.memory().clone(),
        })))
    })
}

/// Base definition of an op that creates a queue.
const QUEUE_OP: OpDef = OpDef {
    outputs: &[arg_of("handle", DType::Resource)],
    attrs: FIFO_ATTRS,
    shape: |cx| {
        cx.set(0, Shape::scalar());
        Ok(())
    },
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// First-in, first-out queue.
pub(crate) static FIFO: Op = Op {
    def: OpDef {
        name: "FIFOQueueV2",
        summary: "A first-in, first-out queue.",
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| queue(cx, false, |_| None))],
};

/// First-in, first-out queue of elements of different shapes, padded to make a batch.
pub(crate) static PADDING_FIFO: Op = Op {
    def: OpDef {
        name: "PaddingFIFOQueueV2",
        summary: "A first-in, first-out queue whose batches are padded with zeros.",
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| queue(cx, true, |_| None))],
};

/// Queue that removes a random element.
pub(crate) static RANDOM_SHUFFLE: Op = Op {
    def: OpDef {
        name: "RandomShuffleQueueV2",
        summary: "A queue that removes a random element.",
        attrs: SHUFFLE_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        queue(cx, false, |attrs| {
            Some(Shuffle {
                philox: Philox::of(attrs),
                min_after_dequeue: usize::try_from(attrs.int("min_after_dequeue")).unwrap_or(0),
            })
        })
    })],
};
