//! Layer normalization.

use thalweg_graph::Output;
use thalweg_ops::Variable;

use crate::initializers::Initializer;
use crate::layer::{Layer, WeightOptions, Weights, channels, report_mistake};
use crate::norm::{as_dtype, moments, normalized, statistics};

/// Layer normalization: see [`layer_norm`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct LayerNorm {
    epsilon: f64,
    without_scale: bool,
    options: WeightOptions,
}

/// Layer normalization: rows, along the last dimension, get a mean of 0 and a standard deviation of
/// 1, times `gamma`, plus `beta` (Ba et al., 2016; `tf.keras.layers.LayerNormalization`).
///
/// Its variables are `layer_normalization/gamma` and `beta`, of the length of a row. For
/// [`Weights`], gamma is the kernel, initially 1, and beta is the bias.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, layer_norm};
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let y = layer_norm().epsilon(0.0).on(g.constant([[1.0f32, 3.0], [50.0, 10.0]]));
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// assert_eq!(session.run::<Vec<f32>>(y, [])?, [-1.0, 1.0, 1.0, -1.0]);
/// # Ok(())
/// # }
/// ```
pub fn layer_norm() -> LayerNorm {
    LayerNorm {
        epsilon: 1e-3,
        without_scale: false,
        options: WeightOptions::default().kernel_initializer(Initializer::Ones),
    }
}

impl Weights for LayerNorm {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl LayerNorm {
    /// Sets the number added to variances, so that none is 0; 0.001 by default.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Leaves out gamma. [`Weights::without_bias`] leaves out beta.
    pub fn without_scale(mut self) -> Self {
        self.without_scale = true;
        self
    }

    fn apply<'g>(&self, x: Output<'g>) -> Result<Output<'g>, String> {
        let graph = x.graph();
        let (_, n) = channels(x, 1..=usize::MAX, |rank| rank - 1)?;
        let dtype = statistics(x.dtype());
        let scaled = !self.without_scale;
        let gamma = scaled.then(|| self.options.kernel(graph, "gamma", &[n], dtype));
        let beta = self.options.bias(graph, "beta", &[n], dtype);
        let wide = as_dtype(x, dtype);
        let weights = [gamma, beta].map(|v| v.map(Variable::value));
        let y = normalized(wide, moments(wide, &[-1], true), weights, self.epsilon);
        Ok(as_dtype(y, x.dtype()))
    }
}

impl<'g> Layer<'g> for LayerNorm {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        if x.is_invalid() {
            return x;
        }
        let graph = x.graph();
        graph.at_caller(|| {
            let usual = "layer_normalization";
            self.options.scope(graph, usual, || {
                let made = self.apply(x);
                made.unwrap_or_else(|text| report_mistake(graph, usual, text))
            })
        })
    }
}
