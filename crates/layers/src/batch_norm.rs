//! Batch normalization.

use thalweg_graph::{Output, Value};
use thalweg_ops::{ArrayOps, DataFormat, NnOps, SourceOps, Variable};
use thalweg_tensor::DType;

use crate::initializers::Initializer;
use crate::layer::{Layer, UPDATE_OPS, WeightOptions, Weights, channels, report_mistake};
use crate::norm::{as_dtype, moments, normalized, statistics};
use crate::scope::VariableScopes;
use crate::training::Training;

/// The smallest epsilon of the fused op: TensorFlow's `fused_batch_norm` raises it to cuDNN's.
const MIN_EPSILON: f64 = 1.001e-5;

/// Batch normalization: see [`batch_norm`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct BatchNorm<'g> {
    training: Training<'g>,
    momentum: f64,
    epsilon: f64,
    format: DataFormat,
    without_scale: bool,
    options: WeightOptions,
}

/// Batch normalization: gives channels a mean of `beta` and a standard deviation of `gamma` over
/// the batch (Ioffe and Szegedy, 2015; `tf.compat.v1.layers.batch_normalization`).
///
/// During training, means and variances are those of the batch, and two updates in
/// [`update_ops`](crate::update_ops) move the averages for inference: `average -= (average - batch)
/// * (1 - momentum)`. Its input is a batch of images, or has any other rank from 2 on; channels are
/// the last dimension, or dimension 1 in [`DataFormat::Nchw`].
///
/// The variance of a batch of images that goes into the average is that of a sample: `n / (n - 1)`
/// times the one that images are divided by, as in TensorFlow.
///
/// Its variables are `batch_normalization/gamma` and `beta`, and `moving_mean` and
/// `moving_variance`, which are not trainable; each has the shape `[channels]`. For [`Weights`],
/// gamma is the kernel, initially 1, and beta is the bias.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, Weights, batch_norm, conv2d, update_ops};
/// use thalweg_ops::{NewGraph, NnOps, SourceOps};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let images = g.placeholder("images", DType::F32, [-1, 28, 28, 1]);
/// let training = g.placeholder("training", DType::Bool, []);
/// let h = conv2d(8, 3).without_bias().on(images);
/// let h = batch_norm().training(training).on(h).relu();
/// assert_eq!(update_ops(&g).len(), 2);
/// # assert!(g.errors().is_empty() && !h.is_invalid());
/// ```
pub fn batch_norm<'g>() -> BatchNorm<'g> {
    BatchNorm {
        training: Training::default(),
        momentum: 0.99,
        epsilon: 1e-3,
        format: DataFormat::Nhwc,
        without_scale: false,
        options: WeightOptions::default().kernel_initializer(Initializer::Ones),
    }
}

impl Weights for BatchNorm<'_> {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl<'g> BatchNorm<'g> {
    /// Sets the training flag: a bool, or a scalar output, which may be fed. `false` by default.
    pub fn training(mut self, training: impl Into<Value<'g>>) -> Self {
        self.training = Training::new(training.into());
        self
    }

    /// Sets the share of the averages that stays in each update; 0.99 by default.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    /// Sets the number added to variances, so that none is 0; 0.001 by default.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Sets the order of the dimensions; [`DataFormat::Nhwc`] by default.
    pub fn data_format(mut self, format: DataFormat) -> Self {
        self.format = format;
        self
    }

    /// Leaves out gamma. [`Weights::without_bias`] leaves out beta.
    pub fn without_scale(mut self) -> Self {
        self.without_scale = true;
        self
    }
}

impl<'g> Layer<'g> for BatchNorm<'g> {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        if x.is_invalid() {
            return x;
        }
        let graph = x.graph();
        graph.at_caller(|| {
            let usual = "batch_normalization";
            self.options.scope(graph, usual, || {
                let made = self.apply(x);
                made.unwrap_or_else(|text| report_mistake(graph, usual, text))
            })
        })
    }
}

/// The variables of a batch normalization.
struct BatchWeights<'g> {
    gamma: Option<Variable<'g>>,
    beta: Option<Variable<'g>>,
    mean: Variable<'g>,
    variance: Variable<'g>,
}

/// The result, and the mean and the variance of the batch, or those of inference.
type Normalized<'g> = Result<Vec<Output<'g>>, String>;

