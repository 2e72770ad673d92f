//! The fully connected layer.

use thalweg_graph::Output;
use thalweg_ops::{ArrayOps, DataFormat, LinalgOps, NnOps};
use thalweg_tensor::Shape;

use crate::layer::{Layer, WeightOptions, Weights, channels, of_shape, report_mistake, sizes};

/// A fully connected layer: see [`dense`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct Dense {
    units: usize,
    options: WeightOptions,
}

/// A fully connected layer of this many units: `x kernel + bias`, for `x` of shape `[..., inputs]`,
/// is `[..., units]` (`tf.compat.v1.layers.dense`).
///
/// Its variables are `dense/kernel`, of shape `[inputs, units]`, and `dense/bias`, of shape
/// `[units]`. Its input has two dimensions or more.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Initializer, Layer, Weights, dense};
/// use thalweg_ops::{NewGraph, NnOps, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let words = g.placeholder("words", DType::F32, [-1, 20, 64]);
/// let h = dense(32).kernel_initializer(Initializer::he_normal()).on(words).relu();
/// let scores = dense(5).named("scores").without_bias().on(h);
/// assert_eq!(scores.shape(), Shape::from([-1, 20, 5]));
///
/// let names: Vec<_> = g.variables().into_iter().map(|v| v.name).collect();
/// assert_eq!(names, ["dense/kernel", "dense/bias", "scores/kernel"]);
/// ```
pub fn dense(units: usize) -> Dense {
    Dense {
        units,
        options: WeightOptions::default(),
    }
}

impl Weights for Dense {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl<'g> Layer<'g> for Dense {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        if x.is_invalid() {
            return x;
        }
        let graph = x.graph();
        graph.at_caller(|| self.options.scope(graph, "dense", || self.apply(x)))
    }
}

impl Dense {
    fn apply<'g>(&self, x: Output<'g>) -> Output<'g> {
        let (graph, dtype) = (x.graph(), x.dtype());
        if !dtype.is_float() {
            let text = format!(
                "its input is of {dtype}, and weights are of floats: cast it, or use an embedding"
            );
            return report_mistake(graph, "dense", text);
        }
        let (mut dims, inputs) = match channels(x, 2..=usize::MAX, |rank| rank - 1) {
            Ok(found) => found,
            Err(text) => return report_mistake(graph, "dense", text),
        };
        let kernel = self
            .options
            .kernel(graph, "kernel", &[inputs, self.units], dtype);
        let bias = self.options.bias(graph, "bias", &[self.units], dtype);
        let rank = dims.len();
        let rows = match rank {
            2 => x,
            _ => x.reshape([-1, inputs as i64]),
        };
        let mut y = rows.matmul(kernel);
        if rank > 2 {
            dims[rank - 1] = Some(self.units);
            y = of_shape(
                y.reshape(sizes(x, &dims, |_, own| own)),
                Shape::partial(dims),
            );
        }
        match bias {
            Some(bias) => y.bias_add(bias, DataFormat::Nhwc),
            None => y,
        }
    }
}
