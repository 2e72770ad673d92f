//! Invalid values, sizes and limits of a step: typed errors, and the session remains usable.

use std::time::Duration;

use thalweg::ops::NnOps;
use thalweg::prelude::*;
use thalweg::session::Feed;

/// Returns the error of a step, and checks that the session still works after it.
fn error<'g>(session: &Session<'g>, fetch: Output<'g>, feeds: &[Feed<'g>]) -> SessionError {
    let error = session.step(fetch, feeds).unwrap_err();
    let sound = session.graph().constant(2.0f32) + 3.0;
    let got = session.step(sound, []).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 5.0);
    error
}

/// Asserts that a message contains all of these.
fn assert_contains(error: &SessionError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn a_label_out_of_range_names_the_element() {
    let g = Graph::new();
    let logits = g.constant([[1.0f32, 2.0, 3.0], [1.0, 2.0, 3.0]]);
    let labels = g.placeholder("labels", DType::I64, [-1]);
    let loss = logits.sparse_softmax_cross_entropy(labels);
    let session = Session::new(&g).unwrap();
    for wrong in [3i64, -1, i64::MAX, i64::MIN] {
        let e = error(&session, loss, &[labels.feed([0i64, wrong])]);
        assert!(matches!(e, SessionError::Kernel { .. }), "{e:?}");
        assert_contains(&e, &[&wrong.to_string(), "element 1", "value_errors.rs:"]);
    }
    let good = session.step(loss, [labels.feed([0i64, 2])]).unwrap();
    assert!(good.slice::<f32>(0).unwrap().iter().all(|l| l.is_finite()));
}

#[test]
fn an_empty_batch_gives_empty_results() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 3]);
    let w = g.variable("w", [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let y = g.op("MatMul").input(x).input(w).output().relu().softmax();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let none = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
    let got = session.step(y, [x.feed(none)]).unwrap();
    assert_eq!(got.tensor(0).unwrap().dims(), [0, 2]);
}

#[test]
fn a_non_finite_value_is_traced_to_its_first_node() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let big = (x * f64::from(f32::MAX)).named("big");
    let sum = (x + 1.0) * big;
    let loss = (sum - sum).named("loss");
    let session = Session::new(&g).unwrap();
    let options = RunOptions::new().checked();
    let run = |v: [f32; 2]| session.step_with(loss, [x.feed(v)], &options).map(drop);
    run([0.0, 0.5]).unwrap();
    let e = run([0.0, 3.0]).unwrap_err();
    let SessionError::NotFinite {
        op, element, value, ..
    } = &e
    else {
        panic!("{e:?}");
    };
    assert_eq!((op.as_str(), *element, *value), ("Mul", 1, f64::INFINITY));
    assert_contains(&e, &["element 1", "inf", "value_errors.rs:"]);
    // Without the check, the step succeeds.
    assert!(
        session
            .run::<Vec<f32>>(loss, [x.feed([0.0f32, 3.0])])
            .unwrap()[1]
            .is_nan()
    );
}

#[test]
fn timeouts_may_be_zero_or_unlimited() {
    let g = Graph::new();
    let y = g.placeholder("x", DType::F32, []) + 1.0;
    let session = Session::new(&g).unwrap();
    let x = g.find("x").unwrap().output(0);
    let run = |limit| session.step_with(y, [x.feed(1.0f32)], &RunOptions::new().timeout(limit));
    let e = run(Duration::ZERO).unwrap_err();
    assert!(matches!(e, SessionError::Timeout { .. }), "{e:?}");
    assert_contains(&e, &["AddV2"]);
    assert_eq!(run(Duration::MAX).unwrap().0.scalar::<f32>(0).unwrap(), 2.0);
}

#[test]
fn a_step_larger_than_the_address_space_is_an_error() {
    let g = Graph::new();
    let line = |i: usize| g.placeholder(&format!("line_{i}"), DType::F32, Shape::of_rank(4));
    let lines: Vec<Output<'_>> = (0..4).map(line).collect();
    let session = Session::new(&g).unwrap();
    // Lines of 2^20 elements along different axes: 2^60 elements, and 2^80, which overflows.
    let feed = |i: usize| {
        let mut dims = [1; 4];
        dims[i] = 1 << 20;
        lines[i].feed(Tensor::zeros(DType::F32, &dims).unwrap())
    };
    let feeds: Vec<Feed<'_>> = (0..4).map(feed).collect();
    let three = lines[0] * lines[1] * lines[2];
    let four = three * lines[3];
    // Kernels estimate the cost of functions of these shapes, and a chain estimates the cost of all of its pieces.
    let rows = g.op("LogSoftmax").input(four).output();
    let chain = ["Digamma", "Erf", "Lgamma"];
    let chain = chain.iter().fold(four, |x, op| g.op(op).input(x).output());
    for product in [three, four, -four, rows, chain] {
        let e = error(&session, product, &feeds);
        assert!(matches!(e, SessionError::Memory { .. }), "{e:?}");
        assert_contains(&e, &["Mul", "memory", "value_errors.rs:"]);
    }
}

