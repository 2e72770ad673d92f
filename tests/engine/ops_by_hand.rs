//! Ops without a case in TensorFlow's table, compared with values worked out by hand.

use thalweg::device::Files;
use thalweg::graph::NodeBuilder;
use thalweg::prelude::*;
use thalweg_tests::folders::Folder;

/// The outputs of a node.
fn run(g: &Graph, node: NodeBuilder<'_>) -> Vec<Tensor> {
    let id = node.build().id();
    let outputs = g.operation(id).outputs();
    Session::new(g).unwrap().run(&outputs, []).unwrap()
}

#[test]
fn floor_is_the_integer_below() {
    let g = Graph::new();
    let x = g.constant([1.5f32, -1.5, 2.0, -0.0]);
    assert_eq!(
        run(&g, g.op("Floor").input(x)),
        [Tensor::from([1.0f32, -2.0, 2.0, -0.0])]
    );
}

#[test]
fn older_op_names_match_newer_ones() {
    let g = Graph::new();
    let x = g.constant([[7.0f32, -3.0], [0.5, 2.0]]);
    let y = g.constant([2.0f32, -4.0]);
    let of = |op: &str| run(&g, g.op(op).input(x).input(y));
    assert_eq!(of("Add"), of("AddV2"));
    assert_eq!(of("Div"), of("RealDiv"));
    assert_eq!(of("Div"), [Tensor::from([[3.5f32, 0.75], [0.25, -0.5]])]);
}

#[test]
fn pack_and_unpack_are_inverse() {
    let g = Graph::new();
    let (a, b) = (g.constant([1i64, 2, 3]), g.constant([4i64, 5, 6]));
    let pack = |axis: i64| g.op("Pack").input(a).input(b).attr("axis", axis);
    let rows = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    let columns = Tensor::from([[1i64, 4], [2, 5], [3, 6]]);
    for (axis, packed) in [(0, &rows), (-2, &rows), (1, &columns), (-1, &columns)] {
        assert_eq!(run(&g, pack(axis)), *std::slice::from_ref(packed));
        let value = g.constant(packed);
        let unpack = g
            .op("Unpack")
            .input(value)
            .attr("axis", axis)
            .attr("num", 2i64);
        assert_eq!(
            run(&g, unpack),
            [Tensor::from([1i64, 2, 3]), Tensor::from([4i64, 5, 6])]
        );
    }
    assert!(pack(2).build().is_invalid() && pack(-3).build().is_invalid());
}

#[test]
fn segment_sums_skip_negative_ids() {
    let g = Graph::new();
    let x = g.constant([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]);
    let ids = g.placeholder("ids", DType::I32, [4]);
    let n = g.constant(4i32);
    let sums = g
        .op("UnsortedSegmentSum")
        .input(x)
        .input(ids)
        .input(n)
        .output();
    let session = Session::new(&g).unwrap();
    let got = session.step(sums, [ids.feed([3i32, 0, -1, 3])]).unwrap();
    assert_eq!(
        *got.tensor(0).unwrap(),
        Tensor::from([[3.0f32, 4.0], [0.0, 0.0], [0.0, 0.0], [8.0, 10.0]])
    );
    let e = session.step(sums, [ids.feed([0i32, 0, 0, 4])]).unwrap_err();
    assert!(e.to_string().contains("element 3"), "{e}");
    session.step(sums, [ids.feed([0i32, 0, 0, 3])]).unwrap();
}

/// More outputs than a word has bits.
#[test]
fn a_node_may_have_a_hundred_outputs() {
    let g = Graph::new();
    let all: Vec<i32> = (0..100).collect();
    let x = g.placeholder("x", DType::I32, [100]);
    let split = g
        .op("Split")
        .input(g.constant(0i32))
        .input(x)
        .attr("num_split", 100i64);
    let outputs = split.build().outputs();
    let session = Session::new(&g).unwrap();
    let got = session.step(&outputs, [x.feed(all)]).unwrap();
    for i in 0..100 {
        assert_eq!(got.scalar::<i32>(i).unwrap(), i as i32);
    }
}

#[test]
fn a_destroyed_variable_has_no_value_until_assigned() {
    let g = Graph::new();
    let v = g.variable("v", Tensor::from([1.0f32, 2.0]));
    let destroy = g.op("DestroyResourceOp").input(v.handle()).build();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(destroy, []).unwrap();
    let error = session.step(v.value(), []).unwrap_err().to_string();
    assert!(error.contains("uninitialized value v"), "{error}");
    session.run(g.initializers(), []).unwrap();
    let got = session.step(v.value(), []).unwrap();
    assert_eq!(*got.tensor(0).unwrap(), Tensor::from([1.0f32, 2.0]));
}

