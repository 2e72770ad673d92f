//! Ops that pass one of two values on.

use thalweg::prelude::*;

use super::kinds::{list, scalar_shape};
use super::nodes::{at, both, dequeued, fed, pushed, queue_for, switch, written};

/// Builds from a pair of values of one kind.
pub(super) type Build = for<'g> fn(&'g Graph, Output<'g>, Output<'g>) -> Output<'g>;

/// The ops that give the first value.
pub(super) const GIVE_FIRST: &[(&str, Build)] = &[
    ("Identity", |g, a, _| g.op("Identity").input(a).output()),
    ("IdentityN", |g, a, b| {
        g.op("IdentityN").inputs([b, a]).build().output(1)
    }),
    ("StopGradient", |g, a, _| {
        g.op("StopGradient").input(a).output()
    }),
    ("PreventGradient", |g, a, _| {
        g.op("PreventGradient").input(a).output()
    }),
    ("EnsureShape", |g, a, _| {
        let ensured = g.op("EnsureShape").input(a);
        ensured.attr("shape", Shape::scalar()).output()
    }),
    ("PlaceholderWithDefault", |g, a, _| {
        let with = g.op("PlaceholderWithDefault").input(a);
        with.attr("shape", Shape::scalar()).output()
    }),
    ("Select", |g, a, b| {
        let select = g.op("Select").input(fed(g, true));
        select.input(a).input(b).output()
    }),
    ("SelectV2", |g, a, b| {
        let select = g.op("SelectV2").input(fed(g, true));
        select.input(a).input(b).output()
    }),
    ("ExpandDims and Squeeze", |g, a, _| {
        let one = g.op("ExpandDims").input(a).input(fed(g, 0i32)).output();
        g.op("Squeeze").input(one).output()
    }),
    ("Pack of one and Reshape", |g, a, _| {
        let one = g.op("Pack").inputs([a]).output();
        g.op("Reshape").input(one).input(scalar_shape(g)).output()
    }),
    ("Switch and Merge", |g, a, b| {
        let [dead, _] = switch(g, b);
        let [_, taken] = switch(g, a);
        g.op("Merge").inputs([dead, taken]).build().output(0)
    }),
    ("If", |g, a, b| {
        let taken = fed(g, true);
        g.cond(taken, |_| vec![a], |_| vec![b])[0]
    }),
    ("While", |g, a, _| {
        let start = fed(g, 0i32);
        g.while_loop(
            &[start, a],
            |_, v| v[0].less(2i32),
            |_, v| vec![v[0] + 1i32, v[1]],
        )[1]
    }),
    ("StagingArea", |g, a, _| {
        let staged = g
            .op("Stage")
            .inputs([a])
            .attr("shared_name", "area")
            .build();
        let taken = g.op("Unstage").attr("dtypes", vec![a.dtype()]);
        taken.attr("shared_name", "area").control(staged).output()
    }),
    ("VarHandleOp", |g, a, _| {
        let handle = g.op("VarHandleOp").attr("dtype", a.dtype());
        let handle = handle.attr("shape", Shape::scalar()).output();
        let assigned = g.op("AssignVariableOp").input(handle).input(a).build();
        let read = g.op("ReadVariableOp").input(handle);
        read.attr("dtype", a.dtype()).control(assigned).output()
    }),
    ("StackPopV2", |g, a, b| {
        let (stack, pushed) = pushed(g, &[b, a]);
        let pop = g.op("StackPopV2").input(stack);
        pop.attr("elem_type", a.dtype()).control(pushed).output()
    }),
    ("StackPushV2", |g, a, b| pushed(g, &[b, a]).1),
    ("OptionalGetValue", |g, a, b| {
        let optional = g.op("OptionalFromValue").inputs([b, a]).output();
        let values = g.op("OptionalGetValue").input(optional);
        let values = values.attr("output_types", vec![a.dtype(); 2]);
        let shapes = vec![Shape::unknown(); 2];
        values.attr("output_shapes", shapes).build().output(1)
    }),
    ("another device", |g, a, _| {
        let there = g.device("/cpu:1", || g.op("Identity").input(a).output());
        g.device("/cpu:0", || g.op("Identity").input(there).output())
    }),
];