impl<'g> BatchNorm<'g> {
    fn apply(&self, x: Output<'g>) -> Result<Output<'g>, String> {
        let graph = x.graph();
        if graph.is_in_body() && !matches!(self.training, Training::Never) {
            let text = "it learns inside of a branch or a loop, where its averages are not updated: \
                        put it outside, or give it training(false)";
            return Err(text.to_owned());
        }
        let (dims, n) = channels(x, 2..=usize::MAX, |rank| self.format.channel(rank))?;
        let dtype = statistics(x.dtype());
        let scaled = !self.without_scale;
        let average = |name: &str, initializer| {
            let average = graph.get_variable(name, &[n][..]).dtype(dtype);
            average.initializer(initializer).trainable(false).build()
        };
        let weights = BatchWeights {
            gamma: scaled.then(|| self.options.kernel(graph, "gamma", &[n], dtype)),
            beta: self.options.bias(graph, "beta", &[n], dtype),
            mean: average("moving_mean", Initializer::Zeros),
            variance: average("moving_variance", Initializer::Ones),
        };
        let made = match (dims.len(), dtype) {
            (4, DType::F32) => self.fused(x, n, &weights)?,
            (rank, _) => self.in_parts(x, rank, n, &weights)?,
        };
        let [y, mean, variance] = made[..] else {
            return Ok(graph.invalid());
        };
        if !matches!(self.training, Training::Never) {
            self.update(weights.mean, mean);
            self.update(weights.variance, variance);
        }
        Ok(y)
    }

    /// By the fused op, which returns the variance of a sample.
    fn fused(&self, x: Output<'g>, n: usize, weights: &BatchWeights<'g>) -> Normalized<'g> {
        let graph = x.graph();
        let or_all = |variable: Option<Variable<'g>>, number: f32| match variable {
            Some(variable) => variable.value(),
            None => graph.constant(vec![number; n]),
        };
        let (gamma, beta) = (or_all(weights.gamma, 1.0), or_all(weights.beta, 0.0));
        let moments = [weights.mean.value(), weights.variance.value()];
        let (epsilon, format) = (self.epsilon.max(MIN_EPSILON) as f32, self.format);
        self.training.choose(
            graph,
            || x.batch_norm(gamma, beta, epsilon, format).to_vec(),
            || {
                let y = x.batch_norm_with_moments(gamma, beta, moments, epsilon, format);
                [y].into_iter().chain(moments).collect()
            },
        )
    }

    /// By separate ops.
    fn in_parts(
        &self,
        x: Output<'g>,
        rank: usize,
        n: usize,
        weights: &BatchWeights<'g>,
    ) -> Normalized<'g> {
        let graph = x.graph();
        let channel = self.format.channel(rank);
        // Ranks and lengths of tensors are below 2^31.
        let axes: Vec<i32> = (0..rank)
            .filter(|&a| a != channel)
            .map(|a| a as i32)
            .collect();
        let wide = as_dtype(x, weights.mean.value().dtype());
        let moments = self.training.choose(
            graph,
            || moments(wide, &axes, false).to_vec(),
            || vec![weights.mean.value(), weights.variance.value()],
        )?;
        let [mean, variance] = moments[..] else {
            return Ok(Vec::new());
        };
        let mut dims = vec![1; rank];
        dims[channel] = n as i64;
        // Channels that are not last need trailing dimensions of 1.
        let spread = |v: Output<'g>| match channel + 1 == rank {
            true => v,
            false => v.reshape(dims.clone()),
        };
        let [gamma, beta] = [weights.gamma, weights.beta];
        let y = normalized(
            wide,
            [mean, variance].map(spread),
            [gamma, beta].map(|v| v.map(|v| spread(v.value()))),
            self.epsilon,
        );
        Ok(vec![as_dtype(y, x.dtype()), mean, variance])
    }

    /// Moves an average towards `batch`. During inference, `batch` is the average itself, and
    /// nothing moves.
    fn update(&self, average: Variable<'g>, batch: Output<'g>) {
        let graph = batch.graph();
        graph.colocate_with(average.handle(), || {
            graph.name_scope("AssignMovingAvg", || {
                // An f32 for averages of any dtype, as in TensorFlow.
                let part = f64::from((1.0 - self.momentum) as f32);
                let update = average.assign_sub((average - batch) * part);
                graph.add_operation_to_collection(UPDATE_OPS, update);
            });
        });
    }
}
