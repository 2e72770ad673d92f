//! Event files for TensorBoard: deep MNIST's graph, and from a short training the loss and accuracy, histograms of
//! weights and gradients, input images, learned filters, hyperparameters, and time and memory of each node in a step.
//! `graph.pb` is a GraphDef and `step.json` a trace, which other programs read too.
//!
//! ```text
//! cargo run --release --example tensorboard -- --out logs --train-steps 500
//! tensorboard --logdir logs
//! ```

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use thalweg::data::{Mnist, SIDE};
use thalweg::graphdef::{ExportOptions, export, file};
use thalweg::prelude::*;
use thalweg::summary::{RunStatus, SessionEvent, SummaryWriter};
use thalweg::train::run_metadata;
use thalweg_examples::accuracy::Test;
use thalweg_examples::model::{self, DeepMnist, feeds};
use thalweg_examples::output;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Write deep MNIST's graph and a short training for TensorBoard.
#[derive(Parser)]
struct Flags {
    /// The folder that the files go to
    #[arg(long, default_value = "logs")]
    out: PathBuf,
    /// Number of training steps
    #[arg(long, default_value_t = 20)]
    train_steps: u64,
    /// Images of a step
    #[arg(long, default_value_t = 50)]
    batch_size: usize,
    /// Adam's learning rate
    #[arg(long, default_value_t = 1e-3)]
    learning_rate: f32,
    /// Steps between writes of histograms, images and the test accuracy
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    summary_every: u64,
    /// The folder of MNIST's four files; a part of it comes with the program
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

/// The share of the features that the dropout keeps in training.
const KEEP: f32 = 0.5;
/// Number of test images of an accuracy.
const TEST_IMAGES: usize = 1000;

fn main() -> Result<()> {
    let flags = Flags::parse();
    let g = Graph::new();
    g.set_seed(1);
    let net = build(&g, flags.learning_rate);
    let summaries = g.merge_all_summaries().ok_or("no summaries")?;
    if let Some(mistake) = g.errors().into_iter().next() {
        return Err(mistake.into());
    }

    // TensorBoard writes the shapes on the edges.
    let def = export(&g, &ExportOptions::new().output_shapes(true))?;
    fs::create_dir_all(&flags.out)?;
    fs::write(flags.out.join("graph.pb"), file::encode(&def))?;
    let writer = SummaryWriter::create(&flags.out)?;
    writer.graph_def(&def)?;
    describe(&writer, &flags)?;
    train(&flags, &g, &net, summaries, &writer)?;
    writer.hparams_end(RunStatus::Success)?;
    writer.close()?;
    output::line(format_args!(
        "{} nodes: {}",
        def.node.len(),
        writer.path().display()
    ));
    Ok(())
}

/// The network, its training op and its summaries.
fn build(g: &Graph, learning_rate: f32) -> DeepMnist<'_> {
    let inputs @ [images, labels, keep_prob] = model::placeholders(g);
    // The weights are on one device, as on a parameter server, and the tower is on another.
    let weights = model::Weights::new(|make| g.device("/device:CPU:0", make));
    let (loss, accuracy) = g.device("/device:CPU:1", || {
        let tower = || model::tower(g, inputs, DataFormat::Nhwc, &weights);
        g.name_scope("tower", tower)
    });
    let (train, gradients) = g.name_scope("train", || {
        let optimizer = Adam::new(learning_rate);
        let gradients = optimizer.compute_gradients(loss, &weights.all());
        (optimizer.apply_gradients(g, &gradients, None), gradients)
    });
    let accuracy = g.name_scope("measures", || accuracy.named("accuracy"));

    g.name_scope("gradients", || {
        for (gradient, weight) in &gradients {
            g.histogram_summary(&short(weight), *gradient);
        }
    });
    g.name_scope("weights", || {
        for weight in weights.all() {
            g.histogram_summary(&short(&weight), weight.value());
        }
    });
    let side = SIDE as i64;
    g.image_summary("inputs", images.reshape([-1, side, side, 1]), 4);
    if let Some(filters) = weights.all().first() {
        // [height, width, 1, filters] becomes a batch of images.
        g.image_summary("filters", filters.value().transpose([3, 0, 1, 2]), 8);
    }
    DeepMnist {
        images,
        labels,
        keep_prob,
        loss,
        accuracy,
        train,
    }
}

/// "conv1/weight" of "tower/conv1/weight".
fn short(weight: &Variable<'_>) -> String {
    let name = weight.name();
    name.strip_prefix("tower/").unwrap_or(&name).to_owned()
}

/// Writes a description of the run and its hyperparameters.
fn describe(writer: &SummaryWriter, flags: &Flags) -> Result<()> {
    let text = format!(
        "Deep MNIST: two convolutions, two fully connected layers, a dropout that keeps {KEEP}.\n\n\
         | flag | value |\n| --- | --- |\n| steps | {} |\n| batch size | {} |\n| learning rate | {} |",
        flags.train_steps, flags.batch_size, flags.learning_rate
    );
    writer.text("run", &text, 0)?;
    let hparams = [
        ("learning_rate", f64::from(flags.learning_rate).into()),
        ("batch_size", flags.batch_size.into()),
        ("keep_prob", KEEP.into()),
        ("optimizer", "Adam".into()),
    ];
    writer.hparams(hparams, &["loss", "accuracy/test"])?;
    Ok(())
}

fn train<'g>(
    flags: &Flags,
    g: &'g Graph,
    net: &DeepMnist<'g>,
    summaries: Output<'g>,
    writer: &SummaryWriter,
) -> Result<()> {
    let bundled = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"));
    let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
    let session = Session::with_options(g, SessionOptions::new().cpus(2))?;
    session.run(g.initializers(), [])?;
    let mut batches = mnist.train.batches(flags.batch_size, 1)?;
    let mut batch = feeds(flags.batch_size, KEEP)?;
    let mut test = Test::new(&session, net)?;
    writer.session_log(SessionEvent::Start, 0)?;
    for step in 1..=flags.train_steps {
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        let step_number = i64::try_from(step)?;
        let due = step % flags.summary_every == 0 || step == 1 || step == flags.train_steps;
        let fetches = (net.train, net.loss, net.accuracy);
        let ((), loss, accuracy): ((), f32, f32) = match due {
            false => session.run(fetches, net.feed(&batch))?,
            true => {
                let (found, summary): (_, Tensor) =
                    session.run((fetches, summaries), net.feed(&batch))?;
                writer.summary(&summary.as_strings()?[0], step_number)?;
                let tested = test.accuracy(&mnist.test, TEST_IMAGES)?;
                writer.scalar("accuracy/test", tested, step_number)?;
                found
            }
        };
        writer.scalar("loss", loss, step_number)?;
        writer.scalar("accuracy/batch", accuracy, step_number)?;
    }
    let last = i64::try_from(flags.train_steps)?;
    let (_, trace) = session.step_with(net.train, net.feed(&batch), &RunOptions::new().traced())?;
    writer.run_metadata(&format!("step {last}"), &run_metadata(g, &trace), last)?;
    trace.save(flags.out.join("step.json"))?;
    output::line(trace.profile());
    writer.session_log(SessionEvent::Stop, last)?;
    Ok(())
}
