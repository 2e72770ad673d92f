//! An LSTM that reads MNIST images line by line: 93% accuracy after three epochs of the bundled sixth of the images.
//!
//! ```text
//! cargo run --release --example lstm [EPOCHS]
//! ```

use std::error::Error;

use thalweg::data::Mnist;
use thalweg::layers::{dense, losses, lstm_cell, rnn};
use thalweg::prelude::*;
use thalweg_examples::output;

const BATCH: usize = 50;

/// A network, and a step of its training.
pub struct Training<'g> {
    pub images: Output<'g>,
    pub labels: Output<'g>,
    pub loss: Output<'g>,
    pub accuracy: Output<'g>,
    pub train: Operation<'g>,
}

/// Builds the network for batches of any size.
pub fn training(g: &Graph) -> Training<'_> {
    let images = g.placeholder("images", DType::F32, [None, Some(784)]);
    let labels = g.placeholder("labels", DType::I64, [None]);
    // A sequence of 28 lines; the last output depends on all of them.
    let outputs = rnn(lstm_cell(96)).on(images.reshape([-1, 28, 28]));
    let logits = dense(10).on(outputs.at((.., -1)));
    let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
    let accuracy = logits.arg_max(1).equal(labels).cast(DType::F32).mean();

    // Long chains of steps can have large gradients.
    let optimizer = Adam::new(2e-3);
    let (gradients, variables): (Vec<_>, Vec<_>) = optimizer
        .compute_gradients(loss, &g.trainable_variables())
        .into_iter()
        .unzip();
    let (clipped, _) = clip_by_global_norm(g, &gradients, 1.0);
    let pairs: Vec<_> = clipped.into_iter().zip(variables).collect();
    Training {
        images,
        labels,
        loss,
        accuracy,
        train: optimizer.apply_gradients(g, &pairs, None),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let epochs = std::env::args().nth(1).map_or(Ok(3), |n| n.parse())?;
    let g = Graph::new();
    g.set_seed(1);
    let Training {
        images,
        labels,
        loss,
        accuracy,
        train,
    } = training(&g);
    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let [test_images, test_labels] = mnist.test.tensors()?;
    let mut batches = mnist.train.batches(BATCH, 1)?;
    for epoch in 1..=epochs {
        let mut last = 0.0f32;
        while batches.epoch() < epoch {
            let [x, y] = batches.tensors()?;
            ((), last) = session.run((train, loss), [images.feed(x), labels.feed(y)])?;
        }
        let test = [images.feed(&test_images), labels.feed(&test_labels)];
        let right: f32 = session.run(accuracy, test)?;
        output::line(format_args!(
            "epoch {epoch}: last loss {last:.4}, {:.2}% of the test images",
            100.0 * right
        ));
    }
    Ok(())
}
