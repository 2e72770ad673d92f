//! FIFOQueueV2, PaddingFIFOQueueV2, PriorityQueueV2, RandomShuffleQueueV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg_of, attr, int_attr, list_attr, str_attr, types_attr,
};
use thalweg_graph::{AttrKind, Attrs, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::blocking_queue::BlockingQueue;
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
/// Attributes of a queue by priority.
pub(super) const PRIORITY_ATTRS: &[AttrDef] = &[
    list_attr("component_types", AttrKind::Types),
    attr("shapes", AttrKind::Shapes),
    CAPACITY,
    CONTAINER,
    SHARED_NAME,
];
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
pub(crate) fn shared_name<'a>(cx: &TensorCx<'a>) -> &'a str {
    match cx.attrs().str("shared_name") {
        "" => &cx.node().name,
        shared => shared,
    }
}

/// Handle of the resource of the node's name; `make` creates it on first use.
pub(crate) fn resource_handle(
    cx: &TensorCx<'_>,
    make: &dyn Fn(&str) -> Result<SharedObject, KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    let (container, name) = (cx.attrs().str("container"), shared_name(cx));
    let thing = cx
        .environment()
        .object(container, name, &mut || make(name))?;
    Ok(vec![Tensor::handle(DType::Resource, thing)?])
}

/// Order of a queue's elements.
enum Order {
    /// First in, first out.
    Fifo,
    /// First in, first out; batches are padded.
    Padded,
    Random(Shuffle),
    /// By the first component, which the node's attributes leave out.
    Priority,
}

/// Dtypes and shapes of the components that a node asks for.
fn components(attrs: &Attrs, prioritized: bool) -> (Vec<DType>, Vec<Shape>) {
    let mut dtypes = attrs.types("component_types").to_vec();
    let mut shapes = attrs.shapes("shapes").to_vec();
    if prioritized {
        dtypes.insert(0, DType::I64);
        shapes.insert(0, Shape::scalar());
    }
    (dtypes, shapes)
}

fn queue(cx: &TensorCx<'_>, order: fn(&Attrs) -> Order) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let kind = cx.node().op.name.trim_end_matches("V2");
    let prioritized = matches!(order(attrs), Order::Priority);
    let (dtypes, shapes) = components(attrs, prioritized);
    let handle = resource_handle(cx, &|name| {
        Ok(Arc::new(BlockingQueue::new(QueueSettings {
            kind,
            name: format!("{kind} '{name}'"),
            dtypes: dtypes.clone(),
            shapes: shapes.clone(),
            capacity: attrs.int("capacity"),
            pads: matches!(order(attrs), Order::Padded),
            shuffle: match order(attrs) {
                Order::Random(shuffle) => Some(shuffle),
                _ => None,
            },
            prioritized,
            memory: cx.memory().clone(),
        })))
    })?;
    match handle.first().and_then(Tensor::object::<BlockingQueue>) {
        Some(queue) => check_shared(cx, kind, (&dtypes, &shapes), queue.settings())?,
        None => {
            return Err(KernelError::Invalid(format!(
                "'{}' is no queue: give this one another shared_name",
                shared_name(cx)
            )));
        }
    }
    Ok(handle)
}

/// Fails if the queue that exists under the node's name is another than the node asks for. The rules are those of
/// `MatchesNodeDef` in TensorFlow's queues.
fn check_shared(
    cx: &TensorCx<'_>,
    kind: &str,
    (types, shapes): (&[DType], &[Shape]),
    found: &QueueSettings,
) -> Result<(), KernelError> {
    let attrs = cx.attrs();
    let differs = |what: &str, found: String, asked: String| {
        Err(KernelError::Invalid(format!(
            "shared queue '{}' has {what} {found}, but this node asks for {asked}: give it another shared_name",
            shared_name(cx)
        )))
    };
    if found.kind != kind {
        return differs("kind", found.kind.to_owned(), kind.to_owned());
    }
    let capacity = attrs.int("capacity");
    if found.capacity != capacity {
        return differs("capacity", found.capacity.to_string(), capacity.to_string());
    }
    if found.dtypes != types {
        return differs("component types", listed(&found.dtypes), listed(types));
    }
    if found.shapes != shapes {
        return differs("component shapes", listed(&found.shapes), listed(shapes));
    }
    let Some(shuffle) = &found.shuffle else {
        return Ok(());
    };
    let kept = min_after_dequeue(attrs);
    if shuffle.min_after_dequeue != kept {
        let found = shuffle.min_after_dequeue.to_string();
        return differs("min_after_dequeue", found, kept.to_string());
    }
    let seeds = seeds(attrs);
    if seeds != [0, 0] && seeds != shuffle.seeds {
        return differs("seeds", listed(&shuffle.seeds), listed(&seeds));
    }
    Ok(())
}

/// The items in brackets.
pub(super) fn listed<T: ToString>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(T::to_string).collect();
    format!("[{}]", all.join(", "))
}

fn seeds(attrs: &Attrs) -> [i64; 2] {
    ["seed", "seed2"].map(|attr| attrs.int(attr))
}

fn min_after_dequeue(attrs: &Attrs) -> usize {
    usize::try_from(attrs.int("min_after_dequeue")).unwrap_or(0)
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
    kernels: &[cpu_tensors(|cx| queue(cx, |_| Order::Fifo))],
};

/// First-in, first-out queue of elements of different shapes, padded to make a batch.
pub(crate) static PADDING_FIFO: Op = Op {
    def: OpDef {
        name: "PaddingFIFOQueueV2",
        summary: "A first-in, first-out queue whose batches are padded with zeros.",
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| queue(cx, |_| Order::Padded))],
};

/// Queue that removes the element with the smallest first component.
pub(crate) static PRIORITY: Op = Op {
    def: OpDef {
        name: "PriorityQueueV2",
        summary: "A queue that removes the element with the smallest first component, an i64 before those of the attributes.",
        attrs: PRIORITY_ATTRS,
        ..QUEUE_OP
    },
    kernels: &[cpu_tensors(|cx| queue(cx, |_| Order::Priority))],
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
        queue(cx, |attrs| {
            Order::Random(Shuffle {
                philox: Philox::of(attrs),
                seeds: seeds(attrs),
                min_after_dequeue: min_after_dequeue(attrs),
            })
        })
    })],
};
