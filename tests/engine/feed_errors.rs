//! Invalid feeds and fetches of a step: each is a typed error that names the node and gives advice, none is a panic,
//! and the session remains usable. Mistakes in building are in `graph_errors.rs`.

use thalweg::device::KernelError;
use thalweg::graph::Reason;
use thalweg::prelude::*;
use thalweg::session::{Feed, Fetch};

/// Returns the error of a step, and checks that the session still works after it.
fn error<'g>(
    session: &Session<'g>,
    fetch: impl thalweg::session::Fetches,
    feeds: &[Feed<'g>],
) -> SessionError {
    let error = session.step(fetch, feeds).unwrap_err();
    let g = session.graph();
    let sound = g.constant(2.0f32) + 3.0;
    assert_eq!(session.run::<f32>(sound, []).unwrap(), 5.0);
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
fn a_missing_feed_names_the_placeholder_and_its_line() {
    let g = Graph::new();
    let x = g.placeholder("pixels", DType::F32, [-1, 784]);
    let session = Session::new(&g).unwrap();
    let e = error(&session, x * 2.0, &[]);
    assert!(matches!(e, SessionError::MissingFeed { .. }), "{e:?}");
    assert_contains(
        &e,
        &[
            "'pixels'",
            "f32[?,784]",
            "tests/engine/feed_errors.rs:",
            "must be fed",
        ],
    );
}

#[test]
fn a_feed_of_a_wrong_dtype_or_shape_names_the_expected_one() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 2]);
    let session = Session::new(&g).unwrap();
    for wrong in [
        Tensor::from([[1.0f64, 2.0]]),
        Tensor::from([[1i32, 2]]),
        Tensor::from("one"),
        Tensor::from([1.0f32, 2.0]),
        Tensor::from([[1.0f32, 2.0, 3.0]]),
        Tensor::from(1.0f32),
    ] {
        let e = error(&session, x + 1.0, &[x.feed(wrong)]);
        assert!(matches!(e, SessionError::Feed { .. }), "{e:?}");
        assert_contains(&e, &["'x:0'", "f32[?,2]", "feed_errors.rs:"]);
    }
    let got = session.step(x + 1.0, [x.feed([[1.0f32, 2.0]])]).unwrap();
    assert_eq!(got.slice::<f32>(0).unwrap(), [2.0, 3.0]);
}

#[test]
fn a_feed_that_contradicts_another_is_an_error_of_the_node_between_them() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = g.placeholder("y", DType::F32, [-1]);
    let z = (x + y).named("z");
    let session = Session::new(&g).unwrap();
    let feeds = [x.feed([1.0f32, 2.0]), y.feed([1.0f32, 2.0, 3.0])];
    let e = error(&session, z, &feeds);
    assert!(matches!(e, SessionError::Graph { .. }), "{e:?}");
    assert_contains(&e, &["AddV2", "[2]", "[3]", "broadcast", "feed_errors.rs:"]);
}

#[test]
fn feeding_an_output_twice_is_an_error() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let session = Session::new(&g).unwrap();
    let e = error(&session, x + 1.0, &[x.feed(1.0f32), x.feed(2.0f32)]);
    assert!(matches!(e, SessionError::FedTwice { .. }), "{e:?}");
    assert_contains(&e, &["'x:0'", "twice"]);
}

#[test]
fn handles_cannot_be_fed_or_fetched() {
    let g = Graph::new();
    let w = g.variable("weight", 1.0f32);
    let session = Session::new(&g).unwrap();
    let e = error(&session, w.handle(), &[]);
    assert!(matches!(e, SessionError::Handle { .. }), "{e:?}");
    assert_contains(&e, &["'weight:0'", "value"]);
    let e = error(&session, w, &[w.handle().feed(1.0f32)]);
    assert!(matches!(e, SessionError::Handle { .. }), "{e:?}");
    assert_contains(&e, &["'weight:0'", "value"]);
}

#[test]
fn outputs_that_do_not_exist_are_errors() {
    let g = Graph::new();
    let x = g.constant(1.0f32);
    let session = Session::new(&g).unwrap();
    let beyond = x.operation().output(7);
    for e in [
        error(&session, beyond, &[]),
        error(&session, g.invalid(), &[]),
        error(&session, x, &[beyond.feed(1.0f32)]),
        error(&session, g.invalid().operation(), &[]),
    ] {
        assert!(matches!(e, SessionError::NoSuchOutput { .. }), "{e:?}");
    }
    assert!(
        session
            .callable(beyond, ())
            .and_then(|mut c| c.call(&[]).map(drop))
            .is_err()
    );
    assert!(session.callable(x, [beyond]).is_err());
}

