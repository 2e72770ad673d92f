//! Tests of moving averages of weights.

use thalweg_graph::{Graph, Reason};
use thalweg_ops::{MathOps, NewGraph, RandomOps, StateOps};
use thalweg_session::Session;

use super::*;
use crate::global_step::create_global_step;

#[test]
fn averages_are_untrained_and_named_after_their_variables() {
    let g = Graph::new();
    let w = g.name_scope("layer", || g.variable("w", [1.0f32, 2.0]));
    let other = g.variable("other", 0.0f32);
    let mut averages = MovingAverage::new(0.9);
    averages.apply(&g, &[w]);
    assert_eq!(g.errors(), []);
    assert_eq!(g.trainable_variables().len(), 2);
    let steps = g.untrained_variable("steps", 0i64);
    // As in TensorFlow: averages of trained variables, and own values of all others.
    let restored = averages.variables_to_restore(&g);
    let names: Vec<&str> = restored.iter().map(|(name, _)| &**name).collect();
    let expected = [
        "layer/w/ExponentialMovingAverage",
        "other/ExponentialMovingAverage",
        "steps",
    ];
    assert_eq!(names, expected);
    assert_eq!(restored[0].1.handle().id(), w.handle().id());
    assert_eq!(restored[2].1.handle().id(), steps.handle().id());
    let average = averages.average(w).unwrap();
    assert_eq!(average.handle().operation().name(), restored[0].0);
    assert!(averages.average(other).is_none());
}

#[test]
fn an_average_starts_from_the_initial_value_of_its_variable() {
    let g = Graph::new();
    let w = g.variable("w", g.random_normal(vec![5i32], 0.0, 1.0, DType::F32, None));
    let mut averages = MovingAverage::new(0.9);
    averages.apply(&g, &[w]);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let got = session.step((w, averages.average(w).unwrap()), []).unwrap();
    let first = got.slice::<f32>(0).unwrap();
    assert_eq!(first, got.slice::<f32>(1).unwrap());
    assert_ne!(first, [0.0; 5]);
}

#[test]
fn an_average_takes_the_value_before_the_update_unless_it_waits_for_it() {
    let g = Graph::new();
    let [a, b] = ["a", "b"].map(|name| g.variable(name, 1.0f32));
    let mut averages = MovingAverage::new(0.5);
    let add = [a, b].map(|v| v.assign_add(8.0f32));
    let before = averages.apply(&g, &[a]);
    let after = g.control_dependencies(add, || averages.apply(&g, &[b]));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run((add[0], before, after), []).unwrap();
    let [a, b] = [a, b].map(|v| averages.average(v).unwrap());
    let got = session.step((a, b), []).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 1.0);
    assert_eq!(got.scalar::<f32>(1).unwrap(), 5.0);
}

#[test]
fn a_second_call_moves_the_same_average() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let mut averages = MovingAverage::new(0.5);
    let set = w.assign(8.0f32);
    let once = g.control_dependencies([set], || averages.apply(&g, &[w]));
    let twice = g.control_dependencies([once], || averages.apply(&g, &[w]));
    assert_eq!(g.variables().len(), 2);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(twice, []).unwrap();
    let average = session.step(averages.average(w).unwrap(), []).unwrap();
    assert_eq!(average.scalar::<f32>(0).unwrap(), 6.0);
}

#[test]
fn an_average_of_integers_is_a_mistake() {
    let g = Graph::new();
    let step = create_global_step(&g);
    MovingAverage::new(0.5).apply(&g, &[step]);
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    let text = "no average of i64[] can be taken: it takes floats";
    assert_eq!(errors[0].reason, Reason::Argument(text.to_owned()));
    assert!(errors[0].origin.to_string().contains("tests.rs"));
}

#[test]
fn the_decay_can_be_a_schedule() {
    let g = Graph::new();
    let w = g.variable("w", 4.0f64);
    let step = create_global_step(&g);
    let decay = step.value().cast(DType::F32).minimum(0.5f32);
    let mut averages = MovingAverage::new(decay);
    let zero = w.assign(0.0f64);
    let apply = g.control_dependencies([zero], || averages.apply(&g, &[w]));
    let count = g.control_dependencies([apply], || step.assign_add(1i64));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(count, []).unwrap();
    let average = session.step(averages.average(w).unwrap(), []).unwrap();
    assert_eq!(average.scalar::<f64>(0).unwrap(), 0.0);
}
