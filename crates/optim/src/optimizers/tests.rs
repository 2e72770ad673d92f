//! Tests of the rules that all optimizers keep: names of slots, devices, order of reads, mistakes.

use thalweg_graph::{Graph, Operation, Output, Reason};
use thalweg_ops::{ArrayOps, MathOps, NewGraph, ReduceOps, SourceOps, StateOps};
use thalweg_session::{Feeding, Fetched, Session, SessionOptions};
use thalweg_tensor::DType;

use super::*;
use crate::clip::{clip_by_global_norm, clip_by_norm, clip_by_value};
use crate::global_step::create_global_step;
use crate::rate::Rate;
use crate::schedules::{exponential_decay, linear_warmup, piecewise_constant};

/// Every optimizer, with a rate that suits all.
fn all<'g>(rate: impl Into<Rate<'g>>) -> Vec<Box<dyn Optimizer<'g> + 'g>> {
    let rate = rate.into();
    vec![
        Box::new(GradientDescent::new(rate)),
        Box::new(Momentum::new(rate, 0.5).weight_decay(0.01)),
        Box::new(Adam::new(rate)),
        Box::new(AdamW::new(rate)),
        Box::new(Adamax::new(rate)),
        Box::new(Nadam::new(rate)),
        Box::new(Adagrad::new(rate)),
        Box::new(Adadelta::new(rate).epsilon(0.01)),
        Box::new(RmsProp::new(rate)),
        Box::new(Ftrl::new(rate)),
        Box::new(Lamb::new(rate).weight_decay(0.01)),
        Box::new(Lars::new(rate).trust_coefficient(0.5)),
        Box::new(Accumulate::new(Lamb::new(rate), 2)),
    ]
}

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
    let g = Graph::new();
    slots(&g, &Adadelta::new(0.1));
    expect(&g, &["layer/w/Adadelta", "layer/w/Adadelta_1"]);
    let g = Graph::new();
    slots(&g, &Ftrl::new(0.1));
    expect(&g, &["layer/w/Ftrl", "layer/w/Ftrl_1"]);
}

#[test]
fn slots_of_optimizers_that_tensorflow_lacks_have_the_optimizers_name() {
    fn slots<'g>(g: &'g Graph, optimizer: &dyn Optimizer<'g>) -> Vec<String> {
        let w = g.name_scope("layer", || g.variable("w", [1.0f32, 2.0]));
        optimizer.minimize(w.value().square().sum());
        assert_eq!(g.errors(), []);
        names(g).split_off(1)
    }
    let g = Graph::new();
    let found = slots(&g, &Adamax::new(0.1));
    assert_eq!(found, ["beta1_power", "layer/w/Adamax", "layer/w/Adamax_1"]);
    let g = Graph::new();
    let shared = ["beta2_power", "momentum_decay_power", "momentum_product"];
    let found = slots(&g, &Nadam::new(0.1));
    assert_eq!(found[..3], shared);
    assert_eq!(found[3..], ["layer/w/Nadam", "layer/w/Nadam_1"]);
    let g = Graph::new();
    let found = slots(&g, &AdamW::new(0.1));
    assert_eq!(found[..2], ["beta1_power", "beta2_power"]);
    assert_eq!(found[2..], ["layer/w/AdamW", "layer/w/AdamW_1"]);
    let g = Graph::new();
    let found = slots(&g, &Lamb::new(0.1));
    assert_eq!(found[..2], ["beta1_power", "beta2_power"]);
    assert_eq!(found[2..], ["layer/w/Lamb", "layer/w/Lamb_1"]);
    let g = Graph::new();
    assert_eq!(slots(&g, &Lars::new(0.1)), ["layer/w/Lars"]);
    let g = Graph::new();
    let found = slots(&g, &Accumulate::new(Lars::new(0.1), 2));
    let all = ["layer/w/Accumulate", "Accumulate/steps", "layer/w/Lars"];
    assert_eq!(found, all);
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
fn a_variable_that_the_loss_does_not_depend_on_is_not_updated() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let other = g.variable("other", 5.0f32);
    let train = GradientDescent::new(0.25).minimize(w.value().square());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(train, []).unwrap();
    let after = session.step((w, other), []).unwrap();
    assert_eq!(after.scalar::<f32>(0).unwrap(), 0.5);
    assert_eq!(after.scalar::<f32>(1).unwrap(), 5.0);
}

