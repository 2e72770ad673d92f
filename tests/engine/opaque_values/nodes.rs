//! Nodes around values that are no numbers: vectors, stacks, arrays, queues.

use thalweg::prelude::*;

/// Both values in a vector.
pub(super) fn both<'g>(g: &'g Graph, a: Output<'g>, b: Output<'g>) -> Output<'g> {
    g.op("Pack").inputs([a, b]).output()
}

/// A value that is known only when the graph runs.
pub(super) fn fed<'g>(g: &'g Graph, value: impl Into<Tensor>) -> Output<'g> {
    let constant = g.constant(value.into());
    let shape = constant.shape();
    let fed = g.op("PlaceholderWithDefault").input(constant);
    fed.attr("shape", shape).output()
}

/// Element `i` of a vector.
pub(super) fn at<'g>(g: &'g Graph, vector: Output<'g>, i: i32) -> Output<'g> {
    let slice = g.op("StridedSlice").input(vector);
    let slice = slice
        .input(fed(g, [i]))
        .input(g.constant([i + 1]))
        .input(g.constant([1i32]));
    slice.attr("shrink_axis_mask", 1i64).output()
}

/// A stack with these values on it, on each other.
pub(super) fn pushed<'g>(g: &'g Graph, values: &[Output<'g>]) -> (Output<'g>, Output<'g>) {
    let stack = g.op("StackV2").input(g.constant(-1i32));
    let stack = stack.attr("elem_type", values[0].dtype()).output();
    let push = |before: Option<Output<'g>>, &value: &Output<'g>| {
        let push = g.op("StackPushV2").input(stack).input(value);
        Some(match before {
            Some(before) => push.control(before).output(),
            None => push.output(),
        })
    };
    let last = values.iter().fold(None, push);
    (stack, last.unwrap())
}

/// An array, and the flow after both values were written to it.
pub(super) fn written<'g>(g: &'g Graph, a: Output<'g>, b: Output<'g>) -> [Output<'g>; 2] {
    let array = g.op("TensorArrayV3").input(g.constant(2i32));
    let array = array
        .attr("dtype", a.dtype())
        .attr("clear_after_read", false)
        .build();
    let mut flow = array.output(1);
    for (i, value) in [a, b].into_iter().enumerate() {
        let write = g.op("TensorArrayWriteV3").input(array.output(0));
        let write = write.input(g.constant(i as i32)).input(value);
        flow = write.input(flow).output();
    }
    [array.output(0), flow]
}

/// A first-in, first-out queue for such values.
pub(super) fn queue_for<'g>(
    g: &'g Graph,
    op: &'static str,
    value: Output<'g>,
    shape: Shape,
) -> Output<'g> {
    let queue = g.op(op).attr("component_types", vec![value.dtype()]);
    queue.attr("shapes", vec![shape]).output()
}

pub(super) fn dequeued<'g>(
    g: &'g Graph,
    queue: Output<'g>,
    dtype: DType,
    after: Operation<'g>,
) -> Output<'g> {
    let many = g.op("QueueDequeueManyV2").input(queue);
    let many = many
        .input(g.constant(2i32))
        .attr("component_types", vec![dtype]);
    many.control(after).output()
}

pub(super) fn switch<'g>(g: &'g Graph, value: Output<'g>) -> [Output<'g>; 2] {
    let switch = g.op("Switch").input(value).input(fed(g, true)).build();
    [switch.output(0), switch.output(1)]
}
