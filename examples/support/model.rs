//! The network of TensorFlow's deep MNIST tutorial.

#![allow(dead_code)]

use std::cell::{Cell, RefCell};

use thalweg::data::{CLASSES, SIDE};
use thalweg::prelude::*;
use thalweg::session::Feed;

/// Feeds, fetches and the training op of deep MNIST.
#[derive(Clone, Copy)]
pub struct DeepMnist<'g> {
    /// Images, `[n, 784]`, with pixels in 0..=1.
    pub images: Output<'g>,
    /// Labels, `[n, 10]`: 1 at the class of the image, 0 elsewhere.
    pub labels: Output<'g>,
    /// Probability that the dropout keeps a feature: 0.5 in training, 1 in a test.
    pub keep_prob: Output<'g>,
    /// Mean cross entropy, a scalar.
    pub loss: Output<'g>,
    /// Accuracy, a scalar.
    pub accuracy: Output<'g>,
    /// The training op.
    pub train: Operation<'g>,
}

/// Two convolutions of 5 x 5, each with a pool of 2 x 2, and two fully connected layers.
pub fn deep_mnist<'g>(g: &'g Graph, format: DataFormat, learning_rate: f32) -> DeepMnist<'g> {
    deep_mnist_trained_by(g, format, |loss| Adam::new(learning_rate).minimize(loss))
}

/// As [`deep_mnist`], with the training op that `train` builds from the loss.
pub fn deep_mnist_trained_by<'g>(
    g: &'g Graph,
    format: DataFormat,
    train: impl FnOnce(Output<'g>) -> Operation<'g>,
) -> DeepMnist<'g> {
    let [images, labels, keep_prob] = placeholders(g);
    let inputs = [images, labels, keep_prob];
    let (loss, accuracy) = tower(g, inputs, format, &Weights::new(|make| make()));
    DeepMnist {
        images,
        labels,
        keep_prob,
        loss,
        accuracy,
        train: train(loss),
    }
}

/// A learning rate that falls to zero over the last `falling` of `steps` steps: the weights then
/// settle between the last batches instead of following each.
pub fn falling_rate(step: Variable<'_>, rate: f32, steps: u64, falling: u32) -> Output<'_> {
    let g = step.value().graph();
    let constant = g.constant(steps.saturating_sub(falling.into()) as i64);
    let fallen = (step.value() - constant).maximum(0i64);
    polynomial_decay(rate, fallen, falling, 0.0, 1.0, false)
}

/// Placeholders of images, labels and the probability of keeping a feature.
pub fn placeholders(g: &Graph) -> [Output<'_>; 3] {
    [
        g.placeholder("images", DType::F32, [-1, PIXELS]),
        g.placeholder("labels", DType::F32, [-1, CLASSES as i64]),
        g.placeholder("keep_prob", DType::F32, []),
    ]
}

const PIXELS: i64 = (SIDE * SIDE) as i64;

/// The weights of a network, which its towers share: the first one makes them, the others find them.
pub struct Weights<'g> {
    made: RefCell<Vec<Variable<'g>>>,
    next: Cell<usize>,
    make: MakeWeight<'g>,
}

type MakeWeight<'g> = Box<dyn Fn(&dyn Fn() -> Variable<'g>) -> Variable<'g> + 'g>;