#[test]
fn cost_estimates_of_huge_shapes_do_not_overflow() {
    for dims in [[1i64 << 58, 1], [1 << 62, 1], [1 << 40, 1 << 40]] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, dims);
        let rows = g.op("LogSoftmax").input(x).output();
        let functions = ["Digamma", "Erf", "Lgamma"];
        let chain = functions.iter().fold(x, |x, op| g.op(op).input(x).output());
        let session = Session::new(&g).unwrap();
        for y in [rows, chain] {
            for feeds in [vec![], vec![x.feed([[1.0f32]])]] {
                assert_contains(&error(&session, y, &feeds), &["'x", "value_errors.rs:"]);
            }
        }
    }
}

/// Products with a vector whose first element is zero: an infinite weight there makes NaN.
#[test]
fn an_infinite_weight_is_detected_whatever_writes_it() {
    const DIMS: [usize; 2] = [600, 100];
    let g = Graph::new();
    let mut x = vec![1.0f32; DIMS[0]];
    x[0] = 0.0;
    let mut row = vec![0.0f32; DIMS[1]];
    row[3] = f32::INFINITY;
    let mut bad = Tensor::zeros(DType::F32, &DIMS).unwrap();
    let good = bad.clone();
    bad.as_mut_slice::<f32>().unwrap()[3] = f32::INFINITY;

    let x = g.constant(Tensor::new(&[1, DIMS[0]], &x).unwrap());
    let w = g.variable("w", good.clone());
    let fed = g.placeholder("fed", DType::F32, DIMS.map(|d| d as i64));
    let products = [x.matmul(w), x.matmul(fed)];
    let scatter = |op| {
        let op = g.op(op).input(w.handle()).input(g.constant(0i32));
        op.input(g.constant(row.clone())).build()
    };
    let writes = [
        w.assign(fed),
        w.assign_add(fed),
        scatter("ResourceScatterUpdate"),
        scatter("ResourceScatterAdd"),
        GradientDescent::new(-1.0).apply_gradients(&g, &[(fed, w)], None),
    ];
    let reset = w.assign(g.constant(good.clone()));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let is_nan = |product, feed: &Tensor| {
        let got = session.step(product, [fed.feed(feed)]).unwrap();
        let got = got.slice::<f32>(0).unwrap();
        assert!(got[4..].iter().all(|&y| y == 0.0));
        got[3].is_nan()
    };
    for write in writes {
        (0..3).for_each(|_| assert!(!is_nan(products[0], &good)));
        session.run(write, [fed.feed(&bad)]).unwrap();
        (0..3).for_each(|_| assert!(is_nan(products[0], &good)));
        session.run(reset, []).unwrap();
    }
    // A feed that the user writes between steps.
    let mut feed = Tensor::zeros(DType::F32, &DIMS).unwrap();
    let place = feed.bytes().as_ptr();
    (0..3).for_each(|_| assert!(!is_nan(products[1], &feed)));
    feed.as_mut_slice::<f32>().unwrap()[3] = f32::NEG_INFINITY;
    assert_eq!(feed.bytes().as_ptr(), place);
    (0..3).for_each(|_| assert!(is_nan(products[1], &feed)));
}

/// A filter that is read often is cached in a transformed form; a write to it invalidates the cache.
#[test]
fn a_write_invalidates_the_cached_filter() {
    // Multiplied at points, and tap by tap.
    for (size, channels) in [(14, [32, 64]), (6, [5, 7])] {
        let g = Graph::new();
        let dims = [5, 5, channels[0], channels[1]];
        let values = |salt: usize| {
            let value = |i: usize| ((i * 31 + salt * 7) % 17) as f32 / 17.0 - 0.4;
            let values: Vec<f32> = (0..dims.iter().product()).map(value).collect();
            Tensor::new(&dims, &values).unwrap()
        };
        let image: Vec<f32> = (0..size * size * channels[0])
            .map(|i| (i % 13) as f32 / 13.0)
            .collect();
        let image = Tensor::new(&[1, size, size, channels[0]], &image).unwrap();
        let w = g.variable("w", values(0));
        let fed = g.placeholder("fed", DType::F32, dims.map(|d| d as i64));
        let conv = |f| {
            g.constant(image.clone())
                .conv2d(f, [1, 1], Padding::Same, DataFormat::Nhwc)
        };
        let (kept, plain) = (conv(w.value()), conv(fed));
        let momentum = Momentum::new(-0.5, 0.9);
        let writes = [
            w.assign(fed),
            w.assign_add(fed),
            GradientDescent::new(-1.0).apply_gradients(&g, &[(fed, w)], None),
            momentum.apply_gradients(&g, &[(fed, w)], None),
        ];
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let check = || {
            let f = session.step(w, []).unwrap();
            // A fresh copy has no cached form.
            let f = Tensor::new(&dims, f.slice::<f32>(0).unwrap()).unwrap();
            let [kept, plain] = [kept, plain].map(|y| {
                let y = session.step(y, [fed.feed(&f)]).unwrap();
                y.slice::<f32>(0).unwrap().to_vec()
            });
            assert_eq!(kept, plain, "{dims:?}");
        };
        (0..40).for_each(|_| check());
        for (i, write) in writes.into_iter().enumerate() {
            session.run(write, [fed.feed(values(i + 1))]).unwrap();
            (0..40).for_each(|_| check());
        }
    }
}

