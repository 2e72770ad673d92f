//! Data parallelism inside one process: towers of deep MNIST, each on a CPU device of its own, whose
//! gradients are averaged where the variables are.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use thalweg::data::Mnist;
use thalweg::prelude::*;
use thalweg::train::StopSignal;
use thalweg_examples::model::{Weights, feeds, placeholders, tower};
use thalweg_examples::progress::Progress;
use thalweg_examples::report::print;

/// Trains deep MNIST with several towers that share their variables.
#[derive(Parser)]
struct Flags {
    /// The towers: CPU devices that share the machine's threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    towers: u16,
    /// Images that each tower takes in a step.
    #[arg(long, default_value_t = 50)]
    batch_size: usize,
    /// Steps of training.
    #[arg(long, default_value_t = 200)]
    train_steps: u64,
    /// The folder with MNIST's four files; without it, a part of MNIST that comes with the code.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Prints which device runs each node, and why, instead of training.
    #[arg(long)]
    placement: bool,
    /// Prints results as lines of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse();
    let stop = StopSignal::catch()?;
    let towers = usize::from(flags.towers);
    let batch = towers
        .checked_mul(flags.batch_size)
        .ok_or("--batch-size is too large")?;

    let g = Graph::new();
    g.set_seed(1);
    let [images, labels, keep_prob] = placeholders(&g);
    // The variables are made by the first tower, and live on the first device.
    let weights = Weights::new(|make| g.device("/cpu:0", make));
    let optimizer = Adam::new(1e-4);
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for tower_index in 0..towers {
        g.device(format!("/cpu:{tower_index}"), || {
            let part = |x: Output<'_>| x.split(towers, 0)[tower_index].id();
            let inputs = [g.output(part(images)), g.output(part(labels)), keep_prob];
            let (loss, _) = tower(&g, inputs, DataFormat::Nhwc, &weights);
            losses.push(loss);
            gradients.push(optimizer.compute_gradients(loss, &weights.all()));
        });
    }
    let averaged: Vec<_> = (0..weights.all().len())
        .map(|i| {
            let variable = gradients[0][i].1;
            let all: Vec<_> = gradients.iter().map(|tower| tower[i].0).collect();
            let mean = || g.add_n(&all) * (1.0 / towers as f64);
            let mean = g.colocate_with(variable.handle().operation(), mean);
            (mean, variable)
        })
        .collect();
    let train = optimizer.apply_gradients(&g, &averaged, None);
    let loss = g.device("/cpu:0", || g.add_n(&losses) * (1.0 / towers as f64));

    let session = Session::with_options(&g, SessionOptions::new().cpus(towers))?;
    if flags.placement {
        let table = session.placement()?.to_text();
        return Ok(std::io::stdout().write_all(table.as_bytes())?);
    }
    session.run(g.initializers(), [])?;
    let bundled = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"));
    let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
    let mut batches = mnist.train.batches(batch, 1)?;
    let mut values = feeds(batch, 0.5)?;
    let mut step = session.callable((train, loss), [images, labels, keep_prob])?;
    let mut progress = Progress::new(flags.train_steps, batch, !flags.json);
    let (begin, mut done, mut last) = (Instant::now(), 0, f32::NAN);
    while done < flags.train_steps && !stop.is_set() {
        let [images, labels, _] = &mut values;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        last = step.call(&values)?.scalar::<f32>(1)?;
        done += 1;
        progress.step(last);
    }
    progress.finish();
    let speed = (done as usize * batch) as f64 / begin.elapsed().as_secs_f64().max(1e-9);
    let workload = format!("deep_mnist_towers_{towers}");
    let results = [
        (workload.as_str(), speed, "images/s"),
        ("deep_mnist_towers_loss", f64::from(last), "nats"),
    ];
    print(flags.json, batch, &results);
    Ok(())
}
