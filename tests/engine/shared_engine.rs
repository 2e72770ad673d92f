//! Sessions on one engine: shared variables and devices, separate random numbers.

use thalweg::prelude::*;
use thalweg::session::Engine;

/// A variable named `count`, and an op that adds one to it.
fn counter(g: &Graph) -> (Variable<'_>, Operation<'_>) {
    let count = g.variable("count", 0.0f32);
    (count, count.assign_add(1.0f32))
}

#[test]
fn sessions_of_one_engine_share_variables_by_name() {
    let (first, second) = (Graph::new(), Graph::new());
    let options = SessionOptions::default();
    let engine = Engine::new(&options).unwrap();
    let (_, add) = counter(&first);
    let (count, add_too) = counter(&second);
    let one = Session::on(engine.clone(), &first, options.clone()).unwrap();
    let two = Session::on(engine.clone(), &second, options.clone()).unwrap();
    one.run(first.initializers(), []).unwrap();
    one.run(add, []).unwrap();
    two.run(add_too, []).unwrap();
    assert_eq!(two.run::<f32>(count, []).unwrap(), 2.0);
    // An isolated session does not see or change the shared variables.
    let alone = Session::on(engine.isolated(), &second, options).unwrap();
    assert!(alone.step(count, []).is_err());
    alone.run(second.initializers(), []).unwrap();
    assert_eq!(two.run::<f32>(count, []).unwrap(), 2.0);
}

#[test]
fn a_cleared_container_has_no_variables() {
    let g = Graph::new();
    let options = SessionOptions::default();
    let engine = Engine::new(&options).unwrap();
    let (count, _) = counter(&g);
    let session = Session::on(engine.clone(), &g, options.clone()).unwrap();
    session.run(g.initializers(), []).unwrap();
    engine.store().clear("another");
    session.step(count, []).unwrap();
    engine.store().clear("");
    let next = Session::on(engine, &g, options).unwrap();
    let error = next.step(count, []).unwrap_err().to_string();
    assert!(error.contains("count"), "{error}");
}

#[test]
fn an_initializer_replaces_a_variable_of_another_shape() {
    let (first, second) = (Graph::new(), Graph::new());
    let options = SessionOptions::default();
    let engine = Engine::new(&options).unwrap();
    let small = first.variable("w", [1.0f32, 2.0]);
    let double = small.assign(small * 2.0);
    let large = second.variable("w", [5.0f32, 6.0, 7.0]);
    let one = Session::on(engine.clone(), &first, options.clone()).unwrap();
    let two = Session::on(engine, &second, options).unwrap();
    one.run(first.initializers(), []).unwrap();
    one.run(double, []).unwrap();
    let mut reading = one.callable(small, ()).unwrap();
    assert!(reading.call(&[]).is_ok());
    // Another step of the second program does not replace it.
    let error = two.step(large, []).unwrap_err().to_string();
    assert!(error.contains("holds f32[2]"), "{error}");
    two.run(second.initializers(), []).unwrap();
    assert_eq!(two.run::<Vec<f32>>(large, []).unwrap(), [5.0, 6.0, 7.0]);
    // Plans of the first program do not go on with a variable that nobody else sees.
    let error = one.run(double, []).unwrap_err().to_string();
    assert!(error.contains("holds f32[3]"), "{error}");
    let error = reading.call(&[]).err().unwrap().to_string();
    assert!(
        error.contains("was replaced by one of another shape"),
        "{error}"
    );
    one.run(first.initializers(), []).unwrap();
    assert_eq!(one.run::<Vec<f32>>(small, []).unwrap(), [1.0, 2.0]);
}

#[test]
fn each_session_draws_its_own_random_numbers() {
    let g = Graph::new();
    g.set_seed(7);
    let x = g.random_uniform([4i32], 0.0, 1.0, DType::F32, None);
    let options = SessionOptions::default();
    let engine = Engine::new(&options).unwrap();
    let draw = |session: &Session<'_>| {
        let fetched = session.step(g.output(x.id()), []).unwrap();
        fetched.slice::<f32>(0).unwrap().to_vec()
    };
    let one = Session::on(engine.clone(), &g, options.clone()).unwrap();
    let two = Session::on(engine, &g, options).unwrap();
    let (a, b) = (draw(&one), draw(&one));
    assert_ne!(a, b);
    assert_eq!(draw(&two), a);
}

