//! Shapes that are computed from another shape of which some dimensions are unknown: known as far as TensorFlow knows them.

use thalweg::prelude::*;

/// A vector of numbers of a shape, as programs stack them.
fn stacked<'g>(parts: &[Output<'g>]) -> Output<'g> {
    let g = parts[0].graph();
    let pack = g.op("Pack").inputs(parts.iter().copied());
    pack.attr("axis", 0).output()
}

/// `tf.shape(x)`.
fn shape_of(x: Output<'_>) -> Output<'_> {
    x.graph().op("Shape").input(x).output()
}

fn reshaped<'g>(x: Output<'g>, to: Output<'g>) -> Shape {
    x.graph().op("Reshape").input(x).input(to).output().shape()
}

#[test]
fn shapes_are_inferred_in_part_as_by_tensorflow() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 4, 4, 16]);
    let s = shape_of(x);
    let (batch, rows) = (s.at(0), s.at(1));
    let n = |n: i32| g.constant(n);
    let concat = |a, b| g.concat(&[a, b], 0);
    // Shapes that tf.reshape, tf.fill and tf.broadcast_to of TensorFlow 2.21 infer.
    for (found, expected) in [
        (reshaped(x, stacked(&[batch, n(256)])), [-1, 256].into()),
        (reshaped(x, stacked(&[batch, n(-1)])), [-1, -1].into()),
        (
            reshaped(x, stacked(&[batch * 1, n(16), n(16)])),
            [-1, 16, 16].into(),
        ),
        (
            reshaped(x, concat(s.at(..1), g.constant([256i32]))),
            [-1, 256].into(),
        ),
        (
            reshaped(x, concat(s.at(..2), g.constant([64i32]))),
            [-1, 4, 64].into(),
        ),
        (
            g.op("Fill")
                .input(stacked(&[batch, n(7)]))
                .input(g.constant(0.0f32))
                .output()
                .shape(),
            [-1, 7].into(),
        ),
        (
            g.op("Fill")
                .input(stacked(&[batch, rows, n(3)]))
                .input(g.constant(0.0f32))
                .output()
                .shape(),
            [-1, 4, 3].into(),
        ),
        (
            reshaped(
                x,
                stacked(&[batch.cast(DType::I64), g.constant(256i64)]).cast(DType::I32),
            ),
            [-1, 256].into(),
        ),
        (
            g.op("BroadcastTo")
                .input(g.constant([0.0f32; 10]))
                .input(stacked(&[batch, n(10)]))
                .output()
                .shape(),
            [-1, 10].into(),
        ),
    ] {
        let expected: Shape = expected;
        assert_eq!(found, expected);
    }
    let each = g.op("Unpack").input(s).attr("num", 4).build();
    let shape = stacked(&[each.output(0), each.output(3), n(16)]);
    assert_eq!(reshaped(x, shape), Shape::from([-1, 16, 16]));
    // A single unknown dimension follows from the number of elements.
    let known = g.placeholder("known", DType::F32, [6, 2]);
    let rows = g.placeholder("rows", DType::I32, []);
    assert_eq!(reshaped(known, stacked(&[rows, n(3)])), Shape::from([4, 3]));
    assert!(g.errors().is_empty(), "{:?}", g.errors());
}

#[test]
fn a_layer_behind_a_computed_shape_knows_its_width_and_runs() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 2, 3]);
    let batch = shape_of(x).at(0);
    let flat = g
        .op("Reshape")
        .input(x)
        .input(stacked(&[batch, g.constant(6i32)]))
        .output();
    let y = thalweg::layers::dense(4).on(flat);
    assert_eq!(y.shape(), Shape::from([-1, 4]));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for rows in [1, 5, 0] {
        let value = Tensor::zeros(DType::F32, &[rows, 2, 3]).unwrap();
        let found: Tensor = session.run(y, [x.feed(value)]).unwrap();
        assert_eq!(found.dims(), [rows, 4]);
    }
}

#[test]
fn wrong_elements_of_a_shape_are_errors_where_they_are_known() {
    for (columns, reason) in [(-3, "only -1 may be"), (5, "keeps the number of elements")] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [6, 2]);
        let rows = g.placeholder("rows", DType::I32, []);
        reshaped(x, stacked(&[rows, g.constant(columns)]));
        let errors = g.errors();
        assert_eq!(errors.len(), 1, "{columns}");
        assert!(errors[0].to_string().contains(reason), "{}", errors[0]);
    }
}

#[test]
fn elements_of_a_shape_do_not_hold_in_a_loop_that_changes_it() {
    let g = Graph::new();
    let n = g.placeholder("n", DType::I32, []);
    let x = g.placeholder("x", DType::F32, [-1, 4]);
    let start = [g.constant(0i32), shape_of(x)];
    let last = g.while_loop(
        &start,
        |_, v| v[0].less(n),
        |body, v| vec![v[0] + body.constant(1i32), v[1] + body.constant(1i32)],
    );
    let filled = g
        .op("Fill")
        .input(last[1])
        .input(g.constant(1.0f32))
        .output();
    let session = Session::new(&g).unwrap();
    let value = Tensor::zeros(DType::F32, &[2, 4]).unwrap();
    let found: Tensor = session.run(filled, [x.feed(value), n.feed(3)]).unwrap();
    assert_eq!(found.dims(), [5, 7]);
}
