//! All modes of updating variables learn the same as one device with the whole batch.

use thalweg_graph::{Graph, Output};
use thalweg_layers::{Initializer, VariableScopes};
use thalweg_ops::{LinalgOps, MathOps, NewGraph, ReduceOps, SourceOps};
use thalweg_optim::{GradientDescent, Momentum};
use thalweg_parallel::{
    DataParallel, Decay, LossScale, ParameterDevice, Reduction, Topology, Tower, Training,
    VariableUpdate,
};
use thalweg_session::{Feeding, Session, SessionOptions};
use thalweg_tensor::{DType, Tensor};

/// Images of a whole batch.
const BATCH: usize = 24;
const STEPS: usize = 6;

/// A network of two layers on the tower's part of the batch.
fn network<'g>(tower: &Tower<'g>, x: Output<'g>, y: Output<'g>) -> Output<'g> {
    let g = tower.graph();
    let weight = |name: &str, dims: [usize; 2], value: f64| {
        let initial: Vec<f32> = (0..dims[0] * dims[1])
            .map(|i| (value * (i as f64 + 1.0)).sin() as f32)
            .collect();
        let initial = Tensor::new(&dims, &initial).unwrap();
        let made = g.get_variable(name, dims);
        made.initializer(Initializer::Tensor(initial)).build()
    };
    let (first, second) = (weight("first", [5, 7], 0.7), weight("second", [7, 3], 1.3));
    let bias = g.get_variable("batchnorm/bias", [3]);
    let bias = bias.initializer(Initializer::Constant(0.1)).build();
    let hidden = tower.part(x).matmul(first).tanh();
    (hidden.matmul(second) + bias - tower.part(y))
        .square()
        .mean()
}

fn data() -> [Tensor; 2] {
    let values = |n: usize, step: f32| -> Vec<f32> {
        (0..BATCH * n).map(|i| (i as f32 * step).cos()).collect()
    };
    let of = |n: usize, step: f32| {
        let values: Vec<f32> = values(n, step);
        Tensor::new(&[BATCH, n], &values).unwrap()
    };
    [of(5, 0.37), of(3, 0.91)]
}

/// Losses of each step, and the final variables.
fn trained(parallel: &DataParallel, devices: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [BATCH as i64, 5]);
    let y = g.placeholder("y", DType::F32, [BATCH as i64, 3]);
    let training = parallel
        .build(
            &g,
            |_| Momentum::new(0.1, 0.9),
            |tower| network(tower, x, y),
        )
        .unwrap();
    let session = Session::with_options(&g, SessionOptions::new().cpus(devices)).unwrap();
    training.initialize(&session).unwrap();
    let [images, labels] = data();
    let run = || {
        let feeds = [x.feed(&images), y.feed(&labels)];
        let (loss, ()): (f32, ()) = session
            .run((training.total_loss, training.step), feeds)
            .unwrap();
        loss
    };
    let losses = (0..STEPS).map(|_| run()).collect();
    assert_eq!(
        session.run::<i64>(training.global_step, []).unwrap(),
        STEPS as i64
    );
    let values = |variables: &Vec<_>| -> Vec<Vec<f32>> {
        let value =
            |&v: &thalweg_ops::Variable<'_>| session.run::<Vec<f32>>(v.value().id(), []).unwrap();
        variables.iter().map(value).collect()
    };
    let first = values(&training.towers[0]);
    for tower in &training.towers {
        assert_eq!(values(tower), first, "all towers have the same bits");
    }
    (losses, first)
}

fn agree(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{what}: {a} and {b}"
        );
    }
}

fn recipe(parallel: DataParallel) -> DataParallel {
    let decay = Decay::new(0.01).only(|name| !name.contains("batchnorm"));
    parallel.decay(decay).clip(0.4)
}

#[test]
fn all_modes_learn_the_same_as_one_device_with_the_whole_batch() {
    let whole = trained(&recipe(DataParallel::new(VariableUpdate::Independent)), 1);
    assert!(whole.0[STEPS - 1] < whole.0[0] * 0.9, "{:?}", whole.0);
    let mut all: Vec<(String, DataParallel)> = Vec::new();
    for towers in [1, 2, 3, 4, 8] {
        let of = |update| recipe(DataParallel::new(update)).towers(towers);
        let servers = of(VariableUpdate::ParameterServer);
        all.push((format!("servers, {towers}"), servers.clone()));
        let spread = servers.parameter_device(ParameterDevice::Towers);
        all.push((format!("spread, {towers}"), spread));
        let replicated = of(VariableUpdate::Replicated);
        all.push((format!("replicated, {towers}"), replicated.clone()));
        all.push((
            format!("repacked, {towers}"),
            replicated.clone().repacking(5),
        ));
        if towers % 2 == 0 {
            let copied = replicated.clone().hierarchical_copy(Topology::Dgx1);
            all.push((format!("hierarchical, {towers}"), copied));
        }
        let mut specs = vec![
            "pscpu",
            "psgpu#2",
            "pscpu#3",
            "xring",
            "pscpu:4:psgpu:22:xring",
        ];
        if towers > 1 {
            specs.push("xring#2");
        }
        for spec in specs {
            let reduced = replicated.clone().all_reduce(spec.parse().unwrap());
            all.push((format!("{spec}, {towers}"), reduced));
        }
    }
    let eight = recipe(DataParallel::new(VariableUpdate::Replicated)).towers(8);
    all.push((
        "pairs across".to_owned(),
        eight.hierarchical_copy(Topology::GcpV100),
    ));
    for (what, parallel) in &all {
        let (losses, variables) = trained(parallel, 8);
        agree(&losses, &whole.0, what);
        for (found, expected) in variables.iter().zip(&whole.1) {
            agree(found, expected, what);
        }
    }
}

