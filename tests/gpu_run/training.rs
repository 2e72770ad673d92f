//! Part `training`: whole training steps in alternation with PyTorch.

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::{Value, json};
use thalweg::prelude::*;
use thalweg_examples::model::{Weights, tower};
use thalweg_examples::report::median;

use crate::bench::{Bench, Scale, fallbacks};
use crate::resnet::{CLASSES, ResNet};
use crate::units::UnitResult;

/// Number of measurements of both sides, in alternation.
const ROUNDS: usize = 3;

/// Seconds of a measurement of one side.
const SECONDS: f64 = 1.0;

/// Network, layout, batch, precision, and PyTorch's way of running it.
#[derive(Clone, Copy)]
struct TrainingCase {
    model: &'static str,
    format: DataFormat,
    batch: usize,
    precision: Precision,
    /// `graph`: captured as a CUDA graph. `compiled`: by `torch.compile`, which captures as well. `traced`: not at all; a
    /// step of ours is traced.
    peer: &'static str,
}

/// Dtype of activations and products.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    F16,
    Bf16,
    F32,
    Tf32,
}

impl Precision {
    fn name(self) -> &'static str {
        match self {
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
        }
    }

    fn dtype(self) -> DType {
        match self {
            Precision::F16 => DType::F16,
            Precision::Bf16 => DType::BF16,
            Precision::F32 | Precision::Tf32 => DType::F32,
        }
    }
}

/// The networks, most valuable first; batches of 2 on an emulated card.
fn cases(scale: Scale) -> Vec<TrainingCase> {
    let case = |model, format, batch, precision, peer| TrainingCase {
        model,
        format,
        batch: if scale == Scale::Small { 2 } else { batch },
        precision,
        peer,
    };
    use Precision::{Bf16, F16, F32, Tf32};
    let (last, first) = (DataFormat::Nhwc, DataFormat::Nchw);
    vec![
        case("resnet50", last, 256, F16, "compiled"),
        case("resnet50", last, 256, Bf16, "compiled"),
        case("resnet50", last, 256, Bf16, "traced"),
        case("resnet50", last, 256, Bf16, "graph"),
        case("resnet50", last, 256, Tf32, "graph"),
        case("deep_mnist", last, 50, F32, "graph"),
        case("resnet50", last, 32, F32, "graph"),
        case("deep_mnist", first, 50, F32, "graph"),
        case("deep_mnist", last, 1024, F32, "graph"),
        case("resnet50", last, 32, Tf32, "graph"),
        case("resnet50", first, 32, F32, "graph"),
        case("deep_mnist", last, 50, F32, "compiled"),
        case("resnet50", last, 32, F32, "compiled"),
    ]
}

impl TrainingCase {
    fn name(&self) -> String {
        let precision = self.precision.name();
        let TrainingCase {
            model, batch, peer, ..
        } = self;
        format!("{model} {} {batch} {precision} {peer}", self.format.name())
    }

    /// As a peer reads it.
    fn to_peer(self) -> Value {
        json!({
            "kind": "train", "model": self.model, "format": self.format.name(), "batch": self.batch,
            "tf32": self.precision == Precision::Tf32, "dtype": self.precision.dtype().name(),
            "compiled": self.peer == "compiled",
        })
    }
}

pub fn names(scale: Scale) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for case in cases(scale) {
        // Small cases may have equal names.
        if !names.contains(&case.name()) {
            names.push(case.name());
        }
    }
    names
}

/// The first cases that PyTorch compiles, as it reads them: those in half precision.
pub fn compiled_cases(scale: Scale) -> Vec<Value> {
    let all = cases(scale).into_iter();
    let compiled = all.filter(|c| c.peer == "compiled");
    compiled.take(2).map(TrainingCase::to_peer).collect()
}

