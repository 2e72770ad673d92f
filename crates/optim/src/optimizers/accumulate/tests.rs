//! Tests of gradient accumulation over several steps.

use thalweg_graph::{Graph, VariableInfo};
use thalweg_ops::{ArrayOps, MathOps, NewGraph, ReduceOps, SourceOps, StateOps};
use thalweg_session::{Feeding, Session, SessionOptions};
use thalweg_tensor::{DType, Tensor};

use super::*;
use crate::global_step::create_global_step;
use crate::optimizers::{Adam, AdamW, Ftrl, GradientDescent, Lamb, Lars, Momentum, Nadam, RmsProp};
use crate::schedules::piecewise_constant;

/// Number of rows of a small batch, and number of small batches in a large one.
const ROWS: usize = 4;
const STEPS: usize = 3;

/// Builds a training of a loss, with a global step, that updates by the gradients of `steps` steps.
type Minimize = for<'g> fn(Output<'g>, Variable<'g>, u32) -> Operation<'g>;

fn minimize<'g>(
    optimizer: impl Optimizer<'g>,
    (loss, global_step, steps): (Output<'g>, Variable<'g>, u32),
) -> Operation<'g> {
    match steps {
        1 => optimizer.minimize_counting(loss, global_step),
        n => Accumulate::new(optimizer, n).minimize_counting(loss, global_step),
    }
}

/// A small regression and its training operation.
struct Regression<'g> {
    x: Output<'g>,
    y: Output<'g>,
    train: Operation<'g>,
}

impl<'g> Regression<'g> {
    fn new(g: &'g Graph, minimize: Minimize, steps: u32) -> Regression<'g> {
        let x = g.placeholder("x", DType::F32, [-1, 3]);
        let y = g.placeholder("y", DType::F32, [-1]);
        let w = g.variable("w", [0.5f32, -1.0, 2.0]);
        let b = g.variable("b", 0.25f32);
        let found = (x * w).reduce_sum(&[1], false) + b;
        let loss = (found - y).square().mean();
        let train = minimize(loss, create_global_step(g), steps);
        Regression { x, y, train }
    }

    /// Trains with `rows` rows from row `from` on.
    fn step(&self, session: &Session<'g>, from: usize, rows: usize) {
        let numbers = |salt: usize, n: usize| {
            let number = |i: usize| ((from * n / rows + i) * 37 + salt) % 19;
            (0..n)
                .map(|i| number(i) as f32 / 8.0 - 1.0)
                .collect::<Vec<_>>()
        };
        let x = Tensor::new(&[rows, 3], &numbers(5, rows * 3)).unwrap();
        let y = Tensor::new(&[rows], &numbers(11, rows)).unwrap();
        let feeds = [self.x.feed(x), self.y.feed(y)];
        session.run(self.train, feeds).unwrap();
    }
}

/// Elements of all variables, by name, except those of `Accumulate` itself.
fn values(session: &Session<'_>) -> Vec<(String, Vec<f64>)> {
    let g = session.graph();
    let mut all = g.variables();
    all.retain(|v| !v.name.contains("Accumulate"));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let value = |v: &VariableInfo| {
        let value = session.step(g.output(v.value).cast(DType::F64), []);
        value.unwrap().slice::<f64>(0).unwrap().to_vec()
    };
    all.iter().map(|v| (v.name.clone(), value(v))).collect()
}

fn session(g: &Graph) -> Session<'_> {
    assert_eq!(g.errors(), []);
    let session = Session::new(g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session
}

fn scalar(session: &Session<'_>, v: Variable<'_>) -> f32 {
    let value = session.graph().output(v.value().id());
    session.run::<f32>(value, []).unwrap()
}

#[test]
fn n_small_batches_equal_one_large_batch_and_change_nothing_in_between() {
    let minimizers: [Minimize; 9] = [
        |l, s, n| minimize(GradientDescent::new(0.1), (l, s, n)),
        |l, s, n| minimize(Momentum::new(0.1, 0.9).weight_decay(0.1), (l, s, n)),
        |l, s, n| minimize(Adam::new(0.1), (l, s, n)),
        |l, s, n| minimize(AdamW::new(0.1).weight_decay(0.1), (l, s, n)),
        |l, s, n| minimize(RmsProp::new(0.1).momentum(0.5), (l, s, n)),
        |l, s, n| minimize(Ftrl::new(0.1).l1(0.01), (l, s, n)),
        |l, s, n| minimize(Nadam::new(0.1), (l, s, n)),
        |l, s, n| minimize(Lamb::new(0.1).weight_decay(0.1), (l, s, n)),
        |l, s, n| minimize(Lars::new(0.1), (l, s, n)),
    ];
    for minimize in minimizers {
        let (small, large) = (Graph::new(), Graph::new());
        let by_parts = Regression::new(&small, minimize, STEPS as u32);
        let whole = Regression::new(&large, minimize, 1);
        let (by_parts_of, whole_of) = (session(&small), session(&large));
        for update in 0..3 {
            let first = update * STEPS * ROWS;
            let before = values(&by_parts_of);
            for part in 0..STEPS {
                assert_eq!(values(&by_parts_of), before, "before part {part}");
                by_parts.step(&by_parts_of, first + part * ROWS, ROWS);
            }
            whole.step(&whole_of, first, STEPS * ROWS);
            let (found, expected) = (values(&by_parts_of), values(&whole_of));
            assert_ne!(found, before);
            assert_eq!(found.len(), expected.len());
            for ((name, found), (other, expected)) in found.iter().zip(&expected) {
                assert_eq!(name, other);
                for (a, b) in found.iter().zip(expected) {
                    let near = (a - b).abs() <= 1e-5 + 2e-5 * b.abs();
                    assert!(near, "{name} after update {update}: {a}, not {b}");
                }
            }
        }
    }
}

#[test]
fn schedules_follow_updates_and_not_steps() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let step = create_global_step(&g);
    let rate = piecewise_constant(step, &[0], &[1.0, 0.5]);
    let descent = GradientDescent::new(rate);
    let train = Accumulate::new(descent, 2).minimize_counting(-w.value(), step);
    let session = session(&g);
    for expected in [0.0, 1.0, 1.0, 1.5, 1.5, 2.0] {
        session.run(train, []).unwrap();
        assert_eq!(scalar(&session, w), expected);
    }
    let count = session.step(step, []).unwrap();
    assert_eq!(count.scalar::<i64>(0).unwrap(), 3);
}

