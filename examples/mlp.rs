//! A multi-layer perceptron for MNIST: 95% accuracy after five epochs of the bundled sixth of the images.
//!
//! ```text
//! cargo run --release --example mlp [EPOCHS]
//! ```

use std::error::Error;

use thalweg::data::Mnist;
use thalweg::layers::{dense, dropout, losses};
use thalweg::prelude::*;
use thalweg_examples::output;

const BATCH: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let epochs = std::env::args().nth(1).map_or(Ok(5), |n| n.parse())?;
    let g = Graph::new();
    g.set_seed(1);
    let images = g.placeholder("images", DType::F32, [None, Some(784)]);
    let labels = g.placeholder("labels", DType::I64, [None]);
    let training = g.placeholder("training", DType::Bool, []);
    let h = dense(256).on(images).relu();
    let h = dropout(0.3).training(training).on(h);
    let h = dense(128).on(h).relu();
    let logits = dense(10).named("logits").on(h);
    let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
    let accuracy = logits.arg_max(1).equal(labels).cast(DType::F32).mean();
    let train = Adam::new(1e-3).minimize(loss);

    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let [test_images, test_labels] = mnist.test.tensors()?;
    let mut batches = mnist.train.batches(BATCH, 1)?;
    for epoch in 1..=epochs {
        let (mut total, mut steps) = (0.0, 0.0);
        while batches.epoch() < epoch {
            let [x, y] = batches.tensors()?;
            let feeds = [images.feed(x), labels.feed(y), training.feed(true)];
            let (_, loss): (_, f32) = session.run((train, loss), feeds)?;
            (total, steps) = (total + loss, steps + 1.0);
        }
        let test = [
            images.feed(&test_images),
            labels.feed(&test_labels),
            training.feed(false),
        ];
        let right: f32 = session.run(accuracy, test)?;
        output::line(format_args!(
            "epoch {epoch}: loss {:.4}, {:.2}% of {} test images",
            total / steps,
            100.0 * right,
            mnist.test.len()
        ));
    }
    Ok(())
}
