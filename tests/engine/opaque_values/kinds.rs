//! Kinds of values that are no numbers: how two are made, and read as numbers.

use thalweg::prelude::*;

/// A kind of value.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Makes two values.
    pub(super) pair: for<'g> fn(&'g Graph) -> [Output<'g>; 2],
    /// Reads a value as numbers.
    pub(super) read: for<'g> fn(&'g Graph, Output<'g>) -> Output<'g>,
    pub(super) first: fn() -> Tensor,
    pub(super) second: fn() -> Tensor,
}

pub(super) fn number(g: &Graph, value: f32) -> Output<'_> {
    g.constant(value)
}

pub(super) fn optional<'g>(g: &'g Graph, value: Output<'g>) -> Output<'g> {
    g.op("OptionalFromValue").inputs([value]).output()
}

/// A list of these elements.
pub(super) fn list<'g>(g: &'g Graph, dtype: DType, elements: &[Output<'g>]) -> Output<'g> {
    let empty = g.op("EmptyTensorList").input(scalar_shape(g));
    let empty = empty
        .input(g.constant(-1i32))
        .attr("element_dtype", dtype)
        .output();
    elements.iter().fold(empty, |list, &element| {
        g.op("TensorListPushBack")
            .input(list)
            .input(element)
            .output()
    })
}

pub(super) fn numbers(g: &Graph, values: [f32; 2]) -> Output<'_> {
    list(g, DType::F32, &values.map(|v| number(g, v)))
}

/// The dimensions of a scalar.
pub(super) fn scalar_shape(g: &Graph) -> Output<'_> {
    g.constant(Tensor::new::<i32>(&[0], &[]).unwrap())
}

fn value_of<'g>(g: &'g Graph, optional: Output<'g>, dtype: DType) -> Output<'g> {
    let value = g.op("OptionalGetValue").input(optional);
    let value = value.attr("output_types", vec![dtype]);
    value.attr("output_shapes", vec![Shape::scalar()]).output()
}

pub(super) fn read_optional<'g>(g: &'g Graph, optional: Output<'g>) -> Output<'g> {
    value_of(g, optional, DType::F32)
}

pub(super) fn read_list<'g>(g: &'g Graph, list: Output<'g>) -> Output<'g> {
    let stacked = g.op("TensorListStack").input(list).input(scalar_shape(g));
    stacked.attr("element_dtype", DType::F32).output()
}

/// The only element of a list of variants.
pub(super) fn only<'g>(g: &'g Graph, list: Output<'g>) -> Output<'g> {
    let item = g.op("TensorListGetItem").input(list);
    let item = item.input(g.constant(0i32)).input(scalar_shape(g));
    item.attr("element_dtype", DType::Variant).output()
}

/// A queue with so many elements.
fn queue(g: &Graph, elements: i64) -> Output<'_> {
    let queue = g.op("FIFOQueueV2");
    let queue = queue
        .attr("component_types", vec![DType::F32])
        .attr("shared_name", format!("queue of {elements}"));
    let handle = queue.output();
    let all = vec![0.0f32; elements as usize];
    let filled = g
        .op("QueueEnqueueManyV2")
        .input(handle)
        .inputs([g.constant(all)])
        .build();
    g.control_dependencies([filled], || g.op("Identity").input(handle).output())
}

fn variable(g: &Graph, value: f32) -> Output<'_> {
    let handle = g.op("VarHandleOp").attr("dtype", DType::F32);
    let handle = handle
        .attr("shape", Shape::scalar())
        .attr("shared_name", format!("v{value}"));
    let handle = handle.output();
    let assigned = g.op("AssignVariableOp").input(handle);
    let assigned = assigned.input(number(g, value)).build();
    g.control_dependencies([assigned], || g.op("Identity").input(handle).output())
}

fn array(g: &Graph, len: i32) -> Output<'_> {
    let array = g.op("TensorArrayV3").input(g.constant(len));
    array.attr("dtype", DType::F32).build().output(0)
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "an optional",
        pair: |g| [2.0, 3.0].map(|v| optional(g, number(g, v))),
        read: read_optional,
        first: || Tensor::from(2.0f32),
        second: || Tensor::from(3.0f32),
    },
    Kind {
        name: "an optional without a value, and one with",
        pair: |g| [g.op("OptionalNone").output(), optional(g, number(g, 2.0))],
        read: |g, o| g.op("OptionalHasValue").input(o).output(),
        first: || Tensor::from(false),
        second: || Tensor::from(true),
    },
    Kind {
        name: "a list",
        pair: |g| [[1.0, 2.0], [3.0, 4.0]].map(|v| numbers(g, v)),
        read: read_list,
        first: || Tensor::from([1.0f32, 2.0]),
        second: || Tensor::from([3.0f32, 4.0]),
    },
    Kind {
        name: "a list of lists",
        pair: |g| [[1.0, 2.0], [3.0, 4.0]].map(|v| list(g, DType::Variant, &[numbers(g, v)])),
        read: |g, l| read_list(g, only(g, l)),
        first: || Tensor::from([1.0f32, 2.0]),
        second: || Tensor::from([3.0f32, 4.0]),
    },
    Kind {
        name: "a list of optionals",
        pair: |g| [2.0, 3.0].map(|v| list(g, DType::Variant, &[optional(g, number(g, v))])),
        read: |g, l| read_optional(g, only(g, l)),
        first: || Tensor::from(2.0f32),
        second: || Tensor::from(3.0f32),
    },
    Kind {
        name: "an optional list",
        pair: |g| [[1.0, 2.0], [3.0, 4.0]].map(|v| optional(g, numbers(g, v))),
        read: |g, o| read_list(g, value_of(g, o, DType::Variant)),
        first: || Tensor::from([1.0f32, 2.0]),
        second: || Tensor::from([3.0f32, 4.0]),
    },
    Kind {
        name: "an optional optional",
        pair: |g| [2.0, 3.0].map(|v| optional(g, optional(g, number(g, v)))),
        read: |g, o| read_optional(g, value_of(g, o, DType::Variant)),
        first: || Tensor::from(2.0f32),
        second: || Tensor::from(3.0f32),
    },
    Kind {
        name: "a queue",
        pair: |g| [queue(g, 1), queue(g, 2)],
        read: |g, q| g.op("QueueSizeV2").input(q).output(),
        first: || Tensor::from(1i32),
        second: || Tensor::from(2i32),
    },
    Kind {
        name: "a variable",
        pair: |g| [variable(g, 1.0), variable(g, 2.0)],
        read: |g, v| {
            let read = g.op("ReadVariableOp").input(v);
            read.attr("dtype", DType::F32).output()
        },
        first: || Tensor::from(1.0f32),
        second: || Tensor::from(2.0f32),
    },
    Kind {
        name: "an array",
        pair: |g| [array(g, 1), array(g, 2)],
        read: |g, a| {
            let size = g.op("TensorArraySizeV3").input(a);
            size.input(number(g, 0.0)).output()
        },
        first: || Tensor::from(1i32),
        second: || Tensor::from(2i32),
    },
];
