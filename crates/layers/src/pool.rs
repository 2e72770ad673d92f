//! Pooling of images: max and average.

use thalweg_graph::Output;
use thalweg_ops::{DataFormat, NnOps, Padding};

use crate::layer::{Layer, Pair};

/// A pooling layer: see [`max_pool`] and [`avg_pool`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct Pool {
    kind: PoolKind,
    window: [usize; 2],
    strides: [usize; 2],
    padding: Padding,
    format: DataFormat,
}

#[derive(Clone, Copy, Debug)]
enum PoolKind {
    Max,
    Avg,
}

/// The largest element of each window of images, at these strides: numbers, or height and width
/// (`tf.compat.v1.layers.max_pooling2d`).
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, max_pool};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let images = g.placeholder("images", DType::F32, [-1, 24, 24, 32]);
/// assert_eq!(max_pool(2, 2).on(images).shape(), Shape::from([-1, 12, 12, 32]));
/// ```
pub fn max_pool(window: impl Into<Pair>, strides: impl Into<Pair>) -> Pool {
    Pool::new(PoolKind::Max, window.into(), strides.into())
}

/// The mean of each window of images, at these strides: numbers, or height and width
/// (`tf.compat.v1.layers.average_pooling2d`). Padding does not count, and cannot be
/// [`Padding::Explicit`].
pub fn avg_pool(window: impl Into<Pair>, strides: impl Into<Pair>) -> Pool {
    Pool::new(PoolKind::Avg, window.into(), strides.into())
}

impl Pool {
    fn new(kind: PoolKind, window: Pair, strides: Pair) -> Pool {
        Pool {
            kind,
            window: window.0,
            strides: strides.0,
            padding: Padding::Valid,
            format: DataFormat::Nhwc,
        }
    }

    /// Sets the padding; [`Padding::Valid`] by default, which pads nothing.
    pub fn padding(mut self, padding: Padding) -> Pool {
        self.padding = padding;
        self
    }

    /// Sets the order of the dimensions of images; [`DataFormat::Nhwc`] by default.
    pub fn data_format(mut self, format: DataFormat) -> Pool {
        self.format = format;
        self
    }
}

impl<'g> Layer<'g> for Pool {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        let graph = x.graph();
        let (window, strides) = (self.window, self.strides);
        graph.at_caller(|| match self.kind {
            PoolKind::Max => graph.name_scope("max_pooling2d", || {
                x.max_pool(window, strides, self.padding, self.format)
            }),
            PoolKind::Avg => graph.name_scope("average_pooling2d", || {
                x.avg_pool(window, strides, self.padding, self.format)
            }),
        })
    }
}
