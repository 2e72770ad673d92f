//! Deep MNIST with checkpoints: after a stop or a kill, the next start continues from the last checkpoint.
//!
//! ```text
//! cargo run --release --example monitored -- logs 1000
//! tensorboard --logdir logs
//! ```

use std::error::Error;

use thalweg::data::Mnist;
use thalweg::prelude::*;
use thalweg::train::hooks::{
    Every, LoggingTensorHook, NanTensorHook, StopAtStepHook, StopOnSignalHook,
};
use thalweg_examples::model::{deep_mnist_trained_by, feeds};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or("monitored".to_owned());
    if folder.starts_with('-') {
        return Err("usage: monitored [FOLDER [STEPS]]".into());
    }
    let steps: i64 = args.next().map_or(Ok(1000), |n| n.parse())?;

    let g = Graph::new();
    g.set_seed(1);
    let step = create_global_step(&g);
    let train = |loss| Adam::new(1e-4).minimize_counting(loss, step);
    let net = deep_mnist_trained_by(&g, DataFormat::Nhwc, train);
    g.scalar_summary("loss", net.loss);
    g.scalar_summary("accuracy", net.accuracy);
    for w in g.trainable_variables() {
        g.histogram_summary(&w.name(), w);
    }

    let saver = Saver::new(&g);
    let position = saver.keep("input/position", 0u64);
    let told = [("loss", net.loss.id()), ("step", step.value().id())];
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(&folder)
        .scaffold(Scaffold::new().saver(saver))
        .save_checkpoint(Every::Steps(100))
        .hook(StopAtStepHook::last_step(steps))
        .hook(StopOnSignalHook::catch()?)
        .hook(NanTensorHook::new(net.loss.id()))
        .hook(LoggingTensorHook::every_steps(told, 100))
        .start(|| Session::new(&g))?;

    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let mut batches = mnist.train.batches(50, 1)?;
    batches.seek(position.get().to_scalar()?);
    let mut batch = feeds(50, 0.5)?;
    while !session.should_stop() {
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        position.set(batches.position());
        session.run(net.train, net.feed(&batch))?;
    }
    Ok(session.close()?)
}
