//! ResNet-18 on images of 32 x 32 pixels, trained on made-up classes: a pattern for each class,
//! under noise. The loss is below 0.2 after 100 steps.
//!
//! ```text
//! cargo run --release --example resnet18 [STEPS]
//! ```

use std::error::Error;

use thalweg::layers::{Initializer, batch_norm, conv2d, dense};
use thalweg::layers::{losses, update_ops};
use thalweg::prelude::*;
use thalweg_examples::output;

const BATCH: i64 = 32;
const CLASSES: usize = 10;

/// A convolution and a batch normalization, in place of a bias.
fn conv<'g>(
    x: Output<'g>,
    training: Output<'g>,
    channels: usize,
    size: usize,
    stride: usize,
) -> Output<'g> {
    let conv = conv2d(channels, size)
        .strides(stride)
        .padding(Padding::Same);
    let conv = conv
        .without_bias()
        .kernel_initializer(Initializer::he_normal());
    batch_norm().training(training).on(conv.on(x))
}

/// A residual block: two convolutions and a shortcut, with a 1 x 1 convolution where the shapes differ.
fn block<'g>(x: Output<'g>, training: Output<'g>, channels: usize, stride: usize) -> Output<'g> {
    let inside = conv(x, training, channels, 3, stride).relu();
    let inside = conv(inside, training, channels, 3, 1);
    let fits = x.shape().dim(3) == Some(channels) && stride == 1;
    let shortcut = if fits {
        x
    } else {
        conv(x, training, channels, 1, stride)
    };
    (inside + shortcut).relu()
}

/// Logits of images `[n, 32, 32, 3]`.
fn resnet18<'g>(images: Output<'g>, training: Output<'g>) -> Output<'g> {
    let mut x = conv(images, training, 64, 3, 1).relu();
    for (channels, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        x = block(x, training, channels, stride);
        x = block(x, training, channels, 1);
    }
    dense(CLASSES).on(x.reduce_mean(&[1, 2], false))
}

fn main() -> Result<(), Box<dyn Error>> {
    let steps = std::env::args().nth(1).map_or(Ok(100), |n| n.parse())?;
    let g = Graph::new();
    g.set_seed(1);
    // Each step draws a batch of its own: a pattern for each class, under noise.
    let patterns = g
        .get_variable("patterns", [CLASSES, 32, 32, 3])
        .initializer(Initializer::random_normal(0.0, 0.5))
        .trainable(false)
        .build();
    let labels = g.random_uniform_int([BATCH], 0, CLASSES as i64, DType::I64, None);
    let noise = g.random_normal([BATCH, 32, 32, 3], 0.0, 1.0, DType::F32, None);
    let logits = resnet18(patterns.value().gather(labels, 0) + noise, g.constant(true));
    let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
    let minimize = Momentum::new(0.01, 0.9).minimize(loss);
    let train = g.group("train", update_ops(&g).into_iter().chain([minimize]));

    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    for step in 1..=steps {
        let (_, loss): (_, f32) = session.run((train, loss), [])?;
        if step % 10 == 0 || step == steps {
            output::line(format_args!("step {step:3}: loss {loss:.3}"));
        }
    }
    Ok(())
}