#[test]
fn a_loss_that_depends_on_no_variable_is_a_mistake_with_advice() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    g.variable("w", 1.0f32);
    GradientDescent::new(0.1).minimize(x.square().named("loss"));
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].reason,
        Reason::Argument(
            "loss:0 depends on none of the variables to train: compute it from them, through \
             ops that have a gradient"
                .to_owned()
        )
    );
    // The line of the error is the caller's.
    assert!(errors[0].origin.to_string().contains("tests.rs"));
    assert!(Session::new(&g).is_err());
}

#[test]
fn a_graph_without_variables_is_a_mistake_with_advice() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    Adam::new(0.1).minimize(x.square());
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().contains("Graph::variable"));
}

#[test]
fn a_mistake_in_the_loss_is_reported_once() {
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
fn the_global_step_counts_updates_and_drives_a_schedule() {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let step = create_global_step(&g);
    let rate = piecewise_constant(step, &[1], &[1.0, 0.5]);
    // A loss with the gradient -1.
    let train = GradientDescent::new(rate).minimize_counting(-w.value(), step);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    // Steps 0 and 1 have the rate 1, the later ones a half: a step reads the counter before it increments it.
    for expected in [1.0, 2.0, 2.5, 3.0] {
        session.run(train, []).unwrap();
        let after = session.step(w, []).unwrap();
        assert_eq!(after.scalar::<f32>(0).unwrap(), expected);
    }
    let count = session.step(step, []).unwrap();
    assert_eq!(count.scalar::<i64>(0).unwrap(), 4);
}

#[test]
fn fetched_values_are_from_before_the_update() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let w = g.variable("w", 1.0f32);
    let loss = (w * x).square();
    let train = GradientDescent::new(0.25).minimize(loss);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for expected in [1.0, 0.25, 0.0625] {
        let got = session.step((train, loss, w), [x.feed(1.0f32)]).unwrap();
        assert_eq!(got.scalar::<f32>(1).unwrap(), expected);
        assert_eq!(got.scalar::<f32>(2).unwrap(), expected.sqrt());
    }
}

#[test]
fn optimizers_read_variables_and_slots_from_before_the_step() {
    for i in 0..all(0.0).len() {
        let g = Graph::new();
        let a = g.variable("a", [1.0f32, -2.0]);
        let b = g.variable("b", [0.5f64, 3.0]);
        let loss = (a * b.value().cast(DType::F32)).square().sum();
        let optimizer = &all(0.1)[i];
        let train = optimizer.minimize(loss);
        assert_eq!(g.errors(), []);
        let everything: Vec<_> = g.variables().iter().map(|v| g.output(v.value)).collect();
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        for _ in 0..3 {
            let before = session.step(&everything, []).unwrap();
            let during = session.step((train, &everything), []).unwrap();
            let after = session.step(&everything, []).unwrap();
            let bytes = |i: usize, of: &Fetched| of.tensor(i).unwrap().bytes().to_vec();
            let mut changed = false;
            for v in 0..everything.len() {
                assert_eq!(
                    bytes(v, &before),
                    bytes(v + 1, &during),
                    "{}",
                    optimizer.name()
                );
                changed |= bytes(v, &before) != bytes(v, &after);
            }
            assert!(changed);
        }
    }
}

#[test]
fn optimizers_accept_clipped_gradients_and_schedules() {
    for i in 0..all(0.0).len() {
        let g = Graph::new();
        let a = g.variable("a", [1.0f32, -2.0, 0.5]);
        let b = g.variable("b", 1.5f32);
        let loss = (a * 2.0 - b).square().sum() + b.value().square();
        let step = create_global_step(&g);
        let decay = exponential_decay(0.1, step, 100, 0.9, false);
        let optimizer = &all(linear_warmup(decay, step, 5, 0.05))[i];
        let (gradients, variables): (Vec<_>, Vec<_>) = optimizer
            .compute_gradients(loss, &[a, b])
            .into_iter()
            .unzip();
        let (clipped, _) = clip_by_global_norm(&g, &gradients, 2.0);
        let clipped = clipped
            .into_iter()
            .map(|c| clip_by_value(clip_by_norm(c, 1.5), -1.0, 1.0));
        let pairs: Vec<_> = clipped.zip(variables).collect();
        let train = optimizer.apply_gradients(&g, &pairs, Some(step));
        assert_eq!(g.errors(), []);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let value = || session.run::<f32>(loss, []).unwrap();
        let first = value();
        for _ in 0..40 {
            session.run(train, []).unwrap();
        }
        let last = value();
        assert!(
            last < 0.7 * first,
            "{}: {first} to {last}",
            optimizer.name()
        );
    }
}