#[test]
fn a_counter_ends_at_its_limit_with_an_error_that_names_it() {
    let g = Graph::new();
    let v = g.variable("v", Tensor::scalar(3i64));
    let count = g.op("ResourceCountUpTo").input(v.handle());
    let count = count.attr("limit", 5i64).attr("T", DType::I64).output();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for expected in [3i64, 4] {
        let got: i64 = session.run(count, []).unwrap();
        assert_eq!(got, expected);
    }
    let error = session.step(count, []).unwrap_err().to_string();
    assert!(error.contains("Reached limit of 5"), "{error}");
}

#[test]
fn an_index_out_of_a_variables_range_is_named_and_nothing_is_updated() {
    let g = Graph::new();
    let v = g.variable("v", Tensor::from([[1.0f32], [2.0]]));
    let indices = g.constant([0i32, 2]);
    let updates = g.constant([[5.0f32], [6.0]]);
    let update = g.op("ResourceScatterAdd").input(v.handle());
    let update = update.input(indices).input(updates).build();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let error = session.step(update, []).unwrap_err().to_string();
    assert!(error.contains("index 2 is not within 0..2"), "{error}");
    let got = session.step(v.value(), []).unwrap();
    assert_eq!(*got.tensor(0).unwrap(), Tensor::from([[1.0f32], [2.0]]));
}

#[test]
fn an_assertion_that_fails_shows_its_data_as_tensorflow_does() {
    let g = Graph::new();
    let text = Tensor::strings(&[2], &["a\n", "b\""]).unwrap();
    let x = Tensor::new(&[2, 3], &[0.0f32, 1.0 / 3.0, 2.0 / 3.0, 1.0, 4.0, 5.0]).unwrap();
    let cube = Tensor::new(&[2, 3, 4], &[7i32; 24]).unwrap();
    let condition = g.constant(false);
    let assert = |most: i64, data: Tensor| {
        let node = g.op("Assert").input(condition).input(g.constant(data));
        let node = node.attr("summarize", most).build();
        let error = Session::new(&g).unwrap().run(node, []).unwrap_err();
        error.to_string()
    };
    for (most, data, expected) in [
        (
            4,
            x,
            "assertion failed: [[0 0.333333343 0.666666687][1...]...]",
        ),
        (5, cube, "assertion failed: [[[7 7 7 7][7...]]...]"),
        (-1, text, r#"assertion failed: [a\n b\"]"#),
        (3, Tensor::scalar(5.5f64), "assertion failed: [5.5]"),
    ] {
        let found = assert(most, data);
        assert!(found.contains(expected), "{found} in place of {expected}");
    }
}

#[test]
fn a_summary_of_a_tensor_has_the_name_of_its_node() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    let got = run(&g, g.op("TensorSummary").input(x).name("T"));
    let expected = b"\n\x17:\x01TB\x12\x08\x01\x12\x04\x12\x02\x08\x02\"\x08\0\0\x80?\0\0\0@";
    assert_eq!(got, [Tensor::strings(&[], &[&expected[..]]).unwrap()]);
}