pub fn run(bench: &mut Bench, name: &str) -> UnitResult {
    let found = cases(bench.scale).into_iter().find(|c| c.name() == name);
    let case = found.ok_or("there is no such case")?;
    // Before our libraries try their engines: the choice is kept.
    bench.finish_compilation()?;
    let g = Graph::new();
    g.set_seed(1);
    let (train, loss) = g.device("/gpu:0", || built(&g, &case, bench.scale));
    let options = bench.options_with_tf32(case.precision == Precision::Tf32)?;
    let session = Session::with_options(&g, options)?;
    session.run(g.initializers(), [])?;
    let plan = session.explain((train, loss), [])?;
    let fallbacks = fallbacks(&plan);
    if case.peer == "traced" {
        return traced(&session, (train, loss));
    }
    let mut step = session.callable((train, loss), ())?;
    let mut last = f32::NAN;
    let mut ours = || -> Result<(), Box<dyn Error>> {
        last = step.call(&[])?.scalar::<f32>(1)?;
        Ok(())
    };
    let (mut own, mut peer, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.by_scale(ROUNDS, 1) {
        let seconds = bench.seconds(SECONDS, &mut ours)?;
        own.push(seconds);
        if let Some(theirs) = theirs(bench, &case)? {
            peer.push(theirs);
            ratios.push(theirs / seconds);
        }
    }
    if !last.is_finite() {
        return Err(format!("the loss is {last}").into());
    }
    let own = median(own).unwrap_or(f64::NAN);
    Ok(json!({
        "seconds": own, "images_per_second": case.batch as f64 / own, "loss": last,
        "peer_seconds": median(peer), "ratio": median(ratios), "fallbacks": fallbacks,
    }))
}

/// A step whose commands run one by one: microseconds of each op, and of each node.
fn traced(session: &Session, fetches: (Operation<'_>, Output<'_>)) -> UnitResult {
    session.step_with(fetches, [], &RunOptions::new())?;
    let (_, trace) = session.step_with(fetches, [], &RunOptions::new().traced())?;
    let mut ops: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for event in &trace.events {
        let op = ops.entry(&event.op).or_default();
        *op = (op.0 + 1, op.1 + event.duration_us);
    }
    let mut ops: Vec<_> = ops.into_iter().collect();
    ops.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let ops: Vec<Value> = ops
        .into_iter()
        .map(|(op, (runs, us))| json!({"op": op, "runs": runs, "us": us}))
        .collect();
    let events = trace.events.iter();
    let events: Vec<Value> = events
        .map(|e| json!([e.node, e.op, e.device, e.start_us, e.duration_us, e.bytes]))
        .collect();
    let event = ["node", "op", "device", "start_us", "duration_us", "bytes"];
    Ok(json!({"ops": ops, "event": event, "events": events}))
}

/// A network with images and labels on the card: its training op and its loss.
fn built<'g>(g: &'g Graph, case: &TrainingCase, scale: Scale) -> (Operation<'g>, Output<'g>) {
    let batch = case.batch as i32;
    let labels = |classes: i32| {
        let labels = (0..batch).map(|i| i % classes).collect::<Vec<i32>>();
        g.constant(labels).one_hot(classes, DType::F32)
    };
    let data = |name: &str, value: Output<'g>| g.untrained_variable(name, value).value();
    if case.model == "deep_mnist" {
        let images = data(
            "images",
            g.truncated_normal([batch, 784], 0.5, 0.2, DType::F32, None),
        );
        let labels = data("labels", labels(10));
        let keep = g.constant(0.5f32);
        let weights = Weights::new(|make| make());
        let (loss, _) = tower(g, [images, labels, keep], case.format, &weights);
        return (Adam::new(1e-4).minimize(loss), loss);
    }
    let side = if scale == Scale::Small { 32 } else { 224 };
    let dims = match case.format {
        DataFormat::Nhwc => [batch, side, side, 3],
        DataFormat::Nchw => [batch, 3, side, side],
    };
    let images = data(
        "images",
        g.truncated_normal(dims, 0.0, 1.0, DType::F32, None),
    );
    let compute = (case.format, case.precision.dtype());
    let logits = ResNet::logits(g, images, compute, scale);
    let loss = logits
        .softmax_cross_entropy(data("labels", labels(CLASSES)))
        .mean();
    (Momentum::new(1e-3, 0.9).minimize(loss), loss)
}

fn theirs(bench: &mut Bench, case: &TrainingCase) -> Result<Option<f64>, Box<dyn Error>> {
    let case = case.to_peer();
    match bench.peer() {
        Some(peer) => peer.measure(&case, SECONDS),
        None => Ok(None),
    }
}
