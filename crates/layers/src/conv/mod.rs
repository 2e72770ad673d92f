//! Convolutions of images: conv2d, depthwise, separable, transposed.

mod build;

use thalweg_ops::{DataFormat, Padding};

use crate::initializers::Initializer;
use crate::layer::{Pair, WeightOptions, Weights};
use crate::regularizers::Regularizer;

/// A convolution: see [`conv2d`], [`depthwise_conv2d`], [`separable_conv2d`] and
/// [`conv2d_transpose`].
///
/// Images are batches in the order of its [`DataFormat`]: `[n, h, w, c]`, or `[n, c, h, w]`.
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on`"]
pub struct Conv {
    kind: ConvKind,
    filters: usize,
    window: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    padding: Padding,
    format: DataFormat,
    multiplier: usize,
    depthwise_initializer: Option<Initializer>,
    depthwise_regularizer: Option<Regularizer>,
    options: WeightOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConvKind {
    Plain,
    Depthwise,
    Separable,
    Transposed,
}

impl ConvKind {
    /// The default name of the layer.
    fn usual(self) -> &'static str {
        match self {
            ConvKind::Plain => "conv2d",
            ConvKind::Depthwise => "depthwise_conv2d",
            ConvKind::Separable => "separable_conv2d",
            ConvKind::Transposed => "conv2d_transpose",
        }
    }
}

/// A convolution of images with this many filters of this size: a number, or height and width
/// (`tf.compat.v1.layers.conv2d`).
///
/// Its variables are `conv2d/kernel`, of shape `[h, w, channels, filters]`, and `conv2d/bias`, of
/// shape `[filters]`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, Weights, conv2d};
/// use thalweg_ops::{NewGraph, NnOps, Padding, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let images = g.placeholder("images", DType::F32, [-1, 28, 28, 3]);
/// let h = conv2d(32, 5).named("conv1").on(images).relu();
/// assert_eq!(h.shape(), Shape::from([-1, 24, 24, 32]));
/// let h = conv2d(64, [3, 1]).strides(2).padding(Padding::Same).on(h).relu();
/// assert_eq!(h.shape(), Shape::from([-1, 12, 12, 64]));
///
/// let names: Vec<_> = g.variables().into_iter().map(|v| v.name).collect();
/// assert_eq!(names, ["conv1/kernel", "conv1/bias", "conv2d/kernel", "conv2d/bias"]);
/// ```
pub fn conv2d(filters: usize, window: impl Into<Pair>) -> Conv {
    Conv::new(ConvKind::Plain, filters, window.into())
}

/// A convolution of each channel of images with filters of its own, of this size
/// (`tf.keras.layers.DepthwiseConv2D`).
///
/// Its variables are `depthwise_conv2d/depthwise_kernel`, of shape `[h, w, channels, multiplier]`,
/// and `depthwise_conv2d/bias`, of shape `[channels * multiplier]`, as many as it has results.
pub fn depthwise_conv2d(window: impl Into<Pair>) -> Conv {
    Conv::new(ConvKind::Depthwise, 0, window.into())
}

/// A depthwise convolution, followed by a convolution of its results with this many filters of one
/// pixel (`tf.compat.v1.layers.separable_conv2d`).
///
/// Its variables are `separable_conv2d/depthwise_kernel`, of shape `[h, w, channels, multiplier]`,
/// `separable_conv2d/pointwise_kernel`, of shape `[1, 1, channels * multiplier, filters]`, and
/// `separable_conv2d/bias`, of shape `[filters]`.
pub fn separable_conv2d(filters: usize, window: impl Into<Pair>) -> Conv {
    Conv::new(ConvKind::Separable, filters, window.into())
}

/// A transposed convolution: the gradient of a convolution to its images, as a layer. It enlarges
/// images by its strides (`tf.compat.v1.layers.conv2d_transpose`).
///
/// Its variables are `conv2d_transpose/kernel`, of shape `[h, w, filters, channels]`, and
/// `conv2d_transpose/bias`, of shape `[filters]`. A length of `n` becomes `n * stride` with
/// [`Padding::Same`], and `n * stride + max(window - stride, 0)` with [`Padding::Valid`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, conv2d_transpose};
/// use thalweg_ops::{NewGraph, Padding, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let codes = g.placeholder("codes", DType::F32, [-1, 7, 7, 64]);
/// let h = conv2d_transpose(32, 5).strides(2).padding(Padding::Same).on(codes);
/// assert_eq!(h.shape(), Shape::from([-1, 14, 14, 32]));
/// ```
pub fn conv2d_transpose(filters: usize, window: impl Into<Pair>) -> Conv {
    Conv::new(ConvKind::Transposed, filters, window.into())
}

impl Weights for Conv {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl Conv {
    fn new(kind: ConvKind, filters: usize, window: Pair) -> Conv {
        Conv {
            kind,
            filters,
            window: window.0,
            strides: [1, 1],
            dilations: [1, 1],
            padding: Padding::Valid,
            format: DataFormat::Nhwc,
            multiplier: 1,
            depthwise_initializer: None,
            depthwise_regularizer: None,
            options: WeightOptions::default(),
        }
    }

    /// Sets the strides of windows: a number, or height and width. 1 by default.
    pub fn strides(mut self, strides: impl Into<Pair>) -> Conv {
        self.strides = strides.into().0;
        self
    }

    /// Sets the dilation, the distance between the elements of a window: a number, or height and
    /// width. 1 by default; a transposed convolution takes no other.
    pub fn dilation(mut self, dilation: impl Into<Pair>) -> Conv {
        self.dilations = dilation.into().0;
        self
    }

    /// Sets the padding; [`Padding::Valid`] by default, which pads nothing. A transposed
    /// convolution takes no [`Padding::Explicit`].
    pub fn padding(mut self, padding: Padding) -> Conv {
        self.padding = padding;
        self
    }

    /// Sets the order of the dimensions of images; [`DataFormat::Nhwc`] by default.
    pub fn data_format(mut self, format: DataFormat) -> Conv {
        self.format = format;
        self
    }

    /// Sets the number of filters for each channel of a depthwise or separable convolution; 1 by
    /// default.
    pub fn multiplier(mut self, multiplier: usize) -> Conv {
        self.multiplier = multiplier;
        self
    }

    /// Sets the initial value of the depthwise kernel of a depthwise or separable convolution; that
    /// of [`Weights::kernel_initializer`] by default.
    pub fn depthwise_initializer(mut self, initializer: Initializer) -> Conv {
        self.depthwise_initializer = Some(initializer);
        self
    }

    /// Sets the regularizer of the depthwise kernel; that of [`Weights::kernel_regularizer`] by
    /// default.
    pub fn depthwise_regularizer(mut self, regularizer: Regularizer) -> Conv {
        self.depthwise_regularizer = Some(regularizer);
        self
    }
}
