//! Part `smoke`: every library call in every dtype at odd sizes, and the checks of steps.

use std::net::TcpListener;
use std::sync::Arc;

use serde_json::json;
use thalweg::collective::{Coordinator, Join, Progress, Ranks};
use thalweg::device::cuda::Library;
use thalweg::hvd::ReduceOp;
use thalweg::prelude::*;
use thalweg_tests::golden::numbers;
use thalweg_tests::gpu_steps::CHECKS;
use thalweg_tests::gpu_training::deep_mnist_trains_alike;

use crate::bench::{Bench, fallbacks, skipped};
use crate::units::UnitResult;

/// Dtypes, and the tolerance to the CPU's results as a share of the largest number.
const DTYPES: [(DType, f64); 4] = [
    (DType::F32, 2e-3),
    (DType::F64, 1e-9),
    (DType::F16, 2e-2),
    (DType::BF16, 1e-1),
];

/// Images: lines, columns, channels; filter, channels of the result, stride. No size is a multiple of a library's
/// preferred sizes.
const SHAPES: [[i64; 6]; 4] = [
    [7, 9, 3, 3, 5, 1],
    [8, 8, 4, 3, 8, 2],
    [11, 6, 1, 5, 7, 2],
    [13, 13, 16, 1, 9, 1],
];

/// The unit of collectives.
const ONE_RANK: &str = "nccl";

pub fn names() -> Vec<String> {
    let libraries = DTYPES.map(|(dtype, _)| format!("libraries {dtype}"));
    let steps = CHECKS.iter().map(|(name, _)| (*name).to_owned());
    let training = ["NHWC", "NCHW"].map(|format| format!("deep_mnist {format}"));
    let all = libraries.into_iter().chain(steps).chain(training);
    all.chain([ONE_RANK.to_owned()]).collect()
}

pub fn run(bench: &mut Bench, name: &str) -> UnitResult {
    if let Some((_, check)) = CHECKS.iter().find(|(check, _)| *check == name) {
        check(&bench.gpu(true)?);
        return Ok(json!({}));
    }
    if name == ONE_RANK {
        return one_rank(bench);
    }
    match name.split_once(' ') {
        Some(("libraries", dtype)) => {
            let known = DTYPES.iter().find(|(d, _)| d.to_string() == dtype);
            libraries(bench, *known.ok_or("there is no such dtype")?)
        }
        Some(("deep_mnist", format)) => {
            let format = match format {
                "NHWC" => DataFormat::Nhwc,
                _ => DataFormat::Nchw,
            };
            deep_mnist_trains_alike(&bench.gpu(true)?, format);
            Ok(json!({}))
        }
        _ => Err("there is no such unit".into()),
    }
}

/// Sums of two gradients over a single rank by NCCL, submitted and captured, in steps that update variables by them.
fn one_rank(bench: &mut Bench) -> UnitResult {
    if let Err(why) = Library::Nccl.open() {
        return skipped(&why.to_string());
    }
    let secret = "one rank";
    let coordinator = Coordinator::start(TcpListener::bind("127.0.0.1:0")?, 1, secret)?;
    let ranks = Ranks::join(&Join::at(coordinator.address(), 0, 1, secret))?;
    let progress = Arc::new(Progress::start(ranks)?);
    let g = Graph::new();
    let (variables, update) = g.device("/gpu:0", || {
        let variables = [5, 70_001].map(|n| g.variable(&format!("v{n}"), vec![1.0f32; n]));
        let sums = variables.map(|v| (v.value() * 0.5).all_reduce(ReduceOp::Sum));
        let updates = [0, 1].map(|i| variables[i].assign_add(sums[i]));
        (variables, g.group("update", updates))
    });
    let options = bench.options()?.collectives(progress.session());
    let session = Session::with_options(&g, options)?;
    session.run(g.initializers(), [])?;
    // The first step submits commands one by one, the second captures them, later ones replay them.
    for step in 1..=4 {
        session.run(update, [])?;
        for v in variables {
            let found: Tensor = session.run(v.value(), [])?;
            let expected = 1.5f32.powi(step);
            if found.as_slice::<f32>()?.iter().any(|&x| x != expected) {
                return Err(format!("step {step} gives no {expected}: {found:?}").into());
            }
        }
    }
    Ok(json!({"steps": 4}))
}

