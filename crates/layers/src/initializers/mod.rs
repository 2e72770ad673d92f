//! Initial values of variables: TensorFlow's numbers for the same seeds.
//!
//! The formulas are those of the classes of `tf.compat.v1.initializers`.

mod values;

use thalweg_tensor::{DType, Tensor};

/// The rule for a variable's initial value.
///
/// The random ones draw different numbers in each session, unless they or the graph have a
/// [seed](Initializer::seed).
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Initializer, VariableScopes};
/// use thalweg_ops::NewGraph;
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let eye = g.get_variable("eye", [2, 2]).initializer(Initializer::Identity { gain: 3.0 }).build();
/// let w = g.get_variable("w", [2, 2]).initializer(Initializer::he_normal().seed(1)).build();
///
/// let session = Session::new(&g)?;
/// session.run([eye.initializer(), w.initializer()], [])?;
/// assert_eq!(session.run::<Vec<f32>>(eye, [])?, [3.0, 0.0, 0.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Initializer {
    /// 0, or false.
    Zeros,
    /// 1, or true.
    Ones,
    /// The same number everywhere.
    Constant(f64),
    /// Uniformly distributed numbers in `[minval, maxval)`.
    RandomUniform {
        /// The lower bound, inclusive.
        minval: f64,
        /// The upper bound, exclusive.
        maxval: f64,
        /// The op's seed.
        seed: Option<i64>,
    },
    /// Normally distributed numbers.
    RandomNormal {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        stddev: f64,
        /// The op's seed.
        seed: Option<i64>,
    },
    /// Normally distributed numbers; those two standard deviations from the mean or more are
    /// redrawn.
    TruncatedNormal {
        /// Their mean.
        mean: f64,
        /// The standard deviation before truncation.
        stddev: f64,
        /// The op's seed.
        seed: Option<i64>,
    },
    /// Random numbers of mean 0 and variance `scale / n`, where `n` is the number of inputs or
    /// outputs of each unit of a layer.
    VarianceScaling {
        /// The variance times `n`: above 0.
        scale: f64,
        /// The definition of `n`.
        mode: Fan,
        /// The distribution of the numbers.
        distribution: Distribution,
        /// The op's seed.
        seed: Option<i64>,
    },
    /// A matrix whose rows or columns, whichever are fewer, are orthogonal and have the length
    /// `gain` (Saxe et al., 2014). All dimensions but the last form the rows.
    Orthogonal {
        /// The length.
        gain: f64,
        /// The op's seed.
        seed: Option<i64>,
    },
    /// A matrix with `gain` on its diagonal and 0 elsewhere.
    Identity {
        /// The number on the diagonal.
        gain: f64,
    },
    /// This tensor. Its dtype and shape must be those of the variable.
    Tensor(Tensor),
}

/// The divisor of [`Initializer::VarianceScaling`], at least 1.
///
/// For a matrix, the inputs are its rows and the outputs its columns. For more dimensions, they are
/// the last two, times the product of all others: the elements of a convolution's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// The number of inputs.
    In,
    /// The number of outputs.
    Out,
    /// The mean of both.
    Avg,
}

/// The distribution of [`Initializer::VarianceScaling`]. All three have the same variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform.
    Uniform,
    /// Normal; numbers two standard deviations from 0 or more are redrawn.
    TruncatedNormal,
    /// Normal (TensorFlow's `untruncated_normal`).
    Normal,
}

impl Initializer {
    /// [`Initializer::RandomUniform`] without a seed.
    pub fn random_uniform(minval: f64, maxval: f64) -> Initializer {
        Initializer::RandomUniform {
            minval,
            maxval,
            seed: None,
        }
    }

    /// [`Initializer::RandomNormal`] without a seed.
    pub fn random_normal(mean: f64, stddev: f64) -> Initializer {
        Initializer::RandomNormal {
            mean,
            stddev,
            seed: None,
        }
    }

    /// [`Initializer::TruncatedNormal`] without a seed.
    pub fn truncated_normal(mean: f64, stddev: f64) -> Initializer {
        Initializer::TruncatedNormal {
            mean,
            stddev,
            seed: None,
        }
    }

    /// [`Initializer::VarianceScaling`] without a seed.
    pub fn variance_scaling(scale: f64, mode: Fan, distribution: Distribution) -> Initializer {
        Initializer::VarianceScaling {
            scale,
            mode,
            distribution,
            seed: None,
        }
    }

    /// [`Initializer::Orthogonal`] without a seed.
    pub fn orthogonal(gain: f64) -> Initializer {
        Initializer::Orthogonal { gain, seed: None }
    }

    /// Uniform, variance `2 / (inputs + outputs)` (Glorot and Bengio, 2010): the default for
    /// variables of floats.
    pub fn glorot_uniform() -> Initializer {
        Initializer::variance_scaling(1.0, Fan::Avg, Distribution::Uniform)
    }

    /// Truncated normal, variance `2 / (inputs + outputs)`.
    pub fn glorot_normal() -> Initializer {
        Initializer::variance_scaling(1.0, Fan::Avg, Distribution::TruncatedNormal)
    }

    /// Uniform, variance `2 / inputs` (He et al., 2015): for layers before a Relu.
    pub fn he_uniform() -> Initializer {
        Initializer::variance_scaling(2.0, Fan::In, Distribution::Uniform)
    }

    /// Truncated normal, variance `2 / inputs`.
    pub fn he_normal() -> Initializer {
        Initializer::variance_scaling(2.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// Uniform, variance `1 / inputs` (LeCun et al., 1998).
    pub fn lecun_uniform() -> Initializer {
        Initializer::variance_scaling(1.0, Fan::In, Distribution::Uniform)
    }

    /// Truncated normal, variance `1 / inputs`.
    pub fn lecun_normal() -> Initializer {
        Initializer::variance_scaling(1.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// Sets the seed of its op, which is combined with the graph's by the rule of
    /// [`Graph::seeds`](thalweg_graph::Graph::seeds). No effect on initializers that are not
    /// random.
    pub fn seed(mut self, value: i64) -> Initializer {
        match &mut self {
            Initializer::RandomUniform { seed, .. }
            | Initializer::RandomNormal { seed, .. }
            | Initializer::TruncatedNormal { seed, .. }
            | Initializer::VarianceScaling { seed, .. }
            | Initializer::Orthogonal { seed, .. } => *seed = Some(value),
            _ => {}
        }
        self
    }

    /// The default initializer of variables of `dtype`.
    pub(crate) fn default_of(dtype: DType) -> Initializer {
        match dtype.is_float() {
            true => Initializer::glorot_uniform(),
            false => Initializer::Zeros,
        }
    }
}
