//! A training step of deep MNIST at batch 50 on two threads: with one synthetic batch, and with batches from TFRecord
//! files. Both run in turns.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use thalweg::data::example::{Example, ExampleWriter};
use thalweg::data::pipeline::{self, Remainder};
use thalweg::data::{Compression, DataError, Mnist, RecordWriter};
use thalweg::image::{self, Image, Size, encode};
use thalweg::prelude::*;
use thalweg_examples::model;
use thalweg_examples::report::{median, table};

const BATCH: usize = 50;
const STEPS: usize = 200;
const ROUNDS: usize = 9;
const CLASSES: usize = 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("thalweg-bench-input-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("mnist.tfrecord");
    write_records(&file)?;
    let measured = measure(&file);
    std::fs::remove_dir_all(folder)?;
    let [synthetic, records] = measured?;
    let overhead = synthetic.iter().zip(&records).map(|(s, r)| 1.0 - s / r);
    let rows = [("synthetic", &synthetic), ("TFRecord", &records)].map(|(name, seconds)| {
        let micros = |x: Option<f64>| format!("{:.0}", 1e6 * x.unwrap_or(f64::NAN));
        let least = seconds.iter().copied().reduce(f64::min);
        let most = seconds.iter().copied().reduce(f64::max);
        let range = format!("{} to {}", micros(least), micros(most));
        [name.to_owned(), micros(median(seconds.clone())), range]
    });
    println!("{}", table(["input", "us a step", "range"], rows));
    let overhead = median(overhead.collect()).unwrap_or(f64::NAN);
    println!(
        "overhead: {:.1}%, median of {ROUNDS} rounds",
        100.0 * overhead
    );
    Ok(())
}

/// Writes the images of MNIST as PNG files in records, as `thalweg data convert` does.
fn write_records(file: &Path) -> Result<()> {
    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let mut writer = RecordWriter::create(file, Compression::None)?;
    let mut batches = mnist.train.batches(1, 1)?;
    for _ in 0..mnist.train.len() {
        let [pixels, label] = batches.tensors()?;
        let bytes = pixels.as_slice::<f32>()?.iter().map(|x| (255.0 * x) as u8);
        let picture = Image::new(Size::new(28, 28, 1), bytes.collect())?;
        let record = ExampleWriter::new().bytes("image/encoded", [encode::png(&picture)?]);
        let record = record.ints("image/class/label", &[label.as_slice::<i64>()?[0]]);
        writer.write(&record.finish())?;
    }
    Ok(writer.finish()?)
}

/// Pixels and classes of a record.
fn parse(record: &[u8]) -> std::result::Result<[Tensor; 2], DataError> {
    let failed = |e| DataError::Function(Box::new(e));
    let missing = || DataError::Function("a feature is missing".into());
    let example = Example::parse(record)?;
    let file = example.get("image/encoded").and_then(|f| f.bytes()?.next());
    let label = example
        .get("image/class/label")
        .and_then(|f| f.ints()?.next());
    let picture = image::decode(file.ok_or_else(missing)?, 1).map_err(failed)?;
    let pixels: Vec<f32> = picture
        .pixels
        .iter()
        .map(|&x| f32::from(x) / 255.0)
        .collect();
    let mut classes = [0f32; CLASSES];
    classes[label.ok_or_else(missing)? as usize % CLASSES] = 1.0;
    Ok([Tensor::vector(&pixels), Tensor::vector(&classes)])
}

/// Seconds of a step in each round, with synthetic batches and with those of a file.
fn measure(file: &Path) -> Result<[Vec<f64>; 2]> {
    let g = Graph::new();
    g.set_seed(1);
    let net = model::deep_mnist(&g, DataFormat::Nhwc, 1e-4);
    let session = Session::with_options(&g, SessionOptions::new().threads(2))?;
    session.run(g.initializers(), [])?;
    let mut step = session.callable((net.train, net.loss), net.inputs())?;
    let synthetic = model::synthetic_feeds(BATCH)?;
    let keep = synthetic[2].clone();
    let mut records = pipeline::records([file])
        .map(|record| parse(&record))
        .cache()
        .shuffle(10_000, 1)
        .repeat(None)
        .batch(BATCH, Remainder::Drop)
        .prefetch(2)
        .map(move |[images, labels]| Ok([images, labels, keep.clone()]));
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let begun = Instant::now();
        for _ in 0..STEPS {
            step.call(&synthetic)?;
        }
        let alone = begun.elapsed();
        let begun = Instant::now();
        step.run_over(records.by_ref().take(STEPS), |_| {
            Ok::<_, Box<dyn Error>>(ControlFlow::Continue(()))
        })?;
        // The first round fills caches.
        if round > 0 {
            seconds[0].push(alone.as_secs_f64() / STEPS as f64);
            seconds[1].push(begun.elapsed().as_secs_f64() / STEPS as f64);
        }
    }
    Ok(seconds)
}
