//! A convolutional network with batch normalization for MNIST: 96% accuracy after two epochs of the bundled sixth of
//! the images.
//!
//! ```text
//! cargo run --release --example cnn [EPOCHS]
//! ```

use std::error::Error;

use thalweg::data::Mnist;
use thalweg::layers::update_ops;
use thalweg::layers::{Regularizer, batch_norm, conv2d, dense, losses, max_pool};
use thalweg::prelude::*;
use thalweg_examples::output;

const BATCH: usize = 50;

/// Logits of images `[n, 784]`.
fn network<'g>(images: Output<'g>, training: Output<'g>) -> Output<'g> {
    // Without a bias: the normalization adds one.
    let block = |x, channels| {
        let x = conv2d(channels, 3)
            .padding(Padding::Same)
            .without_bias()
            .on(x);
        max_pool(2, 2).on(batch_norm().training(training).on(x).relu())
    };
    let h = block(images.reshape([-1, 28, 28, 1]), 16);
    let h = block(h, 32);
    let h = h.reshape([-1, 7 * 7 * 32]);
    dense(10).kernel_regularizer(Regularizer::L2(1e-4)).on(h)
}

fn main() -> Result<(), Box<dyn Error>> {
    let epochs = std::env::args().nth(1).map_or(Ok(2), |n| n.parse())?;
    let g = Graph::new();
    g.set_seed(1);
    let images = g.placeholder("images", DType::F32, [None, Some(784)]);
    let labels = g.placeholder("labels", DType::I64, [None]);
    let training = g.placeholder("training", DType::Bool, []);
    let logits = network(images, training);
    losses::sparse_softmax_cross_entropy(labels, logits).value();
    // With the regularization losses.
    let loss = losses::total(&g);
    let accuracy = logits.arg_max(1).equal(labels).cast(DType::F32).mean();
    let minimize = Adam::new(2e-3).minimize(loss);
    let train = g.group("train", update_ops(&g).into_iter().chain([minimize]));

    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let mut batches = mnist.train.batches(BATCH, 1)?;
    for epoch in 1..=epochs {
        while batches.epoch() < epoch {
            let [x, y] = batches.tensors()?;
            session.run(train, [images.feed(x), labels.feed(y), training.feed(true)])?;
        }
        let mut right = 0.0;
        for part in mnist.test.chunks(200)? {
            let [x, y] = part.tensors()?;
            let feeds = [images.feed(x), labels.feed(y), training.feed(false)];
            right += session.run::<f32>(accuracy, feeds)? * part.len() as f32;
        }
        let share = 100.0 * right / mnist.test.len() as f32;
        output::line(format_args!(
            "epoch {epoch}: {share:.2}% of {} test images",
            mnist.test.len()
        ));
    }
    Ok(())
}
