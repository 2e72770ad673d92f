//! Tensor lists, tensor arrays, stacks and optionals.

use thalweg::prelude::*;

/// Runs a fetch of one tensor.
fn run(g: &Graph, of: Output<'_>) -> Tensor {
    let session = Session::new(g).unwrap();
    let fetched = session.step(g.output(of.id()), []).unwrap();
    fetched.tensor(0).unwrap().clone()
}

fn rows() -> Tensor {
    Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
}

#[test]
fn a_tensor_list_round_trips() {
    let g = Graph::new();
    let x = g.constant(rows());
    let shape = g.constant([-1i32, 2]);
    let list = g
        .op("TensorListSplit")
        .input(x)
        .input(shape)
        .input(g.constant([1i64, 0, 3]))
        .output();
    let joined = g
        .op("TensorListConcatV2")
        .input(list)
        .input(shape)
        .input(g.constant(Vec::<i64>::new()))
        .attr("element_dtype", DType::F32)
        .build();
    assert_eq!(run(&g, joined.output(0)), rows());
    assert_eq!(run(&g, joined.output(1)), Tensor::from([1i64, 0, 3]));
}

#[test]
fn scattered_list_elements_are_gathered_back() {
    let g = Graph::new();
    let order = g.constant([3i32, 1, 0, 4]);
    let shape = g.constant([2i32]);
    let list = g
        .op("TensorListScatterV2")
        .input(g.constant(rows()))
        .input(order)
        .input(shape)
        .input(g.constant(-1i32))
        .output();
    let back = g
        .op("TensorListGather")
        .input(list)
        .input(order)
        .input(shape)
        .attr("element_dtype", DType::F32)
        .output();
    assert_eq!(run(&g, back), rows());
    // Elements that were not set are zeros.
    let unset = g
        .op("TensorListGather")
        .input(list)
        .input(g.constant([2i32]))
        .input(shape)
        .attr("element_dtype", DType::F32)
        .output();
    assert_eq!(run(&g, unset), Tensor::from([[0.0f32, 0.0]]));
    // An existing list gets other elements, and more.
    let more = g
        .op("TensorListScatterIntoExistingList")
        .input(list)
        .input(g.constant([[9.0f32, 9.0], [8.0, 8.0]]))
        .input(g.constant([6i32, 1]))
        .output();
    let at = |places: [i32; 3]| {
        let node = g.op("TensorListGather").input(more);
        let node = node.input(g.constant(places)).input(shape);
        node.attr("element_dtype", DType::F32).output()
    };
    let expected = Tensor::from([[8.0f32, 8.0], [9.0, 9.0], [1.0, 2.0]]);
    assert_eq!(run(&g, at([1, 6, 3])), expected);
    assert_eq!(run(&g, at([5, 2, 5])), Tensor::from([[0.0f32; 2]; 3]));
}

#[test]
fn a_tensor_array_round_trips_and_a_closed_one_is_an_error() {
    let g = Graph::new();
    let array = g
        .op("TensorArrayV3")
        .input(g.constant(2i32))
        .attr("dtype", DType::F32)
        .build();
    let (handle, flow) = (array.output(0), array.output(1));
    let split = g
        .op("TensorArraySplitV3")
        .input(handle)
        .input(g.constant(rows()))
        .input(g.constant([3i64, 1]))
        .input(flow)
        .output();
    let joined = g
        .op("TensorArrayConcatV3")
        .input(handle)
        .input(split)
        .attr("dtype", DType::F32)
        .build();
    assert_eq!(run(&g, joined.output(0)), rows());
    assert_eq!(run(&g, joined.output(1)), Tensor::from([3i64, 1]));
    let closed = g
        .op("TensorArrayCloseV3")
        .input(handle)
        .control(split)
        .build();
    let read = g
        .op("TensorArrayReadV3")
        .input(handle)
        .input(g.constant(0i32))
        .input(flow)
        .attr("dtype", DType::F32)
        .control(closed)
        .output();
    let error = Session::new(&g).unwrap().step(read, []).unwrap_err();
    assert!(
        error.to_string().contains("the array was closed"),
        "{error}"
    );
}