impl<'g> Weights<'g> {
    /// No weights yet. `make` calls its argument, in a device scope if wanted.
    pub fn new(make: impl Fn(&dyn Fn() -> Variable<'g>) -> Variable<'g> + 'g) -> Weights<'g> {
        Weights {
            made: RefCell::default(),
            next: Cell::new(0),
            make: Box::new(make),
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Variable<'g>> {
        self.made.borrow().clone()
    }

    fn next(&self, variable: impl Fn() -> Variable<'g>) -> Variable<'g> {
        let at = self.next.replace(self.next.get() + 1);
        if let Some(&made) = self.made.borrow().get(at) {
            return made;
        }
        let new = (self.make)(&variable);
        self.made.borrow_mut().push(new);
        new
    }
}

/// One tower of the network: mean cross entropy, and the accuracy.
pub fn tower<'g>(
    g: &'g Graph,
    [images, labels, keep_prob]: [Output<'g>; 3],
    format: DataFormat,
    weights: &Weights<'g>,
) -> (Output<'g>, Output<'g>) {
    weights.next.set(0);
    let weight = |dims: &[i32]| {
        weights.next(|| {
            let initial = g.truncated_normal(dims, 0.0, 0.1, DType::F32, None);
            g.variable("weight", initial)
        })
    };
    let bias = |n: usize| weights.next(|| g.variable("bias", vec![0.1f32; n]));
    let conv_pool = |name: &str, x: Output<'g>, from: i32, to: i32| {
        g.name_scope(name, || {
            x.conv2d(weight(&[5, 5, from, to]), [1, 1], Padding::Same, format)
                .bias_add(bias(to as usize), format)
                .relu()
                .max_pool([2, 2], [2, 2], Padding::Same, format)
        })
    };
    let dense = |name: &str, x: Output<'g>, from: i32, to: i32| {
        g.name_scope(name, || x.matmul(weight(&[from, to])) + bias(to as usize))
    };

    let side = SIDE as i32;
    let x = match format {
        DataFormat::Nhwc => images.reshape([-1, side, side, 1]),
        DataFormat::Nchw => images.reshape([-1, 1, side, side]),
    };
    let x = conv_pool("conv1", x, 1, 32);
    let x = conv_pool("conv2", x, 32, 64);
    let x = x.reshape([-1, 7 * 7 * 64]);
    let x = dense("fc1", x, 7 * 7 * 64, 1024).relu();
    let x = x.dropout(keep_prob, None);
    let logits = dense("fc2", x, 1024, 10);

    let loss = logits.softmax_cross_entropy(labels).mean();
    let found = logits.arg_max(1).equal(labels.arg_max(1));
    (loss, found.cast(DType::F32).mean())
}

impl<'g> DeepMnist<'g> {
    /// The placeholders, in the order of [`feeds`].
    pub fn inputs(&self) -> [Output<'g>; 3] {
        [self.images, self.labels, self.keep_prob]
    }

    /// Feeds of one step with these values.
    pub fn feed(&self, values: &[Tensor; 3]) -> [Feed<'g>; 3] {
        let [images, labels, keep_prob] = values;
        [
            self.images.feed(images),
            self.labels.feed(labels),
            self.keep_prob.feed(keep_prob),
        ]
    }
}

/// Tensors for the feeds of a step: room for `n` images and their labels, and `keep_prob`.
///
/// # Errors
/// More images than an address space holds.
pub fn feeds(n: usize, keep_prob: f32) -> Result<[Tensor; 3], thalweg::tensor::TensorError> {
    Ok([
        Tensor::zeros(DType::F32, &[n, SIDE * SIDE])?,
        Tensor::zeros(DType::F32, &[n, CLASSES])?,
        keep_prob.into(),
    ])
}

/// As [`feeds`], with arbitrary images and labels, for measurements.
///
/// # Errors
/// As [`feeds`].
pub fn synthetic_feeds(n: usize) -> Result<[Tensor; 3], thalweg::tensor::TensorError> {
    let mut feeds = feeds(n, 0.5)?;
    let [images, labels, _] = &mut feeds;
    // The upper bits of a linear congruential generator (Knuth's constants).
    let mut state = 1u64;
    for pixel in images.as_mut_slice::<f32>()? {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *pixel = (state >> 40) as f32 / (1u32 << 24) as f32;
    }
    for (i, row) in labels
        .as_mut_slice::<f32>()?
        .chunks_mut(CLASSES)
        .enumerate()
    {
        row[i % CLASSES] = 1.0;
    }
    Ok(feeds)
}