#[test]
fn as_string_limits_width_and_precision() {
    for (attr, style) in [
        ("width", "scientific"),
        ("precision", "scientific"),
        ("precision", "shortest"),
    ] {
        for (size, written) in [(65_000, true), (65_001, false), (65_536, false)] {
            let g = Graph::new();
            let x = g.constant([1e-4f64, -3.0]);
            let node = g.op("AsString").input(x).attr(attr, size as i64);
            let text = node.attr(style, true).output();
            match Session::new(&g).and_then(|s| s.run::<Tensor>(text, [])) {
                Ok(text) => {
                    assert!(written, "{attr} {style} {size}");
                    assert_eq!(text.dims(), [2]);
                }
                Err(error) => {
                    assert!(!written, "{attr} {style} {size}: {error}");
                    assert!(error.to_string().contains("use at most 65000"), "{error}");
                }
            }
        }
    }
}

#[test]
fn sparse_sets_are_checked() {
    let g = Graph::new();
    let indices = g.placeholder("indices", DType::I64, [-1, 2]);
    let values = g.placeholder("values", DType::I32, [-1]);
    let shape = g.placeholder("shape", DType::I64, [2]);
    let node = |op: &str, validate: bool| {
        let node = g.op(op).attr("validate_indices", validate);
        match op {
            "SetSize" => node,
            _ => node
                .attr("set_operation", "Union")
                .input(g.constant([[5i32, 5, 1], [9, 9, 9]])),
        }
        .input(indices)
        .input(values)
        .input(shape)
    };
    let session = Session::new(&g).unwrap();
    let feeds = |rows: &[[i64; 2]], dims: [i64; 2]| {
        [
            indices.feed(Tensor::new(&[rows.len(), 2], rows.as_flattened()).unwrap()),
            values.feed(vec![7i32; 2]),
            shape.feed(dims),
        ]
    };
    type Case<'a> = (&'a [[i64; 2]], [i64; 2], &'a str);
    let wrong: [Case<'_>; 6] = [
        (
            &[[0, 0], [2, 0]],
            [2, 3],
            "Index out of range: 2, expected < 2",
        ),
        (
            &[[0, 0], [1, -1]],
            [2, 3],
            "Index out of range: -1, expected < 3",
        ),
        (&[[1, 0], [0, 0]], [2, 3], "out of order"),
        (&[[0, 0], [0, 0]], [2, 3], "repeated"),
        (&[[0, 0]], [2, 3], "do not go with 2 values"),
        (&[[0, 0], [1, 0]], [-1, 3], "none negative"),
    ];
    for op in ["SetSize", "DenseToSparseSetOperation"] {
        let (strict, lenient) = (node(op, true).outputs(), node(op, false).outputs());
        for (rows, dims, part) in wrong {
            let e = error(&session, strict[0], &feeds(rows, dims));
            assert_contains(&e, &[part, "value_errors.rs:"]);
        }
        session
            .step(lenient[0], feeds(&[[1, 0], [0, 0]], [2, 3]))
            .unwrap();
        session
            .step(lenient[0], feeds(&[[0, 0], [0, 0]], [2, 3]))
            .unwrap();
        session
            .step(strict[0], feeds(&[[0, 0], [1, 0]], [2, 3]))
            .unwrap();
    }
    let union = node("DenseToSparseSetOperation", true).outputs();
    let e = error(&session, union[0], &feeds(&[[0, 0], [1, 0]], [3, 3]));
    assert_contains(&e, &["same dimensions before the last"]);
    let got = session.run(&union, feeds(&[[0, 0], [1, 0]], [2, 3]));
    let got: Vec<Tensor> = got.unwrap();
    let (members, shape) = (&got[1], &got[2]);
    assert_eq!(members.as_slice::<i32>().unwrap(), [1, 5, 7, 7, 9]);
    assert_eq!(shape.as_slice::<i64>().unwrap(), [2, 3]);
}
