//! Optimizers, clipping and learning rate schedules, compared step by step with TensorFlow's.

use serde_json::Value as Json;
use thalweg::prelude::*;
use thalweg_tests::golden::{Tolerance, difference, lines, tensor};

/// Runs `check` on each recorded run of this kind; panics with all differences.
pub(crate) fn for_each_recorded(
    kind: &str,
    check: impl Fn(&Json) -> Vec<(String, Tensor, Tensor)>,
) {
    let lines = lines("training.jsonl.gz");
    let lines: Vec<&Json> = lines.iter().filter(|l| l["kind"] == kind).collect();
    assert!(!lines.is_empty(), "no run is of kind {kind}");
    let mut wrong = Vec::new();
    for line in lines {
        let number = |key: &str| line["tolerance"][key].as_f64().unwrap_or(0.0);
        let tolerance = Tolerance {
            rel: number("rel"),
            abs: number("abs"),
        };
        for (what, found, expected) in check(line) {
            if let Some(text) = difference(&found, &expected, tolerance) {
                wrong.push(format!("{}: {what}: {text}", line["name"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn tensors(list: &Json) -> Vec<Tensor> {
    list.as_array().unwrap().iter().map(tensor).collect()
}

fn number(settings: &Json, key: &str) -> f32 {
    settings[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key} in {settings}")) as f32
}

/// The optimizer that a line names, on a loss.
fn minimize<'g>(settings: &Json, loss: Output<'g>) -> Operation<'g> {
    let number = |key| number(settings, key);
    let flag = |key: &str| settings[key].as_bool().unwrap();
    let rate = number("learning_rate");
    match settings["class"].as_str().unwrap() {
        "GradientDescentOptimizer" => GradientDescent::new(rate).minimize(loss),
        "MomentumOptimizer" => Momentum::new(rate, number("momentum"))
            .nesterov(flag("use_nesterov"))
            .minimize(loss),
        "AdamOptimizer" => Adam::new(rate)
            .betas(number("beta1"), number("beta2"))
            .epsilon(number("epsilon"))
            .minimize(loss),
        "AdagradOptimizer" => Adagrad::new(rate)
            .initial_accumulator(settings["initial_accumulator_value"].as_f64().unwrap())
            .minimize(loss),
        "RMSPropOptimizer" => RmsProp::new(rate)
            .decay(number("decay"))
            .momentum(number("momentum"))
            .epsilon(number("epsilon"))
            .centered(flag("centered"))
            .minimize(loss),
        other => panic!("no optimizer is called {other}"),
    }
}

/// Scalars as one vector.
fn stack(dtype: DType, values: &[Tensor]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|t| t.bytes().to_vec()).collect();
    Tensor::from_bytes(dtype, &[values.len()], &bytes).unwrap()
}

#[test]
fn linear_regression_matches_tensorflows_steps() {
    for_each_recorded("linear_regression", |line| {
        let (xs, ys, losses) = (&line["x"], &line["y"], tensor(&line["losses"]));
        let dtype = losses.dtype();
        let scalar = |list: &Json, i: usize| {
            let one = serde_json::json!({
                "dtype": list["dtype"], "dims": [], "data": [list["data"][i]]
            });
            tensor(&one)
        };
        let zero = || Tensor::zeros(dtype, &[]).unwrap();
        let g = Graph::new();
        let x = g.placeholder("x", dtype, []);
        let y = g.placeholder("y", dtype, []);
        let w = g.variable("weight", zero());
        let b = g.variable("bias", zero());
        let loss = (y - (x * w + b)).square();
        let train = minimize(&line["optimizer"], loss);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let mut found = [Vec::new(), Vec::new(), Vec::new()];
        for i in 0..losses.len() {
            let feeds = [x.feed(scalar(xs, i)), y.feed(scalar(ys, i))];
            let step = session.step((train, loss), feeds).unwrap();
            let after = session.step((w, b), []).unwrap();
            found[0].push(step.tensor(1).unwrap().clone());
            found[1].push(after.tensor(0).unwrap().clone());
            found[2].push(after.tensor(1).unwrap().clone());
        }
        ["losses", "w", "b"]
            .into_iter()
            .zip(found)
            .map(|(key, found)| (key.to_owned(), stack(dtype, &found), tensor(&line[key])))
            .collect()
    });
}

#[test]
fn every_optimizer_trains_a_small_network_as_in_tensorflow() {
    for_each_recorded("conv_net", |line| {
        let (images, labels) = (tensor(&line["images"]), tensor(&line["labels"]));
        let g = Graph::new();
        let x = g.placeholder("x", images.dtype(), images.shape());
        let y = g.placeholder("y", labels.dtype(), labels.shape());
        let names = ["conv_w", "conv_b", "fc_w", "fc_b"];
        let [conv_w, conv_b, fc_w, fc_b] =
            names.map(|name| g.variable(name, tensor(&line["initial"][name])));
        let hidden = x
            .conv2d(conv_w, [1, 1], Padding::Same, DataFormat::Nhwc)
            .bias_add(conv_b, DataFormat::Nhwc)
            .relu()
            .max_pool([2, 2], [2, 2], Padding::Valid, DataFormat::Nhwc)
            .reshape([8, 64]);
        let logits = hidden.matmul(fc_w).bias_add(fc_b, DataFormat::Nhwc);
        let loss = logits.sparse_softmax_cross_entropy(y).mean();
        let train = minimize(&line["optimizer"], loss);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let mut step = session.callable((train, loss), [x, y]).unwrap();
        let feeds = [images, labels];
        let expected = tensor(&line["losses"]);
        let losses: Vec<Tensor> = (0..expected.len())
            .map(|_| step.call(&feeds).unwrap().tensor(1).unwrap().clone())
            .collect();
        let mut results = vec![(
            "losses".to_owned(),
            stack(expected.dtype(), &losses),
            expected,
        )];
        let after = session.step([conv_w, conv_b, fc_w, fc_b], []).unwrap();
        for (i, name) in names.into_iter().enumerate() {
            let found = after.tensor(i).unwrap().clone();
            results.push((name.to_owned(), found, tensor(&line["final"][name])));
        }
        results
    });
}

#[test]
fn gradients_are_clipped_to_a_global_norm() {
    for_each_recorded("clip_by_global_norm", |line| {
        let inputs = tensors(&line["inputs"]);
        let g = Graph::new();
        let places: Vec<Output<'_>> = inputs
            .iter()
            .map(|t| g.placeholder("x", t.dtype(), t.shape()))
            .collect();
        let (clipped, norm) = clip_by_global_norm(&g, &places, number(line, "clip_norm"));
        let session = Session::new(&g).unwrap();
        let feeds: Vec<_> = places.iter().zip(&inputs).map(|(p, t)| p.feed(t)).collect();
        let got = session.step((&clipped, norm), feeds).unwrap();
        let mut results: Vec<_> = tensors(&line["outputs"])
            .into_iter()
            .enumerate()
            .map(|(i, t)| (format!("output {i}"), got.tensor(i).unwrap().clone(), t))
            .collect();
        let norm = got.tensor(clipped.len()).unwrap().clone();
        results.push(("norm".to_owned(), norm, tensor(&line["global_norm"])));
        results
    });
}

#[test]
fn gradients_are_clipped_to_a_range() {
    for_each_recorded("clip_by_value", |line| {
        let input = tensor(&line["inputs"][0]);
        let g = Graph::new();
        let x = g.placeholder("x", input.dtype(), input.shape());
        let clipped = clip_by_value(x, number(line, "low"), number(line, "high"));
        let session = Session::new(&g).unwrap();
        let got = session.step(clipped, [x.feed(&input)]).unwrap();
        let expected = tensor(&line["outputs"][0]);
        vec![(
            "output".to_owned(),
            got.tensor(0).unwrap().clone(),
            expected,
        )]
    });
}

#[test]
fn learning_rates_follow_the_global_step() {
    for_each_recorded("decay", |line| {
        let arguments = &line["arguments"];
        let number = |key| number(arguments, key);
        let flag = |key: &str| arguments[key].as_bool().unwrap();
        let g = Graph::new();
        let step = g.placeholder("step", DType::I64, []);
        let rate = || number("learning_rate");
        let steps = || number("decay_steps") as u32;
        let decay = || number("decay_rate");
        let rate = match line["function"].as_str().unwrap() {
            "exponential_decay" => {
                exponential_decay(rate(), step, steps(), decay(), flag("staircase"))
            }
            "natural_exp_decay" => {
                natural_exp_decay(rate(), step, steps(), decay(), flag("staircase"))
            }
            "inverse_time_decay" => {
                inverse_time_decay(rate(), step, steps(), decay(), flag("staircase"))
            }
            "polynomial_decay" => {
                let end = number("end_learning_rate");
                polynomial_decay(rate(), step, steps(), end, number("power"), flag("cycle"))
            }
            "cosine_decay" => cosine_decay(rate(), step, steps(), number("alpha")),
            "linear_warmup" => {
                let warmup = number("warmup_steps");
                let after = (step.cast(DType::F32) - f64::from(warmup)).maximum(0.0f32);
                let decay = cosine_decay(rate(), after, steps(), number("alpha"));
                linear_warmup(decay, step, warmup as u32, number("start"))
            }
            "piecewise_constant" => {
                let list = |key: &str| arguments[key].as_array().unwrap().iter();
                let boundaries: Vec<i64> =
                    list("boundaries").map(|v| v.as_i64().unwrap()).collect();
                let values: Vec<f32> = list("values").map(|v| v.as_f64().unwrap() as f32).collect();
                piecewise_constant(step, &boundaries, &values)
            }
            other => panic!("no schedule is called {other}"),
        };
        let session = Session::new(&g).unwrap();
        let found: Vec<Tensor> = tensor(&line["steps"])
            .as_slice::<i64>()
            .unwrap()
            .iter()
            .map(|&s| {
                let got = session.step(rate, [step.feed(s)]).unwrap();
                got.tensor(0).unwrap().clone()
            })
            .collect();
        vec![(
            "rates".to_owned(),
            stack(DType::F32, &found),
            tensor(&line["values"]),
        )]
    });
}

#[test]
fn decaying_slots_flush_subnormals_to_zero() {
    // Whole vectors, and a remainder.
    const LENGTH: usize = 20;
    let g = Graph::new();
    let names = ["var", "accum"];
    let [var, accum] = names.map(|name| g.variable(name, vec![1e-37f32; LENGTH]));
    let rate = |rate: f32| g.constant(rate);
    let decay = g
        .op("ResourceApplyMomentum")
        .input(var.handle())
        .input(accum.handle())
        .input(rate(0.0))
        .input(g.constant(vec![0.0f32; LENGTH]))
        .input(rate(0.5))
        .build();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut expected = 1e-37f32;
    for _ in 0..6 {
        session.run(decay, []).unwrap();
        expected *= 0.5;
        if expected.is_subnormal() {
            expected = 0.0;
        }
        let values = session.step([var, accum], []).unwrap();
        assert_eq!(values.slice::<f32>(0).unwrap(), [1e-37; LENGTH]);
        assert_eq!(values.slice::<f32>(1).unwrap(), [expected; LENGTH]);
    }
    assert_eq!(expected, 0.0);
}

#[test]
fn an_update_is_the_same_while_the_old_value_is_held() {
    const LENGTH: usize = 40_003;
    let start: Vec<f32> = (0..LENGTH).map(|i| (i % 977) as f32 - 400.0).collect();
    let minimizers: [fn(Output<'_>) -> Operation<'_>; 4] = [
        |loss| GradientDescent::new(0.1).minimize(loss),
        |loss| Momentum::new(0.1, 0.9).nesterov(true).minimize(loss),
        |loss| Adam::new(0.1).minimize(loss),
        |loss| {
            RmsProp::new(0.1)
                .momentum(0.9)
                .centered(true)
                .minimize(loss)
        },
    ];
    for minimize in minimizers {
        // With held values in private memory, and in memory that others can map.
        let trained = |shared: usize, hold: bool| {
            let g = Graph::new();
            let w = g.variable("w", start.clone());
            let train = minimize(w.read().square().reduce_sum(&[0], false));
            let options = SessionOptions::new().threads(2).shared_memory(shared);
            let session = Session::with_options(&g, options).unwrap();
            session.run(g.initializers(), []).unwrap();
            let values = || session.run::<Tensor>(w.read(), []).unwrap();
            let mut held = Vec::new();
            for _ in 0..3 {
                if hold {
                    let value = values();
                    held.push((value.clone(), value.to_vec::<f32>().unwrap()));
                }
                session.run(train, []).unwrap();
            }
            for (value, before) in held {
                assert!(value.as_slice::<f32>().unwrap() == before);
            }
            values().to_vec::<f32>().unwrap()
        };
        let expected = trained(0, false);
        assert!(expected != start);
        for shared in [0, 1 << 20] {
            assert!(trained(shared, true) == expected);
        }
    }
}

#[test]
fn a_failing_update_leaves_a_held_value_unchanged() {
    let g = Graph::new();
    let w = g.variable("w", vec![3.0f32; 40_000]);
    let gradient = g.placeholder("gradient", DType::F32, Shape::unknown());
    let update = g.op("ResourceApplyGradientDescent").input(w.handle());
    let update = update.input(g.constant(1.0f32)).input(gradient).build();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let held = session.step(w.read(), []).unwrap();
    let wrong = Tensor::from(vec![1.0f32; 39_999]);
    assert!(session.step(update, [gradient.feed(&wrong)]).is_err());
    let now = session.step(w.read(), []).unwrap();
    for found in [held, now] {
        assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 3.0));
    }
}