#[test]
fn a_fixed_loss_scale_changes_nothing_and_compact_gradients_little() {
    let replicated = recipe(DataParallel::new(VariableUpdate::Replicated)).towers(2);
    let (plain, _) = trained(&replicated, 2);
    let (scaled, _) = trained(&replicated.clone().loss_scale(LossScale::Fixed(128.0)), 2);
    agree(&scaled, &plain, "a scale that is a power of two");
    let (compact, _) = trained(&replicated.compact(DType::BF16), 2);
    assert_ne!(compact, plain);
    for (a, b) in compact.iter().zip(&plain) {
        assert!((a - b).abs() < 0.01 * b, "{a} and {b}");
    }
}

/// The loss `x A B`, with A = 1, B = 2, a rate of 1/16 and a decay of 1/16: its updates can be written by hand.
fn by_hand<'g>(g: &'g Graph, x: Output<'g>, parallel: DataParallel) -> Training<'g> {
    let one = |tower: &Tower<'g>| {
        let make = |name: &str, value: f64| {
            let made = tower.graph().get_variable(name, []);
            made.initializer(Initializer::Constant(value)).build()
        };
        let (a, b) = (make("A", 1.0), make("B", 2.0));
        (tower.part(x) * a * b).mean()
    };
    let parallel = parallel.decay(Decay::new(1.0 / 16.0));
    parallel
        .build(g, |_| GradientDescent::new(1.0 / 16.0), one)
        .unwrap()
}

/// Expected losses, by steps of `(gradient of A, gradient of B)` at the values that `at` selects.
fn losses_by_hand(towers: usize, factor: f32, delay: usize, deferred_values: usize) -> Vec<f32> {
    let (rate, decay) = (1.0f32 / 16.0, 1.0 / 16.0);
    let mut values = vec![(1.0f32, 2.0f32)];
    let mut gradients: Vec<(f32, f32)> = Vec::new();
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let seen = values[step.saturating_sub(deferred_values)];
        let x = mean_of(step, towers);
        losses.push(x * seen.0 * seen.1);
        gradients.push((factor * x * seen.1, factor * x * seen.0));
        let (a, b) = values[step];
        let (da, db) = match step.checked_sub(delay) {
            Some(at) => gradients[at],
            None => (0.0, 0.0),
        };
        values.push((
            a - rate * (da + factor * decay * a),
            b - rate * (db + factor * decay * b),
        ));
    }
    losses
}

/// Inputs from -1 on: a step of n towers takes the next n.
fn inputs(step: usize, towers: usize) -> Vec<f32> {
    (0..towers)
        .map(|t| (step * towers + t) as f32 - 1.0)
        .collect()
}

fn mean_of(step: usize, towers: usize) -> f32 {
    inputs(step, towers).iter().sum::<f32>() / towers as f32
}

fn losses_of(parallel: DataParallel, towers: usize) -> Vec<f32> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [towers as i64]);
    let training = by_hand(&g, x, parallel.towers(towers));
    let session = Session::with_options(&g, SessionOptions::new().cpus(towers)).unwrap();
    training.initialize(&session).unwrap();
    let run = |step| {
        let feed = Tensor::vector(&inputs(step, towers));
        let all = (training.loss, training.step);
        session.run::<(f32, ())>(all, [x.feed(feed)]).unwrap().0
    };
    (0..STEPS).map(run).collect()
}

#[test]
fn mean_and_sum_match_a_computation_by_hand() {
    for towers in [1, 2, 4] {
        for update in [VariableUpdate::ParameterServer, VariableUpdate::Replicated] {
            let mean = losses_of(DataParallel::new(update), towers);
            agree(&mean, &losses_by_hand(towers, 1.0, 0, 0), "mean");
            let sum = losses_of(DataParallel::new(update).reduction(Reduction::Sum), towers);
            agree(&sum, &losses_by_hand(towers, towers as f32, 0, 0), "sum");
        }
    }
}

#[test]
fn relaxed_gradients_are_applied_one_step_later() {
    let relaxed = DataParallel::new(VariableUpdate::Replicated).relaxed();
    agree(
        &losses_of(relaxed, 2),
        &losses_by_hand(2, 1.0, 1, 0),
        "relaxed",
    );
}

#[test]
fn staged_values_are_one_step_old_and_gradients_are_applied_one_step_later() {
    let staged = DataParallel::new(VariableUpdate::ParameterServer).staged();
    agree(
        &losses_of(staged, 2),
        &losses_by_hand(2, 1.0, 1, 1),
        "staged",
    );
}

