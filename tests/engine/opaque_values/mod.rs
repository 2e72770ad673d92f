//! Values that are no numbers (lists, optionals, nested ones, handles of resources) through each op that passes values
//! on. The answers are TensorFlow 2.21's, whose raw ops were run on the same values: where it has no kernel for a value
//! (a sum of handles, say), there is no row. It has none for ConcatV2, Slice and ReverseV2 of any of them.

mod kinds;
mod nodes;
mod passing;

use thalweg::prelude::*;
use thalweg_tests::cpus::cpus;

use kinds::{KINDS, Kind, number, numbers, only, optional, read_list, read_optional, scalar_shape};
use nodes::{at, both, queue_for};
use passing::{Build, GIVE_FIRST, GIVE_SECOND};

fn run(g: &Graph, of: Output<'_>) -> Result<Tensor, String> {
    let session = Session::with_options(g, cpus(2)).map_err(|e| e.to_string())?;
    let fetched = session.step(g.output(of.id()), []);
    let fetched = fetched.map_err(|e| e.to_string())?;
    Ok(fetched.tensor(0).unwrap().clone())
}

/// Checks that each op gives the value of each kind that `wanted` says.
fn check(ops: &[(&str, Build)], wanted: fn(&Kind) -> Tensor) {
    let mut wrong = Vec::new();
    for (op, build) in ops {
        for kind in KINDS {
            let g = Graph::new();
            let [a, b] = (kind.pair)(&g);
            let found = run(&g, (kind.read)(&g, build(&g, a, b)));
            if found != Ok(wanted(kind)) {
                wrong.push(format!("{op} of {}: {found:?}", kind.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_op_that_passes_a_value_on_gives_it_unchanged() {
    check(GIVE_FIRST, |kind| (kind.first)());
    check(GIVE_SECOND, |kind| (kind.second)());
}

#[test]
fn tensors_of_handles_have_their_shape_and_no_more() {
    for kind in KINDS {
        let g = Graph::new();
        let [a, b] = (kind.pair)(&g);
        let three = g.op("Pack").inputs([a, b, a]).output();
        for (op, wanted) in [
            ("Shape", Tensor::from([3i32])),
            ("Size", Tensor::from(3i32)),
            ("Rank", Tensor::from(1i32)),
        ] {
            let found = run(&g, g.op(op).input(three).output());
            assert_eq!(found, Ok(wanted), "{op} of {}", kind.name);
        }
        // A vector is no handle.
        let error = run(&g, (kind.read)(&g, three)).unwrap_err();
        let expected = ["must be one handle, a scalar, but has shape [3]", "rank"];
        assert!(
            expected.iter().any(|e| error.contains(e)),
            "{}: {error}",
            kind.name
        );
    }
}

/// TensorFlow: "ZerosLike non-scalar Tensor with dtype=DT_VARIANT is not supported", "Input handle is not a list".
#[test]
fn what_has_no_meaning_is_an_error() {
    let g = Graph::new();
    let [a, b] = [2.0, 3.0].map(|v| optional(&g, number(&g, v)));
    let zeros = g.op("ZerosLike").input(both(&g, a, b)).output();
    let absent = g.op("TensorListReserve").input(scalar_shape(&g));
    let absent = absent
        .input(g.constant(1i32))
        .attr("element_dtype", DType::Variant);
    let absent = only(&g, absent.output());
    for (what, read, text) in [
        (
            "zeros of a vector",
            read_optional(&g, at(&g, zeros, 0)),
            "lists, maps, optionals and sparse matrices",
        ),
        (
            "an element that was never set",
            read_list(&g, absent),
            "a handle of another kind",
        ),
        (
            "an optional for a list",
            read_list(&g, a),
            "a handle of another kind",
        ),
        (
            "a list for an optional",
            read_optional(&g, numbers(&g, [1.0, 2.0])),
            "a handle of another kind",
        ),
    ] {
        let error = run(&g, read).unwrap_err();
        assert!(error.contains(text), "{what}: {error}");
    }
}

#[test]
fn a_resource_that_is_gone_is_named_as_such() {
    let g = Graph::new();
    let stack = g.op("StackV2").input(g.constant(-1i32));
    let stack = stack.attr("elem_type", DType::F32).output();
    let queue = queue_for(&g, "FIFOQueueV2", stack, Shape::scalar());
    let filled = g.op("QueueEnqueueV2").input(queue).inputs([stack]).build();
    let taken = g.op("QueueDequeueV2").input(queue);
    let taken = taken
        .attr("component_types", vec![DType::Resource])
        .output();
    let popped = g.op("StackPopV2").input(taken);
    let popped = popped.attr("elem_type", DType::F32).output();
    let session = Session::new(&g).unwrap();
    session.run(filled, []).unwrap();
    // The step that made the stack is over.
    let error = session.step(popped, []).unwrap_err().to_string();
    assert!(
        error.contains("the resource behind input 0 exists no more"),
        "{error}"
    );
}

/// A stack that holds its own handle is freed with its step.
#[test]
fn a_stack_that_holds_itself_does_not_keep_itself() {
    let g = Graph::new();
    let stack = g.op("StackV2").input(g.constant(-1i32));
    let stack = stack.attr("elem_type", DType::Resource).output();
    let pushed = g.op("StackPushV2").input(stack).input(stack).output();
    let popped = g.op("StackPopV2").input(stack).control(pushed);
    let popped = popped.attr("elem_type", DType::Resource).output();
    // The handle that comes back is that of the stack, which is empty by now.
    let again = g.op("StackPopV2").input(popped);
    let again = again.attr("elem_type", DType::Resource).build();
    let session = Session::new(&g).unwrap();
    let error = session.run(again, []).unwrap_err().to_string();
    assert!(error.contains("the stack is empty"), "{error}");
}

/// TensorFlow 2.21: the values are `[b'cc', b'sh']`, and `[2, 2]` is the length of each.
#[test]
fn a_reference_to_a_queue_or_a_stack_reads_as_its_container_and_name() {
    let g = Graph::new();
    let queue = g.op("FIFOQueue").attr("component_types", vec![DType::F32]);
    let queue = queue.attr("container", "cc").attr("shared_name", "sh");
    let queue = queue.output();
    let names = Tensor::strings(&[2], &["cc", "sh"]).unwrap();
    let forwarded = g.op("Identity").input(queue).output();
    for value in [queue, forwarded] {
        assert_eq!(run(&g, value), Ok(names.clone()));
    }
    let lengths = g.op("StringLength").input(queue).output();
    assert_eq!(run(&g, lengths), Ok(Tensor::from([2i32, 2])));

    let g = Graph::new();
    let stack = g.op("Stack").attr("elem_type", DType::F32).name("s");
    let stack = stack.output();
    let pushed = g.op("StackPush").input(stack).input(number(&g, 4.0));
    let popped = g.op("StackPop").input(stack).attr("elem_type", DType::F32);
    let popped = popped.control(pushed.output()).output();
    let handle = g.op("Identity").input(stack).output();
    let session = Session::new(&g).unwrap();
    let fetched = session.step((popped, handle), []).unwrap();
    assert_eq!(fetched.tensor(0).unwrap(), &Tensor::from(4.0f32));
    let names = Tensor::strings(&[2], &["localhost", "s"]).unwrap();
    assert_eq!(fetched.tensor(1).unwrap(), &names);
}

/// The rules are those of `MatchesNodeDef` in TensorFlow's queues; its answers are INVALID_ARGUMENT, too.
#[test]
fn a_queue_of_another_kind_under_the_same_name_is_refused() {
    let g = Graph::new();
    let floats = |op: &'static str| {
        let queue = g.op(op).attr("shared_name", "q");
        queue.attr("component_types", vec![DType::F32])
    };
    let shuffled = || floats("RandomShuffleQueueV2").attr("seed", 1i64);
    let scalars = vec![Shape::scalar()];
    for (first, second, wanted) in [
        (floats("FIFOQueueV2"), floats("FIFOQueue"), None),
        (
            floats("FIFOQueueV2").attr("shapes", scalars.clone()),
            floats("PaddingFIFOQueueV2").attr("shapes", scalars),
            Some("has kind FIFOQueue, but this node asks for PaddingFIFOQueue"),
        ),
        (
            floats("FIFOQueueV2"),
            floats("FIFOQueueV2").attr("component_types", vec![DType::F32; 2]),
            Some("has component types [f32], but this node asks for [f32, f32]"),
        ),
        (
            floats("FIFOQueueV2").attr("capacity", 3i64),
            floats("FIFOQueueV2").attr("capacity", 4i64),
            Some("has capacity 3, but this node asks for 4"),
        ),
        (
            floats("FIFOQueueV2").attr("shapes", vec![Shape::scalar()]),
            floats("FIFOQueueV2").attr("shapes", vec![Shape::from([2])]),
            Some("has component shapes [[]], but this node asks for [[2]]"),
        ),
        (shuffled(), floats("RandomShuffleQueueV2"), None),
        (
            shuffled(),
            shuffled().attr("seed", 2i64),
            Some("has seeds [1, 0], but this node asks for [2, 0]"),
        ),
        (
            shuffled().attr("min_after_dequeue", 1i64),
            shuffled(),
            Some("has min_after_dequeue 1, but this node asks for 0"),
        ),
    ] {
        let (first, second) = (first.build(), second.build());
        let session = Session::new(&g).unwrap();
        session.run(first, []).unwrap();
        let found = session.run(second, []).map_err(|e| e.to_string());
        match wanted {
            None => assert_eq!(found, Ok(())),
            Some(text) => assert!(found.clone().unwrap_err().contains(text), "{found:?}"),
        }
    }
}

/// TensorFlow's answers are INVALID_ARGUMENT for each.
#[test]
fn values_that_do_not_fit_the_node_that_takes_them_out_are_errors_of_the_graph() {
    let g = Graph::new();
    let one = optional(&g, number(&g, 1.0));
    let values = |types: Vec<DType>, shape: Shape| {
        let shapes = vec![shape; types.len()];
        let values = g.op("OptionalGetValue").input(one);
        let values = values.attr("output_types", types);
        values.attr("output_shapes", shapes).build().output(0)
    };
    let queue = queue_for(&g, "FIFOQueueV2", number(&g, 0.0), Shape::scalar());
    let filled = g.op("QueueEnqueueV2").input(queue);
    let filled = filled.inputs([number(&g, 1.0)]).build();
    let taken = |types: Vec<DType>| {
        let taken = g.op("QueueDequeueV2").input(queue).control(filled);
        taken.attr("component_types", types).build().output(0)
    };
    let read = g.op("ReadVariableOp").input(queue);
    let read = read.attr("dtype", DType::F32).output();
    let variable = g.op("VarHandleOp").attr("dtype", DType::F32);
    let variable = variable.attr("shape", Shape::scalar()).output();
    let size = g.op("QueueSizeV2").input(variable).output();
    for (value, text) in [
        (
            values(vec![DType::I32], Shape::scalar()),
            "it gave f32[] where i32",
        ),
        (
            values(vec![DType::F32; 2], Shape::scalar()),
            "it gave 1 value where 2 were said",
        ),
        (
            values(vec![DType::F32], Shape::from([2])),
            "has shape [], not [2]",
        ),
        (
            taken(vec![DType::I32]),
            "have component types [f32], not [i32]",
        ),
        (
            taken(vec![DType::F32; 2]),
            "have component types [f32], not [f32, f32]",
        ),
        (read, "a handle of another kind"),
        (size, "a handle of another kind"),
    ] {
        let error = run(&g, value).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
}