#[test]
fn nodes_of_optimizers_are_on_the_device_of_their_variable() {
    // The last one, `Accumulate`, needs all variables on one device.
    for i in 0..all(0.0).len() - 1 {
        let trained = |devices: [&str; 2]| {
            let g = Graph::new();
            let a = g.device(devices[0], || g.variable("a", [1.0f32, -2.0]));
            let b = g.device(devices[1], || g.variable("b", [0.5f32, 3.0]));
            let loss = (a * b).square().sum();
            let before = g.snapshot().len();
            let train = all(0.1)[i].minimize(loss);
            assert_eq!(g.errors(), []);
            let data = g.snapshot();
            let mut count = 0;
            for (_, node) in data.nodes().skip(before) {
                if node.name.starts_with("b/") || node.name.contains("/update_b/") {
                    let updates = node.inputs.contains(&b.handle().id());
                    let beside = node.colocation.iter().any(|name| &**name == "b");
                    assert!(updates || beside, "{}", node.name);
                    count += 1;
                }
            }
            assert!(count > 0);
            let session = Session::with_options(&g, SessionOptions::new().cpus(2)).unwrap();
            session.run(g.initializers(), []).unwrap();
            for _ in 0..4 {
                session.run(train, []).unwrap();
            }
            let got = session.step((a, b), []).unwrap();
            [0, 1].map(|i| got.slice::<f32>(i).unwrap().to_vec())
        };
        let name = all(0.1)[i].name();
        let (two, one) = (["/cpu:0", "/cpu:1"], ["/cpu:0"; 2]);
        assert_eq!(trained(two), trained(one), "{name}");
    }
}

#[test]
fn norms_of_16_bit_floats_do_not_overflow() {
    let minimizers: [fn(Output<'_>) -> Operation<'_>; 2] = [
        |loss| Lamb::new(0.5).epsilon(1e-4).minimize(loss),
        |loss| Lars::new(1.0).trust_coefficient(0.5).minimize(loss),
    ];
    for minimize in minimizers {
        let g = Graph::new();
        // The square of the norm is 90,000, above what f16 holds.
        let w = g.variable("w", [half::f16::from_f32(300.0)]);
        let train = minimize(w.value().cast(DType::F32).sum());
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        session.run(train, []).unwrap();
        let now = session.step(w, []).unwrap();
        let now = now.slice::<half::f16>(0).unwrap()[0].to_f32();
        assert!((now - 150.0).abs() < 5.0, "{now}");
    }
}

#[test]
fn means_of_vanishing_gradients_become_zero_and_not_subnormal() {
    let optimizers: [fn(Output<'_>) -> Operation<'_>; 2] = [
        |loss| Nadam::new(0.1).betas(0.5, 0.5).minimize(loss),
        |loss| Lamb::new(0.1).betas(0.5, 0.5).minimize(loss),
    ];
    for minimize in optimizers {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, []);
        let w = g.variable("w", [1.0f32, 2.0]);
        let train = minimize((w * x).sum());
        let slots = g.variables();
        let slots = slots.iter().filter(|v| v.name.starts_with("w/"));
        let mut slots: Vec<_> = slots.map(|v| g.output(v.value)).collect();
        let data = g.snapshot();
        let square = data
            .nodes()
            .find(|(_, n)| n.name.ends_with("/update_w/Square"));
        slots.push(g.operation(square.unwrap().0).output(0));
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        session.run(train, [x.feed(1e-18f32)]).unwrap();
        let mut gone = false;
        // The gradient's square is subnormal.
        for gradient in std::iter::repeat_n(0.0, 80).chain([1e-21f32, 0.0]) {
            session.run(train, [x.feed(gradient)]).unwrap();
            let got = session.step(&slots, [x.feed(gradient)]).unwrap();
            let slot = |i: usize| got.slice::<f32>(i).unwrap()[0];
            assert!((0..3).all(|i| !slot(i).is_subnormal()));
            assert!(gradient == 0.0 || (slot(0) > 0.0 && slot(1) == 0.0));
            gone |= slot(0) == 0.0 && slot(1) == 0.0;
        }
        assert!(gone);
    }
}

#[test]
fn the_powers_of_adam_change_once_per_step() {
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
        let got = session.step(g.output(found.value), []).unwrap();
        got.scalar::<f32>(0).unwrap()
    };
    assert_eq!(power("beta1_power"), 0.125);
    assert_eq!(power("beta2_power"), 0.015625);
}
