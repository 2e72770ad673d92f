//! Remote calls: of a target that is constant, and of one that is fed.

use thalweg::graph::place::PlaceReason;
use thalweg::prelude::*;
use thalweg_tests::cpus::cpus;

/// Defines a function of a number that doubles it.
fn define_twice(g: &Graph) -> String {
    let body = g.body("twice");
    let fact = thalweg::graph::Fact::new(DType::F32, Shape::scalar());
    let a = body.argument("a", &fact);
    let closed = g.close_bodies(&[(body, &[a], &[a + a])]);
    let name = closed.functions[0].name.clone();
    closed.functions.into_iter().for_each(|f| g.define(f));
    name
}

fn remote_call<'g>(target: Output<'g>, function: &str) -> Output<'g> {
    let g = target.graph();
    let node = g.op("RemoteCall").input(target).input(g.constant(3.0f32));
    let node = node.attr("f", thalweg::graph::Func::named(function));
    node.attr("Tout", vec![DType::F32]).output()
}

#[test]
fn a_remote_call_runs_on_the_device_that_its_constant_names() {
    let g = Graph::new();
    let name = define_twice(&g);
    let target = |text: &str| g.constant(Tensor::strings(&[], &[text]).unwrap());
    let call = g.device("/cpu:0", || remote_call(target("/device:CPU:1"), &name));
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let report = session.placement().unwrap();
    let row = report.rows.iter().find(|row| row.op == "RemoteCall");
    assert_eq!(row.unwrap().assigned.index, Some(1), "{report}");
    assert_eq!(session.run::<f32>(call, []).unwrap(), 6.0);

    let g = Graph::new();
    let name = define_twice(&g);
    remote_call(
        g.constant(Tensor::strings(&[], &["/cpu:7"]).unwrap()),
        &name,
    );
    let Err(SessionError::Place(error)) = Session::with_options(&g, cpus(2)) else {
        panic!("a session was made");
    };
    let is_missing = matches!(error.reason, PlaceReason::NoSuchDevice { .. });
    assert!(is_missing, "{error}");
}

#[test]
fn a_remote_call_with_a_fed_target_runs_on_the_cpus_of_its_task_alone() {
    let g = Graph::new();
    let name = define_twice(&g);
    let target = g.placeholder("target", DType::String, []);
    let call = remote_call(target, &name);
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let run = |text: &str| {
        let text = Tensor::strings(&[], &[text]).unwrap();
        session.run::<f32>(call, [target.feed(text)])
    };
    assert_eq!(run("/cpu:1").unwrap(), 6.0);
    for (text, said) in [
        ("/job:other/task:0/cpu:0", "make it a constant"),
        ("/gpu:0", "make it a constant"),
        ("cpu", "is no device"),
    ] {
        let error = run(text).unwrap_err().to_string();
        assert!(
            error.contains(said) && error.contains("RemoteCall"),
            "{error}"
        );
    }
}