/// The ops that give the second value.
pub(super) const GIVE_SECOND: &[(&str, Build)] = &[
    ("Pack", |g, a, b| at(g, both(g, a, b), 1)),
    ("Unpack", |g, a, b| {
        let unpack = g.op("Unpack").input(both(g, a, b)).attr("num", 2i64);
        unpack.build().output(1)
    }),
    ("Pack along axis 1", |g, a, b| {
        let pack = g.op("Pack").inputs([both(g, a, b), both(g, b, a)]);
        let pack = pack.attr("axis", 1i64).output();
        at(
            g,
            g.op("Reshape")
                .input(pack)
                .input(g.constant([4i32]))
                .output(),
            1,
        )
    }),
    ("Select by a vector", |g, a, b| {
        let select = g.op("Select").input(fed(g, [false, true]));
        at(
            g,
            select.input(both(g, a, b)).input(both(g, b, a)).output(),
            0,
        )
    }),
    ("SelectV2 with broadcasting", |g, a, b| {
        let select = g.op("SelectV2").input(fed(g, [false, true]));
        at(g, select.input(a).input(b).output(), 0)
    }),
    ("GatherV2", |g, a, b| {
        let gather = g.op("GatherV2").input(both(g, a, b)).input(fed(g, 1i32));
        gather.input(g.constant(0i32)).output()
    }),
    ("Gather", |g, a, b| {
        g.op("Gather")
            .input(both(g, a, b))
            .input(fed(g, 1i32))
            .output()
    }),
    ("GatherNd", |g, a, b| {
        g.op("GatherNd")
            .input(both(g, a, b))
            .input(fed(g, [1i32]))
            .output()
    }),
    ("Tile", |g, a, b| {
        at(
            g,
            g.op("Tile")
                .input(both(g, a, b))
                .input(fed(g, [2i32]))
                .output(),
            3,
        )
    }),
    ("Reshape", |g, a, b| {
        let column = g
            .op("Reshape")
            .input(both(g, a, b))
            .input(fed(g, [2i32, 1]));
        let column = column.output();
        at(
            g,
            g.op("Reshape")
                .input(column)
                .input(g.constant([2i32]))
                .output(),
            1,
        )
    }),
    ("Transpose", |g, a, b| {
        let column = g
            .op("Reshape")
            .input(both(g, a, b))
            .input(g.constant([2i32, 1]));
        let row = g
            .op("Transpose")
            .input(column.output())
            .input(fed(g, [1i32, 0]));
        let flat = g
            .op("Reshape")
            .input(row.output())
            .input(g.constant([2i32]));
        at(g, flat.output(), 1)
    }),
    ("Roll", |g, a, b| {
        let roll = g.op("Roll").input(both(g, a, b)).input(fed(g, 1i32));
        at(g, roll.input(g.constant(0i32)).output(), 0)
    }),
    ("Split", |g, a, b| {
        let split = g.op("Split").input(g.constant(0i32)).input(both(g, a, b));
        at(g, split.attr("num_split", 2i64).build().output(1), 0)
    }),
    ("SplitV", |g, a, b| {
        let split = g.op("SplitV").input(both(g, a, b)).input(fed(g, [1i32, 1]));
        let split = split.input(g.constant(0i32)).attr("num_split", 2i64);
        at(g, split.build().output(1), 0)
    }),
    ("Fill", |g, _, b| {
        at(g, g.op("Fill").input(fed(g, [2i32])).input(b).output(), 1)
    }),
    ("BroadcastTo", |g, _, b| {
        at(
            g,
            g.op("BroadcastTo").input(b).input(fed(g, [2i32])).output(),
            1,
        )
    }),
    ("OneHot", |g, a, b| {
        let one = g.op("OneHot").input(fed(g, 1i32)).input(g.constant(2i32));
        at(g, one.input(b).input(a).output(), 1)
    }),
    ("DynamicPartition", |g, a, b| {
        let parts = g.op("DynamicPartition").input(both(g, a, b));
        let parts = parts.input(fed(g, [0i32, 1])).attr("num_partitions", 2i64);
        at(g, parts.build().output(1), 0)
    }),
    ("DynamicStitch", |g, a, b| {
        let stitched = g
            .op("DynamicStitch")
            .attr("N", 1i64)
            .inputs([fed(g, [1i32, 0])]);
        at(g, stitched.inputs([both(g, a, b)]).output(), 0)
    }),
    ("ConcatV2", |g, a, b| {
        let concat = g.op("ConcatV2").inputs([both(g, b, a), both(g, a, b)]);
        at(g, concat.input(g.constant(0i32)).output(), 3)
    }),
    ("Slice", |g, a, b| {
        let slice = g.op("Slice").input(both(g, a, b)).input(fed(g, [1i32]));
        at(g, slice.input(g.constant([1i32])).output(), 0)
    }),
    ("ReverseV2", |g, a, b| {
        at(
            g,
            g.op("ReverseV2")
                .input(both(g, a, b))
                .input(fed(g, [0i32]))
                .output(),
            0,
        )
    }),
    ("If, the other branch", |g, a, b| {
        let taken = fed(g, false);
        g.cond(taken, |_| vec![a], |_| vec![b])[0]
    }),
    ("QueueEnqueueV2", |g, a, b| {
        let queue = queue_for(g, "FIFOQueueV2", a, Shape::scalar());
        let first = g.op("QueueEnqueueV2").input(queue).inputs([a]).build();
        let second = g.op("QueueEnqueueV2").input(queue).inputs([b]);
        at(
            g,
            dequeued(g, queue, a.dtype(), second.control(first).build()),
            1,
        )
    }),
    ("QueueEnqueueManyV2", |g, a, b| {
        let queue = queue_for(g, "FIFOQueueV2", a, Shape::scalar());
        let many = g
            .op("QueueEnqueueManyV2")
            .input(queue)
            .inputs([both(g, a, b)]);
        at(g, dequeued(g, queue, a.dtype(), many.build()), 1)
    }),
    ("PaddingFIFOQueueV2", |g, a, b| {
        let queue = queue_for(g, "PaddingFIFOQueueV2", a, Shape::of_rank(1));
        let short = g.op("Reshape").input(a).input(g.constant([1i32])).output();
        let first = g.op("QueueEnqueueV2").input(queue).inputs([short]).build();
        let second = g.op("QueueEnqueueV2").input(queue).inputs([both(g, a, b)]);
        let batch = dequeued(g, queue, a.dtype(), second.control(first).build());
        at(
            g,
            g.op("Reshape")
                .input(batch)
                .input(g.constant([4i32]))
                .output(),
            3,
        )
    }),
    ("TensorArrayReadV3", |g, a, b| {
        let [array, flow] = written(g, a, b);
        let read = g
            .op("TensorArrayReadV3")
            .input(array)
            .input(g.constant(1i32));
        read.input(flow).attr("dtype", a.dtype()).output()
    }),
    ("TensorArrayGatherV3", |g, a, b| {
        let [array, flow] = written(g, a, b);
        let gather = g.op("TensorArrayGatherV3").input(array);
        let gather = gather.input(g.constant([1i32, 0])).input(flow);
        at(g, gather.attr("dtype", a.dtype()).output(), 0)
    }),
    ("TensorArrayScatterV3", |g, a, b| {
        let array = g.op("TensorArrayV3").input(g.constant(2i32));
        let array = array.attr("dtype", a.dtype()).build();
        let scatter = g.op("TensorArrayScatterV3").input(array.output(0));
        let scatter = scatter.input(g.constant([1i32, 0])).input(both(g, a, b));
        let flow = scatter.input(array.output(1)).output();
        let read = g.op("TensorArrayReadV3").input(array.output(0));
        let read = read.input(g.constant(0i32)).input(flow);
        read.attr("dtype", a.dtype()).output()
    }),
    ("TensorListStack", |g, a, b| {
        let stack = g.op("TensorListStack").input(list(g, a.dtype(), &[a, b]));
        let stack = stack
            .input(scalar_shape(g))
            .attr("element_dtype", a.dtype());
        at(g, stack.output(), 1)
    }),
    ("TensorListFromTensor", |g, a, b| {
        let list = g.op("TensorListFromTensor").input(both(g, a, b));
        let list = list.input(scalar_shape(g)).output();
        let pop = g.op("TensorListPopBack").input(list).input(scalar_shape(g));
        pop.attr("element_dtype", a.dtype()).build().output(1)
    }),
    ("TensorListSetItem", |g, a, b| {
        let list = g.op("TensorListReserve").input(scalar_shape(g));
        let list = list
            .input(g.constant(2i32))
            .attr("element_dtype", a.dtype());
        let set = g.op("TensorListSetItem").input(list.output());
        let set = set.input(g.constant(1i32)).input(b).output();
        let item = g
            .op("TensorListGather")
            .input(set)
            .input(g.constant([1i32]));
        let item = item.input(scalar_shape(g)).attr("element_dtype", a.dtype());
        at(g, item.output(), 0)
    }),
];
