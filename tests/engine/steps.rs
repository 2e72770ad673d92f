//! Steps of a session: fetches, feeds, variables, control dependencies.

use thalweg::prelude::*;

fn run<'g>(g: &'g Graph, fetch: Output<'g>) -> f32 {
    let session = Session::new(g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.step(fetch, []).unwrap().scalar(0).unwrap()
}

#[test]
fn a_step_computes_fetches_from_feeds() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let w = g.variable("w", 2.0f32);
    let y = x * w + 1.0;
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for i in 0..3 {
        let got = session.step(y, [x.feed(i as f32)]).unwrap();
        assert_eq!(got.scalar::<f32>(0).unwrap(), 2.0 * i as f32 + 1.0);
    }
}

#[test]
fn a_variable_is_read_before_it_is_updated() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let update = w.assign_add(w.value() * 10.0);
    let after = g.control_dependencies([update], || w.read());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let got = session.step((update, w, after), []).unwrap();
    assert_eq!(got.scalar::<f32>(1).unwrap(), 1.0);
    assert_eq!(got.scalar::<f32>(2).unwrap(), 11.0);
    assert_eq!(session.run::<f32>(w, []).unwrap(), 11.0);
}

#[test]
fn gradients_of_a_line_match_calculus() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let w = g.variable("w", 3.0f32);
    let loss = (x * w - 1.0).square();
    let dw = gradients(&[loss], &[w.handle()])[0].unwrap();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let got = session.step(dw, [x.feed(2.0f32)]).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 2.0 * (2.0 * 3.0 - 1.0) * 2.0);
}

#[test]
fn feeding_any_tensor_cuts_the_graph_there() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let inner = x.square();
    let y = inner + 1.0;
    let session = Session::new(&g).unwrap();
    let got = session.step(y, [inner.feed(5.0f32)]).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 6.0);
}

#[test]
fn constants_are_fetched_without_initialization() {
    let g = Graph::new();
    let y = (g.constant(2.0f32) + 3.0) * 4.0;
    assert_eq!(run(&g, y), 20.0);
}

#[test]
fn a_constant_may_wait_for_an_update() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let update = w.assign_add(g.constant(1.0f32));
    let late = g.control_dependencies([update], || g.constant(5.0f32));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    assert_eq!(session.run::<f32>(late, []).unwrap(), 5.0);
    assert_eq!(session.run::<f32>(w, []).unwrap(), 2.0);
}

/// An update that was built first does not run before a read that waits for another update.
#[test]
fn reads_that_wait_for_other_updates_precede_their_own() {
    let g = Graph::new();
    let a = g.variable("a", 1.0f32);
    let b = g.variable("b", 1.0f32);
    let to_a = a.assign_add(g.constant(10.0f32));
    let to_b = b.assign_add(g.constant(10.0f32));
    let (old_a, new_b) = g.control_dependencies([to_b], || (a.read(), b.read()));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let got = session.step((old_a, new_b, to_a, to_b), []).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 1.0);
    assert_eq!(got.scalar::<f32>(1).unwrap(), 11.0);
    assert_eq!(session.run::<f32>(a, []).unwrap(), 11.0);
}

#[test]
fn users_of_a_constant_inherit_its_control_dependencies() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let update = w.assign_add(1.0f32);
    let late = g.control_dependencies([update], || g.constant(2.0f32));
    let product = late * g.constant(3.0f32);
    let x = g.placeholder("x", DType::F32, []);
    let ones = g.op("OnesLike").input((late * x).square()).output();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for i in 0..3 {
        let got = session.step(product, []).unwrap();
        assert_eq!(got.scalar::<f32>(0).unwrap(), 6.0);
        let got = session.step(ones, [x.feed(3.0f32)]).unwrap();
        assert_eq!(got.scalar::<f32>(0).unwrap(), 1.0);
        let now = session.run::<f32>(w, []).unwrap();
        assert_eq!(now, 3.0 + 2.0 * i as f32);
    }
}

#[test]
fn control_inputs_without_effects_do_not_run() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let w = g.variable("w", [1.0f32, 2.0]);
    // As in TensorFlow's gradients: each waits for the other gradients of its op.
    let wanted = x.square();
    let beside = g.op("Exp").input(x * 2.0).name("beside").output();
    let together = g.control_dependencies([wanted.operation(), beside.operation()], || {
        g.op("NoOp").build()
    });
    let update = g.control_dependencies([together], || w.assign_sub(wanted));
    // A node with an effect is waited for, although its dependents are not needed.
    let late = g.control_dependencies([update], || g.constant(1.0f32).square());
    let done = g.control_dependencies([late.operation()], || g.op("NoOp").build());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let feed = [x.feed(Tensor::from([3.0f32, 4.0]))];
    let plan = session.explain(done, &feed).unwrap();
    assert!(!plan.contains("beside"), "{plan}");
    session.run(done, &feed).unwrap();
    let now = session.step(w, []).unwrap();
    assert_eq!(now.slice::<f32>(0).unwrap(), [-8.0, -14.0]);
    // Fetched, it runs.
    let plan = session.explain((done, beside), &feed).unwrap();
    assert!(plan.contains("beside"), "{plan}");
}

#[test]
fn dependents_of_a_reference_alias_inherit_its_control_dependencies() {
    let g = Graph::new();
    let shape = ("shape", thalweg::graph::Attr::Shape(Shape::scalar()));
    let v = g.op("VariableV2").attr("dtype", DType::F32);
    let v = v.attr(shape.0, shape.1).output();
    let init = g.op("Assign").input(v).input(g.constant(5.0f32)).build();
    let w = g.variable("w", 0.0f32);
    let add = w.assign_add(1.0f32);
    let seen = g.control_dependencies([add], || g.op("Identity").input(v).output());
    let done = g.control_dependencies([seen.operation()], || g.op("NoOp").build());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(init, []).unwrap();
    session.run(done, []).unwrap();
    session.run(seen.operation(), []).unwrap();
    assert_eq!(session.run::<f32>(w, []).unwrap(), 2.0);
    assert_eq!(session.run::<f32>(seen, []).unwrap(), 5.0);
}