#[test]
fn device_names_include_the_task() {
    let g = Graph::new();
    let x = g.device("/job:worker/task:3/cpu:1", || g.constant(2.0f32) * 3.0);
    let options = SessionOptions::new().cpus(2).task("worker", 3);
    let session = Session::with_options(&g, options).unwrap();
    let name = session.devices()[1].name().to_string();
    assert_eq!(name, "/job:worker/replica:0/task:3/device:CPU:1");
    assert_eq!(session.run::<f32>(x, []).unwrap(), 6.0);
    let elsewhere = g.device("/job:ps/task:0", || g.constant(1.0f32).square());
    assert!(session.step(elsewhere, []).is_err());
}

#[test]
fn sessions_release_idle_memory_for_each_other() {
    let (first, second) = (Graph::new(), Graph::new());
    // In the arena, for as long as a frame is kept.
    fn large(g: &Graph) -> Output<'_> {
        let dims = g.constant([1000i32, 250]);
        let x = g.op("Fill").input(dims).input(g.constant(1.5f32)).output();
        x.square().sqrt().sum()
    }
    let options = SessionOptions::new()
        .optimise(false)
        .default_memory_limit(1_500_000);
    let engine = Engine::new(&options).unwrap();
    let (x, y) = (large(&first), large(&second));
    let one = Session::on(engine.clone(), &first, options.clone()).unwrap();
    let two = Session::on(engine, &second, options).unwrap();
    for _ in 0..3 {
        one.step(x, []).unwrap();
        two.step(y, []).unwrap();
    }
}

#[test]
fn a_session_keeps_tensors_between_steps_and_others_do_not_see_them() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let keep = g.op("GetSessionHandle").input(x + 1.0).output();
    let handle = g.placeholder("handle", DType::String, Shape::scalar());
    let get = |dtype: DType| {
        let node = g.op("GetSessionTensor").input(handle);
        node.attr("dtype", dtype).output()
    };
    let (kept, as_ints) = (get(DType::F32), get(DType::I32));
    let delete = g.op("DeleteSessionTensor").input(handle).build();
    let options = SessionOptions::default();
    let engine = Engine::new(&options).unwrap();
    let session = Session::on(engine.clone(), &g, options.clone()).unwrap();
    let other = Session::on(engine, &g, options).unwrap();
    let mut handles = Vec::new();
    for first in [1.0f32, 5.0] {
        let got = session.step(keep, [x.feed([first, 2.0])]).unwrap();
        handles.push(got.tensor(0).unwrap().clone());
    }
    assert_ne!(
        handles[0].as_strings().unwrap(),
        handles[1].as_strings().unwrap()
    );
    // The values are unchanged by the steps between.
    for (of, first) in handles.iter().zip([2.0f32, 6.0]) {
        let got: Vec<f32> = session.run(kept, [handle.feed(of.clone())]).unwrap();
        assert_eq!(got, [first, 3.0]);
    }
    let error = |session: &Session<'_>, fetch: Output<'_>, of: &Tensor| {
        let error = session.step(fetch, [handle.feed(of.clone())]);
        error.unwrap_err().to_string()
    };
    let other_type = error(&session, as_ints, &handles[0]);
    assert!(
        other_type.contains("the value is of f32, and i32 is asked for"),
        "{other_type}"
    );
    assert!(error(&other, kept, &handles[0]).contains("keeps no value"));
    assert!(error(&session, kept, &Tensor::from("nonsense")).contains("'nonsense'"));
    session
        .run(delete, [handle.feed(handles[0].clone())])
        .unwrap();
    assert!(error(&session, kept, &handles[0]).contains("keeps no value"));
    let again = session.run(delete, [handle.feed(handles[0].clone())]);
    assert!(again.unwrap_err().to_string().contains("keeps no value"));
    session
        .step(kept, [handle.feed(handles[1].clone())])
        .unwrap();
}
