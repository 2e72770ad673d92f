//! Neural network layers: convolution, biases, activations, pooling, normalization, softmax, losses.

mod batch_norm;
mod batch_norm_global;
mod bias;
mod conv;
mod conv2d;
mod conv3d;
mod conv_kernels;
mod cross_entropy;
mod ctc;
mod data_format;
mod depthwise;
mod dilation2d;
mod fake_quant;
mod format;
mod fractional_pool;
mod fractional_pool_grad;
mod fractional_regions;
mod fused_pad_conv;
mod geometry;
mod image_patches;
mod lrn;
mod max_pool;
mod max_pool_argmax;
mod max_pool_stored_argmax;
mod patches_gradient;
mod pool;
mod pool3d;
mod quantize;
mod quantize_dequantize;
mod relu_elu;
pub(crate) mod resize;
mod selu_softsign;
mod softmax;
mod volume_patches;
mod volumes;

use thalweg_device::Op;
use thalweg_graph::{NodeBuilder, Output, Value};
use thalweg_tensor::{DType, Tensor};

use crate::support::constants::ints;

pub use batch_norm::{FUSED_BATCH_NORM_EX, FUSED_BATCH_NORM_GRAD_EX};
pub use conv2d::FUSED_CONV_2D;
pub use depthwise::FUSED_DEPTHWISE_CONV_2D;
pub use format::{DataFormat, Padding};
pub use max_pool_stored_argmax::{MAX_POOL_GRAD_STORED_ARGMAX, MAX_POOL_STORE_ARGMAX};
pub use relu_elu::RELU_GRAD_SUM;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &relu_elu::RELU,
    &relu_elu::RELU_GRAD,
    &relu_elu::RELU_6,
    &relu_elu::RELU_6_GRAD,
    &relu_elu::ELU,
    &relu_elu::ELU_GRAD,
    &relu_elu::LEAKY_RELU,
    &relu_elu::LEAKY_RELU_GRAD,
    &batch_norm::FUSED_BATCH_NORM,
    &batch_norm::FUSED_BATCH_NORM_V2,
    &batch_norm::FUSED_BATCH_NORM_V3,
    &batch_norm::FUSED_BATCH_NORM_GRAD,
    &batch_norm::FUSED_BATCH_NORM_GRAD_V2,
    &batch_norm::FUSED_BATCH_NORM_GRAD_V3,
    &batch_norm_global::BATCH_NORM_GLOBAL,
    &batch_norm_global::BATCH_NORM_GLOBAL_GRAD,
    &fused_pad_conv::FUSED_PAD_CONV_2D,
    &fused_pad_conv::FUSED_RESIZE_AND_PAD_CONV_2D,
    &image_patches::EXTRACT_IMAGE_PATCHES,
    &volume_patches::EXTRACT_VOLUME_PATCHES,
    &bias::BIAS_ADD,
    &bias::BIAS_ADD_V1,
    &bias::BIAS_ADD_GRAD,
    &conv2d::CONV_2D,
    &conv2d::CONV_2D_BACKPROP_INPUT,
    &conv2d::CONV_2D_BACKPROP_FILTER,
    &conv::CONV,
    &conv3d::CONV_3D,
    &conv3d::CONV_3D_BACKPROP_INPUT,
    &conv3d::CONV_3D_BACKPROP_INPUT_V2,
    &conv3d::CONV_3D_BACKPROP_FILTER,
    &conv3d::CONV_3D_BACKPROP_FILTER_V2,
    &depthwise::DEPTHWISE_CONV_2D_NATIVE,
    &depthwise::DEPTHWISE_CONV_2D_NATIVE_BACKPROP_INPUT,
    &depthwise::DEPTHWISE_CONV_2D_NATIVE_BACKPROP_FILTER,
    &cross_entropy::SOFTMAX_CROSS_ENTROPY,
    &cross_entropy::SPARSE_SOFTMAX_CROSS_ENTROPY,
    &lrn::LRN,
    &lrn::LRN_GRAD,
    &max_pool::MAX_POOL,
    &max_pool::MAX_POOL_V2,
    &max_pool::MAX_POOL_GRAD,
    &max_pool::MAX_POOL_GRAD_V2,
    &max_pool::MAX_POOL_GRAD_GRAD,
    &max_pool::MAX_POOL_GRAD_GRAD_V2,
    &max_pool_argmax::MAX_POOL_WITH_ARGMAX,
    &max_pool_argmax::MAX_POOL_GRAD_WITH_ARGMAX,
    &pool::AVG_POOL,
    &pool::AVG_POOL_GRAD,
    &pool3d::MAX_POOL_3D,
    &pool3d::MAX_POOL_3D_GRAD,
    &pool3d::MAX_POOL_3D_GRAD_GRAD,
    &pool3d::AVG_POOL_3D,
    &pool3d::AVG_POOL_3D_GRAD,
    &dilation2d::DILATION_2D,
    &dilation2d::DILATION_2D_BACKPROP_INPUT,
    &dilation2d::DILATION_2D_BACKPROP_FILTER,
    &fractional_pool::FRACTIONAL_MAX_POOL,
    &fractional_pool::FRACTIONAL_AVG_POOL,
    &fractional_pool_grad::FRACTIONAL_MAX_POOL_GRAD,
    &fractional_pool_grad::FRACTIONAL_AVG_POOL_GRAD,
    &selu_softsign::SOFTSIGN,
    &selu_softsign::SOFTSIGN_GRAD,
    &selu_softsign::SELU,
    &selu_softsign::SELU_GRAD,
    &resize::RESIZE_BILINEAR,
    &resize::RESIZE_BILINEAR_GRAD,
    &resize::RESIZE_NEAREST_NEIGHBOR,
    &resize::RESIZE_NEAREST_NEIGHBOR_GRAD,
    &data_format::DATA_FORMAT_VEC_PERMUTE,
    &data_format::DATA_FORMAT_DIM_MAP,
    &ctc::BEAM_SEARCH_DECODER,
    &ctc::CTC_LOSS,
    &ctc::GREEDY_DECODER,
    &fake_quant::FAKE_QUANT_WITH_MIN_MAX_ARGS,
    &fake_quant::FAKE_QUANT_WITH_MIN_MAX_ARGS_GRADIENT,
    &fake_quant::FAKE_QUANT_WITH_MIN_MAX_VARS,
    &fake_quant::FAKE_QUANT_WITH_MIN_MAX_VARS_GRADIENT,
    &fake_quant::FAKE_QUANT_WITH_MIN_MAX_VARS_PER_CHANNEL,
    &fake_quant::FAKE_QUANT_WITH_MIN_MAX_VARS_PER_CHANNEL_GRADIENT,
    &quantize::QUANTIZE_V2,
    &quantize::DEQUANTIZE,
    &quantize_dequantize::QUANTIZE_AND_DEQUANTIZE,
    &quantize_dequantize::QUANTIZE_AND_DEQUANTIZE_V2,
    &quantize_dequantize::QUANTIZE_AND_DEQUANTIZE_V3,
    &quantize_dequantize::QUANTIZE_AND_DEQUANTIZE_V4,
    &quantize_dequantize::QUANTIZE_AND_DEQUANTIZE_V4_GRAD,
    &softmax::SOFTMAX,
    &softmax::LOG_SOFTMAX,
];

