use thalweg_graph::{Graph, Reason};
use thalweg_ops::{MathOps, NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::DType;

use super::*;
use crate::schedules::piecewise_constant;
use crate::step::create_global_step;

fn names(g: &Graph) -> Vec<String> {
    g.variables().into_iter().map(|v| v.name).collect()
}

#[test]
fn slots_have_tensorflows_names() {
    fn slots<'g>(g: &'g Graph, optimizer: &dyn Optimizer<'g>) -> Vec<String> {
        let w = g.name_scope("layer", || g.variable("w", [1.0f32, 2.0]));
        optimizer.minimize((w * w).named("loss"));
        assert_eq!(g.errors(), []);
        names(g)
    }
    let expect = |g: &Graph, expected: &[&str]| assert_eq!(names(g)[1..], *expected);
    let g = Graph::new();
    slots(&g, &GradientDescent::new(0.1));
    expect(&g, &[]);
    let g = Graph::new();
    slots(&g, &Momentum::new(0.1, 0.9));
    expect(&g, &["layer/w/Momentum"]);
    let g = Graph::new();
    slots(&g, &Adam::new(0.1));
    let adam = [
        "beta1_power",
        "beta2_power",
        "layer/w/Adam",
        "layer/w/Adam_1",
    ];
    expect(&g, &adam);
    let g = Graph::new();
    slots(&g, &Adagrad::new(0.1));
    expect(&g, &["layer/w/Adagrad"]);
    let g = Graph::new();
    slots(&g, &RmsProp::new(0.1));
    expect(&g, &["layer/w/RMSProp", "layer/w/RMSProp_1"]);
    let g = Graph::new();
    slots(&g, &RmsProp::new(0.1).centered(true));
    let three = ["layer/w/RMSProp", "layer/w/RMSProp_1", "layer/w/RMSProp_2"];
    expect(&g, &three);
}

#[test]
fn slots_are_not_trained() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    Momentum::new(0.1, 0.9).minimize(w.value().square());
    let trained = g.trainable_variables();
    assert_eq!(trained.len(), 1);
    assert_eq!(trained[0].handle().id(), w.handle().id());
}

#[test]
fn a_variable_that_the_loss_does_not_depend_on_stays_as_it_is() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let other = g.variable("other", 5.0f32);
    let train = GradientDescent::new(0.25).minimize(w.value().square());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(train, []).unwrap();
    let after = session.run((w, other), []).unwrap();
    assert_eq!(after.scalar::<f32>(0).unwrap(), 0.5);
    assert_eq!(after.scalar::<f32>(1).unwrap(), 5.0);
}

#[test]
fn a_loss_of_no_variable_is_a_mistake_that_says_what_to_do() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    g.variable("w", 1.0f32);
    GradientDescent::new(0.1).minimize(x.square().named("loss"));
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].reason,
        Reason::Argument(
            "loss:0 depends on none of the 1 variables to train: compute it from them, through \
             ops that have a gradient"
                .to_owned()
        )
    );
    // The line is the user's.
    assert!(errors[0].origin.to_string().contains("tests.rs"));
    assert!(Session::new(&g).is_err());
}

#[test]
fn without_variables_the_mistake_says_how_to_make_them() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    Adam::new(0.1).minimize(x.square());
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().contains("Graph::variable"));
}

#[test]
fn a_mistake_in_the_loss_is_told_once() {
    let g = Graph::new();
    let w = g.variable("w", [1.0f32, 2.0]);
    let wrong = w + g.constant([1.0f32, 2.0, 3.0]);
    Adam::new(0.1).minimize(wrong.square());
    assert_eq!(g.errors().len(), 1);
    assert_eq!(g.errors()[0].op, "AddV2");
}

#[test]
fn a_learning_rate_that_is_not_a_scalar_is_a_mistake() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let rate = g.constant([0.1f32, 0.2]);
    GradientDescent::new(rate).minimize(w.value().square());
    assert_eq!(g.errors().len(), 1);
    assert_eq!(g.errors()[0].op, "ResourceApplyGradientDescent");
}

#[test]
fn the_global_step_counts_updates_and_steers_the_rate() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let step = create_global_step(&g);
    let rate = piecewise_constant(step, &[1], &[1.0, 0.5]);
    // A loss with the gradient -1.
    let train = GradientDescent::new(rate).minimize_counting(-w.value(), step);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    // Steps 0 and 1 go by 1, the later ones by a half: a step reads its number before it counts.
    for expected in [1.0, 2.0, 2.5, 3.0] {
        session.run(train, []).unwrap();
        let after = session.run(w, []).unwrap();
        assert_eq!(after.scalar::<f32>(0).unwrap(), expected);
    }
    let count = session.run(step, []).unwrap();
    assert_eq!(count.scalar::<i64>(0).unwrap(), 4);
}

#[test]
fn what_a_step_fetches_is_from_before_its_update() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let w = g.variable("w", 1.0f32);
    let loss = (w * x).square();
    let train = GradientDescent::new(0.25).minimize(loss);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for expected in [1.0, 0.25, 0.0625] {
        let got = session.run((train, loss, w), [x.feed(1.0f32)]).unwrap();
        assert_eq!(got.scalar::<f32>(1).unwrap(), expected);
        assert_eq!(got.scalar::<f32>(2).unwrap(), expected.sqrt());
    }
}

#[test]
fn adams_powers_grow_once_a_step() {
    let g = Graph::new();
    let a = g.variable("a", 1.0f32);
    let b = g.variable("b", [1.0f32, 2.0]);
    let train = Adam::new(0.1).betas(0.5, 0.25).minimize(b * a);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(train, []).unwrap();
    session.run(train, []).unwrap();
    let power = |name: &str| {
        let all = g.variables();
        let found = all.iter().find(|v| v.name == name).unwrap();
        let got = session.run(g.output(found.value), []).unwrap();
        got.scalar::<f32>(0).unwrap()
    };
    assert_eq!(power("beta1_power"), 0.125);
    assert_eq!(power("beta2_power"), 0.015625);
}
