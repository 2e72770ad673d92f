//! The embedding layer.

use thalweg_graph::Output;

use crate::initializers::Initializer;
use crate::layer::{Layer, WeightOptions, Weights};
use crate::regularizers::Regularizer;

/// An embedding layer: see [`embedding`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct Embedding {
    rows: usize,
    width: usize,
    options: WeightOptions,
}

/// A table of this many rows, each a vector of this width: ids of shape `[...]`, `i32` or `i64`,
/// become their rows, `[..., width]` (`tf.keras.layers.Embedding`).
///
/// Its variable is `embedding/embeddings`, of shape `[rows, width]` and `f32`, initially with
/// numbers between -0.05 and 0.05. A step with an id outside of `0..rows` ends with an error.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Initializer, Layer, embedding};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let words = g.placeholder("words", DType::I32, [-1, 20]);
/// let vectors = embedding(10_000, 64).named("words").on(words);
/// assert_eq!(vectors.shape(), Shape::from([-1, 20, 64]));
/// assert_eq!(g.variables()[0].name, "words/embeddings");
/// ```
pub fn embedding(rows: usize, width: usize) -> Embedding {
    let options = WeightOptions::default();
    Embedding {
        rows,
        width,
        options: options.kernel_initializer(Initializer::random_uniform(-0.05, 0.05)),
    }
}

impl Embedding {
    /// Sets the name of its variable scope; by default `embedding`, made unique.
    pub fn named(mut self, name: &str) -> Embedding {
        self.options = self.options.named(name);
        self
    }

    /// Sets the initial value of the table.
    pub fn initializer(mut self, initializer: Initializer) -> Embedding {
        self.options = self.options.kernel_initializer(initializer);
        self
    }

    /// Sets the regularizer of the table: see [`Regularizer`].
    pub fn regularizer(mut self, regularizer: Regularizer) -> Embedding {
        self.options = self.options.kernel_regularizer(regularizer);
        self
    }

    /// Makes the table non-trainable.
    pub fn frozen(mut self) -> Embedding {
        self.options = self.options.frozen();
        self
    }
}

impl<'g> Layer<'g> for Embedding {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let ids = x.into();
        if ids.is_invalid() {
            return ids;
        }
        let graph = ids.graph();
        graph.at_caller(|| {
            self.options.scope(graph, "embedding", || {
                let dims = [self.rows, self.width];
                let dtype = thalweg_tensor::DType::F32;
                let table = self.options.kernel(graph, "embeddings", &dims, dtype);
                let node = graph.op("ResourceGather").input(table.handle()).input(ids);
                node.attr("dtype", dtype).output()
            })
        })
    }
}