#[test]
fn a_closed_stack_is_empty() {
    let g = Graph::new();
    let stack = g
        .op("StackV2")
        .input(g.constant(-1i32))
        .attr("elem_type", DType::F32)
        .output();
    let pushed = g
        .op("StackPushV2")
        .input(stack)
        .input(g.constant(1.0f32))
        .output();
    let closed = g.op("StackCloseV2").input(stack).control(pushed).build();
    let popped = g
        .op("StackPopV2")
        .input(stack)
        .attr("elem_type", DType::F32)
        .control(closed)
        .output();
    let error = Session::new(&g).unwrap().step(popped, []).unwrap_err();
    assert!(error.to_string().contains("the stack is empty"), "{error}");
}

#[test]
fn an_optional_reports_its_values() {
    let g = Graph::new();
    let fake = g
        .op("FakeParam")
        .attr("dtype", DType::F32)
        .attr("shape", Shape::from([2]))
        .output();
    let some = g.op("OptionalFromValue").input(fake).output();
    let none = g.op("OptionalNone").output();
    for (optional, has) in [(some, true), (none, false)] {
        let found = g.op("OptionalHasValue").input(optional).output();
        assert_eq!(run(&g, found), Tensor::from(has));
    }
}

/// Adds an optional of these values.
fn optional<'g>(g: &'g Graph, values: &[Output<'g>]) -> Output<'g> {
    g.op("OptionalFromValue")
        .inputs(values.iter().copied())
        .output()
}

/// Runs the two values of an optional: a float and a variant.
fn values_of(g: &Graph, optional: Output<'_>, types: &[DType]) -> Result<Vec<Tensor>, String> {
    let values = g.op("OptionalGetValue").input(optional);
    let shapes = vec![Shape::unknown(); types.len()];
    let values = values.attr("output_types", types.to_vec());
    let values = values.attr("output_shapes", shapes).outputs();
    let floats: Vec<_> = values
        .into_iter()
        .filter(|v| v.dtype() == DType::F32)
        .collect();
    let session = Session::new(g).map_err(|e| e.to_string())?;
    let fetched = session
        .step(floats.clone(), [])
        .map_err(|e| e.to_string())?;
    Ok((0..floats.len())
        .map(|i| fetched.tensor(i).unwrap().clone())
        .collect())
}

/// TensorFlow 2.21: `ZerosLike` of `OptionalFromValue([5., 6.])` is `[0., 0.]`, `AddN` of those of 2. and 3. is 5.,
/// `ZerosLike` of `OptionalNone` has no value.
#[test]
fn optionals_have_zeros_and_sums_whatever_they_hold() {
    let g = Graph::new();
    let number = g.constant([5.0f32, 6.0]);
    let list = g
        .op("TensorListFromTensor")
        .input(g.constant([[1.0f32], [2.0]]));
    let list = list.input(g.constant([1i32])).output();
    let inner = optional(&g, &[number]);
    let types = [DType::F32, DType::Variant, DType::Variant];
    let outer = optional(&g, &[number, inner, list]);
    let zeros = g.op("ZerosLike").input(outer).output();
    let twice = g.op("AddN").inputs([outer, outer]).output();
    for (optional, wanted) in [(zeros, [0.0f32, 0.0]), (twice, [10.0, 12.0])] {
        assert_eq!(
            values_of(&g, optional, &types).unwrap(),
            [Tensor::from(wanted)]
        );
        // Those within: the optional's number, and the list's elements.
        let parts = g.op("OptionalGetValue").input(optional);
        let parts = parts.attr("output_types", types.to_vec());
        let parts = parts
            .attr("output_shapes", vec![Shape::unknown(); 3])
            .outputs();
        assert_eq!(
            values_of(&g, parts[1], &[DType::F32]).unwrap(),
            [Tensor::from(wanted)]
        );
        let stacked = g
            .op("TensorListStack")
            .input(parts[2])
            .input(g.constant([1i32]));
        let stacked = stacked.attr("element_dtype", DType::F32).output();
        let factor = wanted[0] / 5.0;
        assert_eq!(run(&g, stacked), Tensor::from([[factor], [2.0 * factor]]));
    }

    let none = g.op("OptionalNone").output();
    let zeros = g.op("ZerosLike").input(none).output();
    let none_twice = g.op("AddN").inputs([none, none]).output();
    for optional in [zeros, none_twice] {
        let has = g.op("OptionalHasValue").input(optional).output();
        assert_eq!(run(&g, has), Tensor::from(false));
    }
    let pair = optional(&g, &[number, number]);
    for (other, why) in [
        (none, "one without cannot be added"),
        (pair, "of 1 and of 2 values"),
        (list, "only lists, maps, optionals and sparse matrices"),
    ] {
        let sum = g.op("AddN").inputs([inner, other]).output();
        let error = values_of(&g, sum, &[DType::F32]).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn zeros_of_strings_are_empty() {
    let g = Graph::new();
    let words = g.constant(Tensor::strings(&[2], &["a", "b"]).unwrap());
    let zeros = g.op("ZerosLike").input(words).output();
    assert_eq!(run(&g, zeros), Tensor::strings(&[2], &["", ""]).unwrap());
}

/// TensorFlow: `TensorArray(tf.float32, 2, infer_shape=True).write(0, [1., 2.]).stack()` is `[[1, 2], [0, 0]]`.
#[test]
fn an_element_that_was_never_written_is_zeros_in_the_shape_of_the_others() {
    let g = Graph::new();
    let stacked = |identical: bool| {
        let array = g.op("TensorArrayV3").input(g.constant(2i32));
        let array = array.attr("dtype", DType::F32);
        let array = array.attr("identical_element_shapes", identical).build();
        let write = g.op("TensorArrayWriteV3").input(array.output(0));
        let write = write
            .input(g.constant(0i32))
            .input(g.constant([1.0f32, 2.0]));
        let flow = write.input(array.output(1)).output();
        let gather = g.op("TensorArrayGatherV3").input(array.output(0));
        let gather = gather.input(g.constant([0i32, 1])).input(flow);
        gather.attr("dtype", DType::F32).output()
    };
    assert_eq!(
        run(&g, stacked(true)),
        Tensor::from([[1.0f32, 2.0], [0.0, 0.0]])
    );
    let error = Session::new(&g)
        .unwrap()
        .step(stacked(false), [])
        .unwrap_err();
    assert!(
        error.to_string().contains("its shape is not known"),
        "{error}"
    );
}

#[test]
fn an_empty_list_is_concatenated_if_the_rows_of_an_element_are_known() {
    let g = Graph::new();
    let concat = |dims: &[i32]| {
        let dims = g.constant(dims.to_vec());
        let list = g.op("EmptyTensorList").input(dims);
        let list = list.input(g.constant(-1i32));
        let list = list.attr("element_dtype", DType::F32).output();
        let all = g.op("TensorListConcatV2").input(list).input(dims);
        let all = all.input(g.constant(Vec::<i64>::new()));
        all.attr("element_dtype", DType::F32).build().output(0)
    };
    for dims in [[5, 2], [-1, 2]] {
        assert_eq!(run(&g, concat(&dims)).dims(), [0, 2], "{dims:?}");
    }
    for (dims, expected) in [
        (
            &[2, -1][..],
            "All except the first dimension must be fully defined",
        ),
        (&[], "Concat requires elements to be at least vectors"),
    ] {
        let session = Session::new(&g).unwrap();
        let error = session.run::<Tensor>(concat(dims), []).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
