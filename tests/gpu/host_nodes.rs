//! Nodes of a training step that run on the host, though the network is placed on a GPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg::device::gpu::{Call, PlanningDriver};
use thalweg::layers::{dense, embedding, gru_cell, losses, lstm_cell, multi_head_attention, rnn};
use thalweg::models::{self, Options};
use thalweg::parallel::{DataParallel, LossScale, ParameterDevice, VariableUpdate};
use thalweg::prelude::*;
use thalweg::session::{Feed, GpuOptions};

/// An H200 that plans are made for.
pub fn planned_card() -> PlanningDriver {
    PlanningDriver::new(141 << 30)
}

/// The same as a device.
pub fn planned_gpu() -> GpuOptions {
    GpuOptions::driven_by(Arc::new(planned_card()))
}

/// By convolution that plans have asked a card's library for: `true` if its images have the channels last.
pub fn channels_last(card: &PlanningDriver) -> Vec<bool> {
    let last = |call: Call| match call {
        Call::Convolution(c) => Some(c.channels_last),
        Call::Gemm(_) => None,
    };
    card.calls().into_iter().filter_map(last).collect()
}

/// The ops of a plan's instructions on the host, with their numbers, for a step that fetches `train`.
fn host_ops(g: &Graph, train: Operation<'_>) -> BTreeMap<String, usize> {
    host_ops_with(g, train, feeds(g))
}

fn host_ops_with<'g>(
    g: &'g Graph,
    train: Operation<'g>,
    feeds: Vec<Feed<'g>>,
) -> BTreeMap<String, usize> {
    let options = SessionOptions::new().threads(1).gpu(planned_gpu());
    let options = options.soft_placement(true);
    let session = Session::with_options(g, options).unwrap();
    let text = session.explain(train, feeds).unwrap();
    let mut found = BTreeMap::new();
    let mut on_gpu = false;
    for line in text.lines() {
        if let Some(device) = line.strip_prefix("# /job") {
            on_gpu = device.contains("GPU");
        }
        if let Some((op, _)) = line.strip_prefix("# ").and_then(|l| l.split_once(" '"))
            && line.contains("runs on the host of")
        {
            *found.entry(op.to_owned()).or_insert(0) += 1;
        } else if !on_gpu && let Some(op) = instruction_op(line) {
            *found.entry(op.to_owned()).or_insert(0) += 1;
        }
    }
    found
}

/// Zeros for all placeholders.
pub fn feeds(g: &Graph) -> Vec<Feed<'_>> {
    let data = g.snapshot();
    let placeholders = data
        .nodes()
        .filter(|(_, node)| node.op.name == "Placeholder");
    let feed = |name: &str, fact: &thalweg::graph::Fact| {
        let dims = fact.shape.to_dims().unwrap();
        let zeros = Tensor::zeros(fact.dtype, &dims).unwrap();
        g.find(name).unwrap().output(0).feed(zeros)
    };
    placeholders
        .map(|(_, node)| feed(&node.name, &node.outputs[0]))
        .collect()
}

/// The op of an instruction's line: `3: %4@0 = MatMul y (%1 %2) after [0]`.
fn instruction_op(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (_, made) = rest.split_once("= ")?;
    made.split([' ', '[']).next()
}

/// A step of momentum with a rate that decays with the global step.
pub fn trained<'g>(g: &'g Graph, loss: Output<'g>) -> Operation<'g> {
    let step = create_global_step(g);
    let rate = exponential_decay(0.1, step.value(), 100, 0.9, true);
    Momentum::new(rate, 0.9).minimize_counting(loss, step)
}