/// Arbitrary numbers of this shape and dtype.
fn arbitrary_numbers<'g>(g: &'g Graph, dims: &[i64], dtype: DType, seed: usize) -> Output<'g> {
    let count: i64 = dims.iter().product();
    let value = |i: i64| ((i as usize * 7919 + seed * 31) % 1013) as f32 / 1013.0 - 0.5;
    let values: Vec<f32> = (0..count).map(value).collect();
    let dims: Vec<i32> = dims.iter().map(|&d| d as i32).collect();
    g.constant(values).reshape(&dims[..]).cast(dtype)
}

/// Convolutions with their gradients in both layouts, and GEMMs with either side transposed.
fn calls(g: &Graph, dtype: DType) -> Vec<Output<'_>> {
    let mut all = Vec::new();
    for (seed, [h, w, from, k, to, stride]) in SHAPES.into_iter().enumerate() {
        for format in [DataFormat::Nhwc, DataFormat::Nchw] {
            let dims = match format {
                DataFormat::Nhwc => [3, h, w, from],
                DataFormat::Nchw => [3, from, h, w],
            };
            let x = arbitrary_numbers(g, &dims, dtype, seed);
            let filter = arbitrary_numbers(g, &[k, k, from, to], dtype, seed + 50);
            let y = x.conv2d(filter, [stride as usize; 2], Padding::Same, format);
            all.push(y);
            all.extend(gradients(&[y * y], &[x, filter]).into_iter().flatten());
        }
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            let turned = |t: bool, [rows, columns]: [i64; 2]| match t {
                true => [columns, rows],
                false => [rows, columns],
            };
            let a = arbitrary_numbers(g, &turned(ta, [h * w, from]), dtype, seed);
            let b = arbitrary_numbers(g, &turned(tb, [from, to]), dtype, seed + 9);
            all.push(a.matmul_t(b, ta, tb));
        }
    }
    all
}

/// Computes on the card and on the CPU, and compares. The card's step is checked three times: single commands,
/// captured, and replayed.
fn libraries(bench: &mut Bench, (dtype, share): (DType, f64)) -> UnitResult {
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let all = g.device(device, || calls(&g, dtype));
        // Otherwise constants would be folded, and nothing would be left to compute.
        let options = options.optimise(false).soft_placement(true);
        let session = Session::with_options(&g, options)?;
        let steps: Result<Vec<_>, _> = (0..3).map(|_| session.step(&all, [])).collect();
        Ok::<_, SessionError>((steps?, session.explain(&all, [])?))
    };
    let (expected, _) = run("/cpu:0", SessionOptions::new().threads(2))?;
    let (found, plan) = run("/gpu:0", bench.options()?)?;
    let mut worst: f64 = 0.0;
    for (at, step) in found.iter().enumerate() {
        for i in 0..step.len() {
            let (f, e) = (numbers(step.tensor(i)?), numbers(expected[0].tensor(i)?));
            let largest = e.iter().fold(1e-3f64, |a, b| a.max(b.abs()));
            let off = f.iter().zip(&e).map(|(f, e)| (f - e).abs() / largest);
            let off = off.fold(0.0, f64::max);
            if off.is_nan() || off > share || f.len() != e.len() {
                return Err(
                    format!("step {at}, result {i}: off by {off:.2e} of the largest").into(),
                );
            }
            worst = worst.max(off);
        }
    }
    Ok(json!({"worst": worst, "fallbacks": fallbacks(&plan)}))
}