#[test]
fn row_shapes_of_an_unshaped_variable_follow_its_value() {
    let g = Graph::new();
    let handle = g.op("VarHandleOp").attr("dtype", DType::F32).output();
    let assign = |rows: Tensor| {
        let value = g.constant(rows);
        g.op("AssignVariableOp").input(handle).input(value).build()
    };
    let two = assign(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
    let three = assign(Tensor::from([[5.0f32], [6.0], [7.0]]));
    let rows = g.op("ResourceGather").input(handle);
    let rows = rows.input(g.constant([1i32, 0])).attr("dtype", DType::F32);
    let rows = rows.output();
    let session = Session::new(&g).unwrap();
    for (assign, expected) in [
        (two, Tensor::from([[3.0f32, 4.0], [1.0, 2.0]])),
        (three, Tensor::from([[6.0f32], [5.0]])),
    ] {
        session.run(assign, []).unwrap();
        let got = session.step(rows, []).unwrap();
        assert_eq!(*got.tensor(0).unwrap(), expected);
    }
}

#[test]
fn variables_hold_strings() {
    let g = Graph::new();
    let words = Tensor::strings(&[2], &["a", "bc"]).unwrap();
    let v = g.variable("v", words.clone());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let got = session.step(v.value(), []).unwrap();
    assert_eq!(*got.tensor(0).unwrap(), words);
}

/// TensorFlow has removed the older op, which took the sample rate as an attribute.
#[test]
fn both_summaries_of_sounds_write_the_same() {
    let g = Graph::new();
    let sounds = g.constant([[0.0f32, 0.5, -2.0], [1.0, -1.0, 0.25]]);
    let old = g.op("AudioSummary").input(g.constant("t")).input(sounds);
    let old = old.attr("sample_rate", 8000.0f32).output();
    let new = g.op("AudioSummaryV2").input(g.constant("t")).input(sounds);
    let new = new.input(g.constant(8000.0f32)).output();
    let fetched = Session::new(&g).unwrap().step([old, new], []).unwrap();
    assert_eq!(fetched.tensor(0).unwrap(), fetched.tensor(1).unwrap());
    let wrong = g.op("AudioSummaryV2").input(g.constant("t")).input(sounds);
    let wrong = wrong.input(g.constant(0.0f32)).output();
    let error = Session::new(&g).unwrap().step(wrong, []).unwrap_err();
    assert!(error.to_string().contains("0 is no sample rate"), "{error}");
}

#[test]
fn noise_around_a_glimpse_has_the_range_or_the_mean_of_the_image() {
    let g = Graph::new();
    // Channel 0 is -1 and 1, channel 1 is 100 everywhere.
    let pixels: Vec<f32> = (0..64).flat_map(|i| [[-1.0, 1.0][i % 2], 100.0]).collect();
    let images = g.constant(Tensor::new(&[1, 8, 8, 2], &pixels).unwrap());
    let (size, offsets) = (g.constant([60i32, 50]), g.constant([[9.0f32, 9.0]]));
    for (noise, uniform) in [
        ("uniform", true),
        ("", true),
        ("gaussian", false),
        ("", false),
    ] {
        let node = g
            .op("ExtractGlimpse")
            .input(images)
            .input(size)
            .input(offsets);
        let node = node.attr("uniform_noise", uniform).attr("noise", noise);
        let outputs = g.operation(node.build().id()).outputs();
        let session = Session::new(&g).unwrap();
        let first: Vec<Tensor> = session.run(&outputs, []).unwrap();
        let values = first[0].as_slice::<f32>().unwrap();
        let channel = |k: usize| values.iter().skip(k).step_by(2).copied();
        let mean = |k| channel(k).sum::<f32>() / 3000.0;
        let most = if uniform { 100.0 } else { 1.0 };
        assert!(
            channel(0).all(|v| (-1.0..=most).contains(&v)),
            "{noise} {uniform}"
        );
        match uniform {
            true => assert!((mean(0) - 49.5).abs() < 5.0 && (mean(1) - 49.5).abs() < 5.0),
            false => assert!(mean(0).abs() < 0.1 && channel(1).all(|v| v == 100.0)),
        }
        let second: Vec<Tensor> = session.run(&outputs, []).unwrap();
        assert_ne!(second, first);
    }
}

#[test]
fn glimpses_of_two_kinds_of_noise_or_of_other_counts_are_errors() {
    let g = Graph::new();
    let images = g.constant(Tensor::zeros(DType::F32, &[2, 3, 3, 1]).unwrap());
    let refused = |size: [i32; 2], offsets: &[[f32; 2]], noise: &str| {
        let offsets: Vec<f32> = offsets.concat();
        let offsets = g.constant(Tensor::new(&[offsets.len() / 2, 2], &offsets).unwrap());
        let node = g
            .op("ExtractGlimpseV2")
            .input(images)
            .input(g.constant(size));
        node.input(offsets)
            .attr("noise", noise)
            .build()
            .is_invalid()
    };
    let two = [[0.0f32; 2]; 2];
    assert!(!refused([1, 1], &two, "uniform"));
    assert!(refused([1, 1], &two, "zero") && refused([1, 1], &two, "pink"));
    assert!(refused([1, 1], &two[..1], "uniform"));
    assert!(refused([-1, 1], &two, "uniform"));
}

#[test]
fn a_glimpse_larger_than_memory_is_an_error() {
    let g = Graph::new();
    let images = g.constant(Tensor::zeros(DType::F32, &[1, 3, 3, 1]).unwrap());
    let (size, offsets) = (g.constant([i32::MAX; 2]), g.constant([[0.0f32, 0.0]]));
    let node = g.op("ExtractGlimpse").input(images).input(size);
    let glimpse = node.input(offsets).output();
    let ran: Result<Tensor, SessionError> = Session::new(&g).unwrap().run(glimpse, []);
    assert!(ran.is_err());
}

#[test]
fn older_names_of_decompositions_match_newer_ones() {
    let g = Graph::new();
    let a = g.constant([[[4.0f32, 1.0], [1.0, 3.0]], [[2.0, 0.5], [0.5, 5.0]]]);
    let b = g.constant([[[1.0f32], [2.0]], [[3.0], [-4.0]]]);
    let regularizer = g.constant(0.5f64);
    for (name, inputs) in [
        ("Cholesky", &[a][..]),
        ("CholeskyGrad", &[a, a]),
        ("MatrixInverse", &[a]),
        ("MatrixSolve", &[a, b]),
        ("MatrixTriangularSolve", &[a, b]),
        ("MatrixDeterminant", &[a]),
        ("SelfAdjointEigV2", &[a]),
        ("Svd", &[a]),
        ("MatrixSolveLs", &[a, b, regularizer]),
    ] {
        let of = |op: &str| run(&g, g.op(op).inputs(inputs.iter().copied()));
        let newer = of(name);
        assert_eq!(of(&format!("Batch{name}")), newer, "{name}");
        assert!(!newer.iter().all(Tensor::is_empty), "{name}");
    }
    let [e, v] = a.self_adjoint_eig();
    let both = Session::new(&g).unwrap().run([e, v], []).unwrap();
    for op in ["SelfAdjointEig", "BatchSelfAdjointEig"] {
        let rows = &run(&g, g.op(op).input(a))[0];
        assert_eq!(rows.dims(), [2, 3, 2]);
        for (i, matrix) in rows.as_slice::<f32>().unwrap().chunks_exact(6).enumerate() {
            let of = |t: &Tensor, n: usize| t.as_slice::<f32>().unwrap()[i * n..][..n].to_vec();
            assert_eq!(matrix, [of(&both[0], 2), of(&both[1], 4)].concat());
        }
    }
}

#[test]
fn a_timestamp_is_that_of_the_step() {
    let seconds = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_secs_f64()
    };
    let g = Graph::new();
    let before = seconds();
    let found = run(&g, g.op("Timestamp"))[0].to_scalar::<f64>().unwrap();
    assert!((before..=seconds()).contains(&found), "{found}");
}

