//! Part `rest`: the full op table, gradients, random graphs, training to an accuracy, and NVIDIA's tools.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg::data::Mnist;
use thalweg::prelude::*;
use thalweg_examples::accuracy::Test;
use thalweg_examples::model::{deep_mnist, feeds};
use thalweg_tests::gradients::{all_cases, check};
use thalweg_tests::{root, scattered_graphs};

use crate::bench::{Bench, Scale, skipped};
use crate::op_table;
use crate::units::UnitResult;

/// Time limit of the training.
const TRAINING_LIMIT: Duration = Duration::from_secs(100);

pub fn names() -> Vec<String> {
    let first = [
        "accuracy",
        "cnn_benchmarks",
        "memcheck",
        "profile",
        "gradients",
        "random graphs",
    ];
    let ops = op_table::all().into_iter().map(|op| format!("op {op}"));
    first.map(str::to_owned).into_iter().chain(ops).collect()
}

pub fn run(bench: &mut Bench, name: &str) -> UnitResult {
    match name {
        "cnn_benchmarks" => cnn_benchmarks(),
        "accuracy" => accuracy(bench),
        "memcheck" => memcheck(),
        "profile" => profile(),
        "gradients" => all_gradients(bench),
        "random graphs" => {
            let graphs = bench.by_scale(256, 4);
            scattered_graphs::check(&bench.gpu(true)?, graphs)?;
            Ok(json!({"graphs": graphs}))
        }
        _ => match name.split_once(' ') {
            Some(("op", op)) => op_table::run(bench, op, &op_table::FULL),
            _ => Err("there is no such unit".into()),
        },
    }
}

/// Trains deep MNIST to an accuracy of 99% on all images, or 97.5% on the bundled sixth.
fn accuracy(bench: &mut Bench) -> UnitResult {
    let full = root().join("data/full_mnist");
    let (folder, least) = match full.is_dir() {
        true => (full, 0.99),
        false => (root().join("data/mnist"), 0.975),
    };
    let least = bench.by_scale(least, 0.0);
    let mnist = Mnist::load(&folder)?;
    let g = Graph::new();
    g.set_seed(1);
    let net = g.device("/gpu:0", || deep_mnist(&g, DataFormat::Nhwc, 5e-4));
    let session = Session::with_options(&g, bench.options()?)?;
    session.run(g.initializers(), [])?;
    let mut step = session.callable((net.train, net.loss), net.inputs())?;
    let mut test = Test::new(&session, &net)?;
    let size = bench.by_scale(100, 2);
    let mut batches = mnist.train.batches(size, 1)?;
    let mut batch = feeds(size, 0.5)?;
    let (began, mut steps, mut found) = (Instant::now(), 0u32, 0.0);
    while steps == 0 || (found < least && began.elapsed() < TRAINING_LIMIT) {
        for _ in 0..bench.by_scale(600, 2) {
            let [images, labels, _] = &mut batch;
            batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
            step.call(&batch)?;
            steps += 1;
        }
        // Two hundred images are too much for an emulated card.
        if bench.scale == Scale::Full {
            found = test.accuracy(&mnist.test, usize::MAX)?;
        }
    }
    match found >= least {
        true => Ok(json!({
            "accuracy": found, "images": mnist.train.len(), "steps": steps, "batch": size,
            "seconds_of_training": began.elapsed().as_secs_f64(),
        })),
        false => Err(format!("{found} after {steps} steps, less than {least}").into()),
    }
}

/// Every gradient against finite differences.
fn all_gradients(bench: &mut Bench) -> UnitResult {
    let options = bench.options()?.soft_placement(true);
    let mut cases = all_cases();
    cases.truncate(bench.by_scale(usize::MAX, 5));
    let wrong = cases.iter().filter_map(|case| {
        let why = check(case, false, &options).err()?;
        Some(format!("{}: {why}", case.name))
    });
    let wrong: Vec<String> = wrong.collect();
    match wrong.is_empty() {
        true => Ok(json!({"cases": cases.len()})),
        false => Err(wrong.join("\n").into()),
    }
}

/// compute-sanitizer on the kernels of pooling: those with the most complicated borders.
fn memcheck() -> UnitResult {
    let arguments = ["--tool", "memcheck", "--error-exitcode", "99"];
    tool("compute-sanitizer", &arguments, "networks/MaxPoolGrad")
}

/// Nsight Compute on the kernels of a training step.
fn profile() -> UnitResult {
    let arguments = [
        "--csv",
        // The card's clocks stay as they are.
        "--clock-control",
        "none",
        "--set",
        "basic",
        "--launch-skip",
        "200",
        "--launch-count",
        "60",
    ];
    tool("ncu", &arguments, "training/deep_mnist NHWC 50 f32 graph")
}

/// The program `cnn_benchmarks` on ResNet-50 for 20 steps, fed from the host as its users do.
fn cnn_benchmarks() -> UnitResult {
    let program = root().join("bin/cnn_benchmarks");
    if !program.is_file() {
        return skipped("the folder has no cnn_benchmarks");
    }
    let flags = [
        "--device=gpu",
        "--model=resnet50",
        "--batch_size=256",
        "--use_fp16",
        "--num_warmup_batches=5",
        "--num_batches=20",
    ];
    printed(Command::new(program).args(flags))
}

/// Runs a unit under one of NVIDIA's tools.
fn tool(name: &str, arguments: &[&str], unit: &str) -> UnitResult {
    if Command::new(name).arg("--version").output().is_err() {
        return skipped(&format!("there is no {name}"));
    }
    let own = std::env::current_exe()?;
    printed(
        Command::new(name)
            .args(arguments)
            .arg(own)
            .args(["one", unit]),
    )
}

/// Runs a command; the unit's result is the text that it prints.
fn printed(command: &mut Command) -> UnitResult {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match output.status.success() {
        true => Ok(json!({"printed": text})),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {text}\n{errors}", output.status).into())
        }
    }
}