#[test]
fn nothing_of_a_networks_training_runs_on_the_host() {
    let mut all = BTreeMap::new();
    for model in models::all() {
        for compute in [DType::F32, DType::F16] {
            let g = Graph::new();
            let train = g.device("/gpu:0", || {
                let side = model.size as i64;
                let channels = model.data.channels() as i64;
                let images = g.placeholder("images", DType::F32, [8, side, side, channels]);
                let labels = g.placeholder("labels", DType::I32, [8]);
                let options = Options::new().compute(compute);
                let network = model.build(&g, images, model.data.classes(), &options);
                let loss = losses::sparse_softmax_cross_entropy(labels, network.logits).value();
                trained(&g, loss)
            });
            let found = host_ops(&g, train);
            if !found.is_empty() {
                all.insert(format!("{} {compute}", model.name), found);
            }
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// The host's ops of a step of a network that this builds on 8 examples.
fn of_network(
    build: impl for<'g> Fn(&'g Graph, Output<'g>) -> Output<'g>,
) -> BTreeMap<String, usize> {
    let g = Graph::new();
    let train = g.device("/gpu:0", || {
        let tokens = g.placeholder("tokens", DType::I32, [8, 16]);
        let labels = g.placeholder("labels", DType::I32, [8]);
        let logits = build(&g, tokens);
        let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
        trained(&g, loss)
    });
    host_ops(&g, train)
}

#[test]
fn nothing_of_an_embeddings_training_runs_on_the_host() {
    let found = of_network(|_, tokens| {
        let words = embedding(1000, 32).on(tokens);
        dense(10).on(words.reduce_mean(&[1], false))
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn nothing_of_attentions_training_runs_on_the_host() {
    let found = of_network(|_, tokens| {
        let words = embedding(1000, 32).on(tokens);
        let mixed = multi_head_attention(4, 32).causal().on(words);
        dense(10).on(mixed.reduce_mean(&[1], false))
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn nothing_of_a_recurrent_networks_training_runs_on_the_host() {
    let lstm = of_network(|_, tokens| {
        let words = embedding(1000, 32).on(tokens);
        let first = rnn(lstm_cell(32)).named("first").on(words);
        let second = rnn(lstm_cell(32)).named("second").on(first);
        dense(10).on(second.at((.., -1)))
    });
    assert!(lstm.is_empty(), "{lstm:#?}");
    let gru = of_network(|_, tokens| {
        let words = embedding(1000, 32).on(tokens);
        let sequence = rnn(gru_cell(32)).over(words);
        dense(10).on(sequence.last())
    });
    assert!(gru.is_empty(), "{gru:#?}");
}

#[path = "../../examples/lstm.rs"]
#[allow(dead_code)]
mod lstm;

#[test]
fn nothing_of_the_training_of_the_example_with_an_lstm_runs_on_the_host() {
    let g = Graph::new();
    let built = g.device("/gpu:0", || lstm::training(&g));
    let feeds = vec![
        built
            .images
            .feed(Tensor::zeros(DType::F32, &[50, 784]).unwrap()),
        built.labels.feed(Tensor::zeros(DType::I64, &[50]).unwrap()),
    ];
    let found = host_ops_with(&g, built.train, feeds);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_loop_with_lists_of_unknown_length_runs_on_the_host() {
    let found = of_network(|g, tokens| {
        let words = embedding(1000, 32).on(tokens);
        let lengths = g.placeholder("lengths", DType::I32, [8]);
        let outputs = rnn(lstm_cell(32)).lengths(lengths).on(words);
        dense(10).on(outputs.at((.., -1)))
    });
    // Its values cross once a step, and not in each iteration.
    assert!(found.contains_key("While"), "{found:#?}");
    assert!(found["_Recv"] <= 10 && found["_Send"] <= 8, "{found:#?}");
}

#[test]
fn a_loop_with_lists_of_too_many_iterations_runs_on_the_host() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let empty = g.op("EmptyTensorList").input(g.constant([2i32]));
    let empty = empty.input(g.constant(-1i32));
    let empty = empty.attr("element_dtype", DType::F32).output();
    let end = g.while_loop(
        &[g.constant(0i32), empty],
        |_, v| v[0].less(1_000_000_000i32),
        |b, v| {
            let pushed = b.op("TensorListPushBack").input(v[1]).input(x);
            let pushed = pushed.attr("element_dtype", DType::F32).output();
            vec![v[0] + 1, pushed]
        },
    );
    let count = g.op("TensorListLength").input(end[1]).build();
    let found = host_ops(&g, count);
    assert!(found.contains_key("StatelessWhile"), "{found:#?}");
}

/// The host's ops of a step of ResNet-20 in half precision.
fn of_scaled_training(scale: LossScale) -> BTreeMap<String, usize> {
    let g = Graph::new();
    let parallel = DataParallel::new(VariableUpdate::ParameterServer)
        .device_type("gpu")
        .parameter_device(ParameterDevice::Towers)
        .loss_scale(scale);
    let training = parallel.build(
        &g,
        |_| Momentum::new(0.1, 0.9),
        |tower| {
            let g = tower.graph();
            let images = g.placeholder("images", DType::F32, [8, 32, 32, 3]);
            let labels = g.placeholder("labels", DType::I32, [8]);
            let model = models::find("resnet20", models::Data::Cifar10).unwrap();
            let options = Options::new().compute(DType::F16);
            let network = model.build(g, images, 10, &options);
            losses::sparse_softmax_cross_entropy(labels, network.logits).value()
        },
    );
    let training = training.unwrap();
    host_ops(&g, training.step)
}

#[test]
fn nothing_of_scaled_training_in_half_precision_runs_on_the_host() {
    let automatic = LossScale::Automatic {
        initial: 128.0,
        double_after: 1000,
    };
    for scale in [LossScale::Fixed(128.0), automatic] {
        let found = of_scaled_training(scale);
        assert!(found.is_empty(), "{scale:?}: {found:#?}");
    }
}