#[test]
fn print_v2_appends_to_a_file_of_the_session() {
    let folder = Folder::new("printed");
    let path = folder.path().join("lines.txt");
    let g = Graph::new();
    let print = |path: &str, text: &str, end: &str| {
        let text = g.constant(Tensor::strings(&[], &[text]).unwrap());
        let node = g.op("PrintV2").input(text).attr("end", end);
        let node = node.attr("output_stream", format!("file://{path}"));
        node.build()
    };
    let here = path.to_str().unwrap();
    let (first, second) = (print(here, "one", "\n"), print(here, "two", ";"));
    let outside = print("/etc/lines.txt", "three", "");
    let options = SessionOptions::new().files(Files::within([folder.path()]).unwrap());
    let session = Session::with_options(&g, options).unwrap();
    session.run(first, []).unwrap();
    session.run(second, []).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo;");
    let error = session.run(outside, []).unwrap_err();
    assert!(error.to_string().contains("/etc/lines.txt"), "{error}");
}

#[test]
fn a_pattern_with_a_comment_replaces_and_is_compiled_once_for_a_session() {
    let g = Graph::new();
    let texts = g.placeholder("texts", DType::String, [2]);
    let pattern = g.constant(Tensor::strings(&[], &["(?x)a+ # letters"]).unwrap());
    let rewrite = g.constant(Tensor::strings(&[], &["-"]).unwrap());
    let node = g.op("RegexReplace").input(texts).input(pattern);
    let replaced = node.input(rewrite).output();
    let session = Session::new(&g).unwrap();
    for (given, expected) in [(["baab", "c"], ["b-b", "c"]), (["a", "ada"], ["-", "-d-"])] {
        let given = Tensor::strings(&[2], &given).unwrap();
        let found: Tensor = session.run(replaced, [texts.feed(given)]).unwrap();
        assert_eq!(found, Tensor::strings(&[2], &expected).unwrap());
    }
}