#[test]
fn feeds_and_fetches_of_another_graph_are_rejected() {
    let (g, other) = (Graph::new(), Graph::new());
    let (x, stranger) = (g.constant(1.0f32), other.constant(1.0f32));
    let session = Session::new(&g).unwrap();
    let e = error(&session, (x, stranger), &[]);
    let said = "fetch 'Const:0' belongs to another graph than the session's: build both in one";
    assert!(matches!(e, SessionError::OtherGraph { .. }));
    assert_eq!(e.to_string(), said);
    let e = error(&session, x, &[stranger.feed(1.0f32)]);
    let said = "feed 'Const:0' belongs to another graph than the session's: build both in one";
    assert!(matches!(e, SessionError::OtherGraph { .. }));
    assert_eq!(e.to_string(), said);
    assert!(session.callable(stranger, ()).is_err());
    assert!(session.callable(x, [stranger]).is_err());

    // By numbers, which both graphs have.
    let (own, number, node) = (x.id(), stranger.id(), stranger.operation().id());
    let said = "fetch 'number 0' belongs to another graph than the session's: build both in one";
    let options = RunOptions::new();
    for e in [
        session.run::<f32>(number, []).unwrap_err(),
        session.run::<()>(node, []).unwrap_err(),
        session.callable(number, ()).map(drop).unwrap_err(),
        session
            .run_ids(&[Fetch::Value(number)], &[], &options)
            .map(drop)
            .unwrap_err(),
        session
            .run_ids(&[Fetch::Run(node)], &[], &options)
            .map(drop)
            .unwrap_err(),
    ] {
        assert!(matches!(e, SessionError::OtherGraph { .. }));
        assert_eq!(e.to_string(), said);
    }
    for e in [
        session.run::<f32>(own, [number.feed(1.0f32)]).unwrap_err(),
        session.callable(own, [number]).map(drop).unwrap_err(),
        session
            .run_ids(
                &[Fetch::Value(own)],
                &[(number, Tensor::from(1.0f32))],
                &options,
            )
            .map(drop)
            .unwrap_err(),
    ] {
        assert_eq!(e.to_string(), said.replace("fetch", "feed"));
    }
    assert_eq!(session.run::<f32>(own, []).unwrap(), 1.0);
    assert!(other.output(own).is_invalid() && other.operation(own.node).is_invalid());
    let errors = other.errors();
    let reasons: Vec<&Reason> = errors.iter().map(|e| &e.reason).collect();
    assert_eq!(reasons, [&Reason::NumberOfOtherGraph; 2]);
}

#[test]
fn an_uninitialized_variable_names_itself_and_the_initializers() {
    let g = Graph::new();
    let w = g.variable("weight", 1.0f32);
    let add = w.assign_add(g.constant(1.0f32));
    let session = Session::new(&g).unwrap();
    for e in [
        session.step(w, []).unwrap_err(),
        session.step(w * 2.0, []).unwrap_err(),
        session.step(add, []).unwrap_err(),
    ] {
        assert_contains(&e, &["uninitialized value weight", "initializers"]);
        let SessionError::Kernel { source, .. } = e else {
            panic!("{e:?}");
        };
        assert!(matches!(source, KernelError::Uninitialized { .. }));
    }
    session.run(g.initializers(), []).unwrap();
    assert_eq!(session.run::<f32>(w, []).unwrap(), 1.0);
}

#[test]
fn two_handles_of_one_variable_must_agree() {
    let g = Graph::new();
    let handle = |dtype: DType, dims: [i64; 1]| {
        let node = g.op("VarHandleOp").attr("shared_name", "shared");
        node.attr("dtype", dtype)
            .attr("shape", Shape::from(dims))
            .output()
    };
    let read = |h: Output<'_>, d: DType| {
        let id = g
            .op("ReadVariableOp")
            .input(g.output(h.id()))
            .attr("dtype", d)
            .output()
            .id();
        g.output(id)
    };
    let (a, b, c) = (
        handle(DType::F32, [2]),
        handle(DType::F64, [2]),
        handle(DType::F32, [3]),
    );
    let x = g.constant([1.0f32, 2.0]);
    let assign = g.op("AssignVariableOp").input(a).input(x).build();
    let session = Session::new(&g).unwrap();
    session.run(assign, []).unwrap();
    for wrong in [read(b, DType::F64), read(c, DType::F32)] {
        let e = error(&session, wrong, &[]);
        assert_contains(&e, &["shared", "f32[2]"]);
    }
    let got = session.step(read(a, DType::F32), []).unwrap();
    assert_eq!(got.slice::<f32>(0).unwrap(), [1.0, 2.0]);
}

#[test]
fn results_are_read_only_as_their_own_dtype() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0]);
    let w = g.variable("w", 1.0f32);
    let session = Session::new(&g).unwrap();
    let got = session.step((x, w.initializer()), []).unwrap();
    assert!(got.scalar::<f32>(0).is_err(), "two elements are no scalar");
    assert!(got.slice::<f64>(0).is_err(), "f32 is not f64");
    assert!(got.tensor(1).is_err(), "an operation has no value");
    assert!(got.tensor(2).is_err(), "only two things were fetched");
    assert_contains(&got.slice::<f64>(0).unwrap_err(), &["0", "f32"]);
}

#[test]
fn a_callable_rejects_a_wrong_number_of_feeds() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let session = Session::new(&g).unwrap();
    let mut step = session.callable(x + 1.0, [x]).unwrap();
    assert!(matches!(
        step.call(&[]).unwrap_err(),
        SessionError::FeedCount {
            expected: 1,
            found: 0
        }
    ));
    assert!(step.call(&[Tensor::from(1.0f32)]).is_err());
    assert!(step.call(&[Tensor::from([1.0f32])]).is_ok());
    // A value of the same shape and another dtype does not slip through a warm plan.
    let e = step.call(&[Tensor::from([1i32])]).unwrap_err();
    assert!(matches!(e, SessionError::Feed { .. }), "{e:?}");
    let got = step.call(&[Tensor::from([1.0f32, 2.0])]).unwrap();
    assert_eq!(got.tensor(0).unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0]);
}
