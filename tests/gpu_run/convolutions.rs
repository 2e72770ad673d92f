//! Part `convolutions`: each convolution of ResNet-50 and InceptionV3, in three directions and three dtypes, compared
//! with PyTorch.

use serde_json::{Map, Value, json};
use thalweg::prelude::*;
use thalweg_examples::convs::{Conv, INCEPTION_V3, RESNET_50};

use crate::bench::{Bench, fallbacks};
use crate::units::UnitResult;

/// Half precision first: its engines are the newest.
const DTYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

const PASSES: [&str; 3] = ["forward", "images", "filter"];

/// Each shape once.
fn all() -> Vec<Conv> {
    let mut all = RESNET_50.to_vec();
    all.extend(INCEPTION_V3.iter().filter(|c| !RESNET_50.contains(c)));
    all
}

fn name(conv: &Conv, dtype: DType) -> String {
    format!("{} {dtype}", conv.name())
}

pub fn names() -> Vec<String> {
    let of = |dtype| all().into_iter().map(move |c| name(&c, dtype));
    DTYPES.into_iter().flat_map(of).collect()
}

pub fn run(bench: &mut Bench, wanted: &str) -> UnitResult {
    let pairs = DTYPES
        .into_iter()
        .flat_map(|d| all().into_iter().map(move |c| (c, d)));
    let found = pairs.into_iter().find(|(c, d)| name(c, *d) == wanted);
    let (mut conv, dtype) = found.ok_or("there is no such convolution")?;
    conv.side = bench.by_scale(conv.side, conv.side.min(7));
    let mut results = Map::new();
    let mut by_kernels = Vec::new();
    for pass in PASSES {
        let (seconds, plan) = ours(bench, &conv, pass, dtype)?;
        by_kernels.extend(fallbacks(&plan));
        let batch = bench.by_scale(32, 1);
        let peer = theirs(bench, &conv, pass, dtype, batch)?;
        let rate = conv.flops() * f64::from(batch) / seconds / 1e12;
        let ratio = peer.map(|p| p / seconds);
        results.insert(
            pass.to_owned(),
            json!({
                "seconds": seconds, "tflops": rate, "peer_seconds": peer, "ratio": ratio,
                "implementation": implementation(&plan),
            }),
        );
    }
    results.insert("fallbacks".to_owned(), json!(by_kernels));
    Ok(Value::Object(results))
}

/// The implementation of the convolution, from the plan's text: a library and its engine, or a kernel of our own.
fn implementation(plan: &str) -> Option<&str> {
    let mut lines = plan.lines();
    lines.find_map(|line| Some(line.split_once("is computed ")?.1))
}

/// Seconds of one convolution, and the text of its plan.
fn ours(
    bench: &mut Bench,
    conv: &Conv,
    pass: &str,
    dtype: DType,
) -> Result<(f64, String), Box<dyn std::error::Error>> {
    let (batch, together) = (bench.by_scale(32, 1), bench.by_scale(10, 1));
    let g = Graph::new();
    let variable = |name, dims: [usize; 4]| {
        let dims = dims.map(|d| d as i32);
        let initial = g.truncated_normal(dims, 0.0, 0.1, DType::F32, None);
        g.variable(name, initial.cast(dtype))
    };
    let [h, w] = conv.out();
    let nodes: Option<Vec<Operation<'_>>> = g.device("/gpu:0", || {
        let x = variable("x", [batch, conv.side, conv.side, conv.from]).value();
        let f = variable("f", [conv.filter[0], conv.filter[1], conv.from, conv.to]).value();
        let dy = variable("dy", [batch, h, w, conv.to]).value();
        let padding = if conv.same {
            Padding::Same
        } else {
            Padding::Valid
        };
        let one = |_| {
            let y = x.conv2d(f, [conv.stride; 2], padding, DataFormat::Nhwc);
            match pass {
                "forward" => Some(y.operation()),
                "images" => Some(gradients_with(&[y], &[x], &[Some(dy)], &[])[0]?.operation()),
                _ => Some(gradients_with(&[y], &[f], &[Some(dy)], &[])[0]?.operation()),
            }
        };
        (0..together).map(one).collect()
    });
    let nodes = nodes.ok_or("a convolution has gradients")?;
    // An optimised plan would compute equal nodes once.
    let options = bench.options()?.optimise(false);
    let session = Session::with_options(&g, options)?;
    session.run(g.initializers(), [])?;
    let plan = session.explain(&nodes, [])?;
    let mut step = session.callable(&nodes, ())?;
    let taken = bench.seconds(0.05, || Ok(step.call(&[]).map(|_| ())?))?;
    Ok((taken / together as f64, plan))
}

/// Seconds of one convolution on PyTorch, if it is there.
fn theirs(
    bench: &mut Bench,
    conv: &Conv,
    pass: &str,
    dtype: DType,
    batch: u32,
) -> Result<Option<f64>, Box<dyn std::error::Error>> {
    let case = json!({
        "kind": "conv", "pass": pass, "dtype": dtype.to_string(), "batch": batch,
        "side": conv.side, "from": conv.from, "to": conv.to, "filter": conv.filter,
        "stride": conv.stride, "same": conv.same,
    });
    match bench.peer() {
        // A step of the peer is ten of them.
        Some(peer) => Ok(peer.measure(&case, 0.05)?.map(|s| s / 10.0)),
        None => Ok(None),
    }
}
