//! A training whose loss is not finite: `NanTensorHook`.

use thalweg::prelude::*;
use thalweg::train::MonitoredTrainingSession;
use thalweg::train::hooks::NanTensorHook;

#[test]
fn a_non_finite_loss_names_its_node_or_stops() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let loss = x.log().named("logarithm") * 2.0;
    let run = |hook: NanTensorHook| {
        let mut session = MonitoredTrainingSession::new(&g)
            .hook(hook)
            .quiet()
            .start(|| Session::new(&g))
            .unwrap();
        let first = session
            .run::<f32>(loss, [x.feed(0.0f32)])
            .map(|v| v.is_some());
        first.map(|_| session.should_stop())
    };
    let error = run(NanTensorHook::new(loss.id())).unwrap_err().to_string();
    assert!(
        error.starts_with("Model diverged with loss = -inf."),
        "{error}"
    );
    assert!(error.contains("'logarithm' (Log)"), "{error}");
    assert!(run(NanTensorHook::new(loss.id()).stop()).unwrap());
}

#[test]
fn a_loss_that_the_update_hides_names_the_variable_or_the_node_if_values_are_checked() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let w = g.variable("w", 1.0f32);
    let loss = (w.value() * x).log().named("loss");
    let train = GradientDescent::new(1.0).minimize_counting(loss, create_global_step(&g));
    let diverge = |hook: NanTensorHook| {
        let mut session = MonitoredTrainingSession::new(&g)
            .hook(hook)
            .quiet()
            .start(|| Session::new(&g))
            .unwrap();
        session.run::<()>(train, [x.feed(1.0f32)]).unwrap();
        let failed = session.run::<()>(train, [x.feed(0.0f32)]);
        failed.unwrap_err().to_string()
    };
    // The update has made the weight NaN, so the step cannot be computed again.
    let error = diverge(NanTensorHook::new(loss.id()));
    assert!(
        error.contains("variable 'w' is not finite either"),
        "{error}"
    );
    let error = diverge(NanTensorHook::new(loss.id()).checked());
    assert!(error.contains("'loss' (Log)"), "{error}");
}