/// Builder methods of neural network layers. Images are batches in a [`DataFormat`]: `[n, h, w, c]` or
/// `[n, c, h, w]`.
pub trait NnOps<'g>: Sized {
    /// Convolution of images with `filter` (`[h, w, in channels, out channels]`); `strides` are
    /// those of rows and columns. A filter for a part of the images' channels is one in groups: as many as parts, each
    /// with its share of the output channels.
    fn conv2d(
        self,
        filter: impl Into<Output<'g>>,
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g>;

    /// [`NnOps::conv2d`] with the filter's rows and columns `dilations` apart.
    fn conv2d_dilated(
        self,
        filter: impl Into<Output<'g>>,
        strides: [usize; 2],
        dilations: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g>;

    /// Convolution of each channel of images with its own filters (`filter`: `[h, w, channels,
    /// filters of a channel]`); `strides` are those of rows and columns.
    fn depthwise_conv2d(
        self,
        filter: impl Into<Output<'g>>,
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g>;

    /// Batch normalization in training: returns images whose channels have mean `offset` and standard deviation
    /// `scale`, and the mean and variance of each channel of the input.
    fn batch_norm(
        self,
        scale: impl Into<Output<'g>>,
        offset: impl Into<Output<'g>>,
        epsilon: f32,
        format: DataFormat,
    ) -> [Output<'g>; 3];

    /// Images normalized as in [`NnOps::batch_norm`], with a given mean and variance
    /// (`moments`).
    fn batch_norm_with_moments(
        self,
        scale: impl Into<Output<'g>>,
        offset: impl Into<Output<'g>>,
        moments: [Output<'g>; 2],
        epsilon: f32,
        format: DataFormat,
    ) -> Output<'g>;

    /// Images (`[n, h, w, c]`) resized to this height and width, with each pixel interpolated between the four
    /// nearest ones, by the positions of their centers.
    fn resize_bilinear(self, size: [i32; 2]) -> Output<'g>;

    /// Images (`[n, h, w, c]`) resized to this height and width, with each pixel copied from the nearest one,
    /// by the positions of their centers.
    fn resize_nearest_neighbor(self, size: [i32; 2]) -> Output<'g>;

    /// Maximum of each window of height and width `ksize`, `strides` apart.
    fn max_pool(
        self,
        ksize: [usize; 2],
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g>;

    /// Mean of each window of height and width `ksize`, `strides` apart; padding does not
    /// count, and cannot be [`Padding::Explicit`].
    fn avg_pool(
        self,
        ksize: [usize; 2],
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g>;

    /// Adds `bias`, one value for each channel: the last dimension, or dimension 1 in
    /// [`DataFormat::Nchw`].
    fn bias_add(self, bias: impl Into<Output<'g>>, format: DataFormat) -> Output<'g>;

    /// `max(x, 0)`.
    fn relu(self) -> Output<'g>;

    /// `min(max(x, 0), 6)`.
    fn relu6(self) -> Output<'g>;

    /// `x` if it is not negative, otherwise `exp(x) - 1`.
    fn elu(self) -> Output<'g>;

    /// `x` if it is positive, otherwise `alpha x`.
    fn leaky_relu(self, alpha: f32) -> Output<'g>;

    /// `exp(x) / sum(exp(x))` over the last dimension.
    fn softmax(self) -> Output<'g>;

    /// Logarithm of [`NnOps::softmax`].
    fn log_softmax(self) -> Output<'g>;

    /// The `k` largest elements of the last dimension, in descending order, and their indices, as `i32`.
    fn top_k(self, k: impl Into<Value<'g>>) -> [Output<'g>; 2];

    /// Cross entropy of each row of logits (`[rows, classes]`) with a row of labels, which is a
    /// distribution: `[rows]`.
    fn softmax_cross_entropy(self, labels: impl Into<Output<'g>>) -> Output<'g>;

    /// Cross entropy of each row of logits (`[rows, classes]`) with a class (`labels`:
    /// `[rows]`, integers from 0): `[rows]`.
    fn sparse_softmax_cross_entropy(self, labels: impl Into<Output<'g>>) -> Output<'g>;
}

/// Height and width as an attribute with a value for each dimension.
fn spatial(format: DataFormat, lengths: [usize; 2]) -> Vec<i64> {
    // A length beyond an i64 is refused like one beyond an i32.
    let lengths = lengths.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    format.order(1, 1, lengths).to_vec()
}

#[track_caller]
fn pool<'g>(
    x: Output<'g>,
    op: &str,
    ksize: [usize; 2],
    strides: [usize; 2],
    padding: Padding,
    format: DataFormat,
) -> NodeBuilder<'g> {
    x.graph()
        .op(op)
        .input(x)
        .attr("ksize", spatial(format, ksize))
        .attr("strides", spatial(format, strides))
        .attr("padding", padding.name())
        .attr("data_format", format)
}

#[track_caller]
fn normalized<'g>(
    x: Output<'g>,
    scale: Output<'g>,
    offset: Output<'g>,
    moments: [Output<'g>; 2],
) -> NodeBuilder<'g> {
    let node = x.graph().op("FusedBatchNormV3").input(x);
    node.input(scale).input(offset).inputs(moments)
}

impl<'g> NnOps<'g> for Output<'g> {
    #[track_caller]
    fn conv2d(
        self,
        filter: impl Into<Output<'g>>,
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g> {
        self.conv2d_dilated(filter, strides, [1, 1], padding, format)
    }

    #[track_caller]
    fn conv2d_dilated(
        self,
        filter: impl Into<Output<'g>>,
        strides: [usize; 2],
        dilations: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g> {
        self.graph()
            .op("Conv2D")
            .input(self)
            .input(filter)
            .attr("strides", spatial(format, strides))
            .attr("dilations", spatial(format, dilations))
            .attr("padding", padding.name())
            .attr("explicit_paddings", padding.explicit(format))
            .attr("data_format", format)
            .output()
    }

    #[track_caller]
    fn depthwise_conv2d(
        self,
        filter: impl Into<Output<'g>>,
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g> {
        self.graph()
            .op("DepthwiseConv2dNative")
            .input(self)
            .input(filter)
            .attr("strides", spatial(format, strides))
            .attr("padding", padding.name())
            .attr("explicit_paddings", padding.explicit(format))
            .attr("data_format", format)
            .output()
    }

    #[track_caller]
    fn batch_norm(
        self,
        scale: impl Into<Output<'g>>,
        offset: impl Into<Output<'g>>,
        epsilon: f32,
        format: DataFormat,
    ) -> [Output<'g>; 3] {
        let none = Tensor::from(&[] as &[f32]);
        let none = self.graph().op("Const").attr("value", none);
        let none = none.attr("dtype", DType::F32).output();
        let node = normalized(self, scale.into(), offset.into(), [none; 2]);
        let node = node.attr("epsilon", epsilon).attr("data_format", format);
        let node = node.build();
        [0, 1, 2].map(|i| node.output(i))
    }

    #[track_caller]
    fn batch_norm_with_moments(
        self,
        scale: impl Into<Output<'g>>,
        offset: impl Into<Output<'g>>,
        moments: [Output<'g>; 2],
        epsilon: f32,
        format: DataFormat,
    ) -> Output<'g> {
        let node = normalized(self, scale.into(), offset.into(), moments);
        let node = node.attr("epsilon", epsilon).attr("data_format", format);
        node.attr("is_training", false).output()
    }

    #[track_caller]
    fn resize_bilinear(self, size: [i32; 2]) -> Output<'g> {
        let node = self.graph().op("ResizeBilinear").input(self);
        let node = node.input(ints(self.graph(), &size));
        node.attr("half_pixel_centers", true).output()
    }

    #[track_caller]
    fn resize_nearest_neighbor(self, size: [i32; 2]) -> Output<'g> {
        let node = self.graph().op("ResizeNearestNeighbor").input(self);
        let node = node.input(ints(self.graph(), &size));
        node.attr("half_pixel_centers", true).output()
    }

    #[track_caller]
    fn max_pool(
        self,
        ksize: [usize; 2],
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g> {
        pool(self, "MaxPool", ksize, strides, padding, format)
            .attr("explicit_paddings", padding.explicit(format))
            .output()
    }

    #[track_caller]
    fn avg_pool(
        self,
        ksize: [usize; 2],
        strides: [usize; 2],
        padding: Padding,
        format: DataFormat,
    ) -> Output<'g> {
        pool(self, "AvgPool", ksize, strides, padding, format).output()
    }

    #[track_caller]
    fn bias_add(self, bias: impl Into<Output<'g>>, format: DataFormat) -> Output<'g> {
        let node = self.graph().op("BiasAdd").input(self).input(bias);
        node.attr("data_format", format).output()
    }

    #[track_caller]
    fn relu(self) -> Output<'g> {
        self.graph().op("Relu").input(self).output()
    }

    #[track_caller]
    fn relu6(self) -> Output<'g> {
        self.graph().op("Relu6").input(self).output()
    }

    #[track_caller]
    fn elu(self) -> Output<'g> {
        self.graph().op("Elu").input(self).output()
    }

    #[track_caller]
    fn leaky_relu(self, alpha: f32) -> Output<'g> {
        let node = self.graph().op("LeakyRelu").input(self);
        node.attr("alpha", alpha).output()
    }

    #[track_caller]
    fn softmax(self) -> Output<'g> {
        self.graph().op("Softmax").input(self).output()
    }

    #[track_caller]
    fn log_softmax(self) -> Output<'g> {
        self.graph().op("LogSoftmax").input(self).output()
    }

    #[track_caller]
    fn top_k(self, k: impl Into<Value<'g>>) -> [Output<'g>; 2] {
        let graph = self.graph();
        let k = k.into().on(graph);
        let largest = graph.op("TopKV2").input(self).input(k).build();
        [largest.output(0), largest.output(1)]
    }

    #[track_caller]
    fn softmax_cross_entropy(self, labels: impl Into<Output<'g>>) -> Output<'g> {
        let node = self.graph().op("SoftmaxCrossEntropyWithLogits");
        node.input(self).input(labels).output()
    }

    #[track_caller]
    fn sparse_softmax_cross_entropy(self, labels: impl Into<Output<'g>>) -> Output<'g> {
        let node = self.graph().op("SparseSoftmaxCrossEntropyWithLogits");
        node.input(self).input(labels).output()
    }
}