#[test]
fn non_finite_gradients_skip_the_update_and_halve_the_scale() {
    for update in [VariableUpdate::ParameterServer, VariableUpdate::Replicated] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [2]);
        let scale = LossScale::Automatic {
            initial: 8.0,
            double_after: 2,
        };
        let training = by_hand(&g, x, DataParallel::new(update).towers(2).loss_scale(scale));
        let session = Session::with_options(&g, SessionOptions::new().cpus(2)).unwrap();
        training.initialize(&session).unwrap();
        let all = g.variables();
        let scale = all.iter().find(|v| v.name == "loss_scale").unwrap().value;
        let a = training.towers[1][0].value();
        let mut seen = Vec::new();
        for input in [1.0, 1.0, 1.0, f32::INFINITY, 1.0, f32::NAN, 1.0] {
            session
                .run::<()>(training.step, [x.feed([1.0f32, input])])
                .unwrap();
            let step: i64 = session.run(training.global_step, []).unwrap();
            seen.push((session.run::<f32>(scale, []).unwrap(), step));
            assert!(session.run::<f32>(a, []).unwrap().is_finite());
        }
        let expected = [
            (8.0, 1),
            (16.0, 2),
            (16.0, 3),
            (8.0, 3),
            (8.0, 4),
            (4.0, 4),
            (4.0, 5),
        ];
        assert_eq!(seen, expected, "{update}");
    }
}

#[test]
fn contradicting_options_are_errors_with_advice() {
    use VariableUpdate::{Independent, ParameterServer, Replicated};
    let automatic = LossScale::Automatic {
        initial: 8.0,
        double_after: 2,
    };
    let spread = DataParallel::new(ParameterServer).parameter_device(ParameterDevice::Towers);
    let cases = [
        (
            spread.towers(2).loss_scale(automatic),
            "leave them on the CPU",
        ),
        (
            DataParallel::new(Replicated).staged(),
            "staging does not go with replicated",
        ),
        (
            DataParallel::new(ParameterServer).relaxed(),
            "relaxed consistency does not go",
        ),
        (
            DataParallel::new(Independent).repacking(2),
            "repacking does not go",
        ),
        (
            DataParallel::new(ParameterServer).towers(0),
            "the number of towers is 0",
        ),
        (
            DataParallel::new(VariableUpdate::DistributedReplicated),
            "give servers and workers",
        ),
        (
            DataParallel::new(Replicated).hierarchical_copy(Topology::Dgx1),
            "is 1: give an even number from 2 on",
        ),
        (
            DataParallel::new(Replicated)
                .towers(2)
                .hierarchical_copy(Topology::GcpV100),
            "is 2: give 8",
        ),
        (
            DataParallel::new(Replicated)
                .towers(2)
                .all_reduce("xring#3".parse().unwrap()),
            "no 3 rings",
        ),
        (
            DataParallel::new(Replicated).compact(DType::F64),
            "give f16 or bf16",
        ),
    ];
    for (parallel, why) in cases {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [8]);
        let build = |tower: &Tower<'_>| {
            let w = g.get_variable("w", []).build();
            (g.output(tower.part(x).id()) * w).mean()
        };
        let error = parallel
            .build(&g, |_| GradientDescent::new(0.1), build)
            .unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn towers_that_do_not_share_variables_are_an_error() {
    let g = Graph::new();
    let build = |tower: &Tower<'_>| {
        use thalweg_ops::StateOps;
        let w = g.variable("w", 1.0f32);
        w * (tower.index() as f64 + 1.0)
    };
    let parallel = DataParallel::new(VariableUpdate::ParameterServer).towers(2);
    let error = parallel
        .build(&g, |_| GradientDescent::new(0.1), build)
        .unwrap_err();
    let advice = "make it with a layer or get_variable";
    assert!(error.to_string().contains(advice), "{error}");
    assert!(
        error
            .to_string()
            .contains("tower 1 makes variable 'v_1/tower_1/w'"),
        "{error}"
    );
}

#[test]
fn a_mistake_in_a_tower_is_kept_in_the_graph_in_every_mode() {
    for update in [VariableUpdate::ParameterServer, VariableUpdate::Replicated] {
        for staged in [false, true] {
            let parallel = DataParallel::new(update).towers(2).decay(Decay::new(0.1));
            let parallel = match staged && update == VariableUpdate::ParameterServer {
                true => parallel.staged(),
                false => parallel,
            };
            let g = Graph::new();
            let build = |_: &Tower<'_>| {
                // A variable needs a known shape.
                let w = g.get_variable("w", [-1i64]).build();
                g.output(w.value().id()).square().mean()
            };
            let built = parallel.build(&g, |_| Momentum::new(0.1, 0.9), build);
            let error = match built {
                Ok(_) => g.errors()[0].to_string(),
                Err(error) => error.to_string(),
            };
            assert!(
                error.contains("a variable needs a known one"),
                "{update}: {error}"
            );
        }
    }
}