#[test]
fn nodes_that_wait_for_the_training_step_run_in_every_step() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let count = g.untrained_variable("count", 0.0f32);
    let train = Accumulate::new(GradientDescent::new(0.5), 3).minimize(w.value());
    let counted = g.control_dependencies([train], || count.assign_add(1.0f32));
    let after = g.control_dependencies([train], || w.read());
    let session = session(&g);
    for (steps, expected) in [1.0, 1.0, 0.5, 0.5].into_iter().enumerate() {
        let got = session.step((counted, after), []).unwrap();
        assert_eq!(got.scalar::<f32>(1).unwrap(), expected);
        assert_eq!(scalar(&session, count), steps as f32 + 1.0);
    }
}

#[test]
fn nested_accumulation_multiplies_the_number_of_steps() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let inner = Accumulate::new(GradientDescent::new(1.0), 2);
    let train = Accumulate::new(inner, 2).minimize(-w.value());
    let session = session(&g);
    for expected in [0.0, 0.0, 0.0, 1.0, 1.0] {
        session.run(train, []).unwrap();
        assert_eq!(scalar(&session, w), expected);
    }
}

#[test]
fn accumulating_one_step_equals_the_wrapped_optimizer() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let train = Accumulate::new(GradientDescent::new(1.0), 1).minimize(-w.value());
    let session = session(&g);
    for expected in [1.0, 2.0] {
        session.run(train, []).unwrap();
        assert_eq!(scalar(&session, w), expected);
    }
}

#[test]
fn accumulating_zero_steps_is_a_mistake() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    Accumulate::new(GradientDescent::new(1.0), 0).minimize(w.value());
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    let text = "an update takes the gradients of 0 steps: give at least 1";
    assert_eq!(errors[0].reason, Reason::Argument(text.to_owned()));
    assert!(errors[0].origin.to_string().contains("tests.rs"));
}

#[test]
fn variables_on_several_devices_cannot_be_placed() {
    let g = Graph::new();
    let a = g.device("/cpu:0", || g.variable("a", 1.0f32));
    let b = g.device("/cpu:1", || g.variable("b", 1.0f32));
    let step = create_global_step(&g);
    Accumulate::new(GradientDescent::new(1.0), 2).minimize_counting(a * b, step);
    assert_eq!(g.errors(), []);
    let session = Session::with_options(&g, SessionOptions::new().cpus(2));
    let text = session.err().unwrap().to_string();
    println!("{text}");
    assert!(text.contains("CPU:0") && text.contains("CPU:1"), "{text}");
}

#[test]
fn nodes_without_a_device_follow_the_variables() {
    let g = Graph::new();
    let w = g.device("/cpu:1", || g.variable("w", 0.0f32));
    let step = create_global_step(&g);
    let train = Accumulate::new(Adam::new(1.0), 2).minimize_counting(-w.value(), step);
    let session = Session::with_options(&g, SessionOptions::new().cpus(2)).unwrap();
    session.run(g.initializers(), []).unwrap();
    for expected in [0, 1, 1, 2] {
        session.run(train, []).unwrap();
        let count = session.step(step, []).unwrap();
        assert_eq!(count.scalar::<i64>(0).unwrap(), expected);
    }
    assert!((scalar(&session, w) - 2.0).abs() < 1e-4);
}
