//! Layers with the defaults of TensorFlow's `slim`, in which MobileNet and NASNet are written. The
//! caller names each layer.

use thalweg_graph::Output;
use thalweg_layers::{Initializer, Layer, VariableScopes, Weights, batch_norm};
use thalweg_ops::{NnOps, Padding};

use crate::net::Net;
use crate::specs::Norm;

/// The name and options of a convolution.
pub(crate) struct Slim<'a> {
    pub(crate) name: &'a str,
    pub(crate) window: usize,
    pub(crate) stride: usize,
    pub(crate) padding: Padding,
    pub(crate) initializer: Initializer,
    /// `true` for a bias and ReLU after it: `slim`'s default.
    pub(crate) relu: bool,
}

impl<'g> Net<'g> {
    /// A convolution to this many channels.
    pub(crate) fn slim_conv(&self, x: Output<'g>, channels: usize, slim: Slim<'_>) -> Output<'g> {
        self.graph.variable_scope(slim.name, || {
            self.slim_conv_here(x, "weights", channels, &slim)
        })
    }

    fn slim_conv_here(
        &self,
        x: Output<'g>,
        weights: &str,
        channels: usize,
        slim: &Slim<'_>,
    ) -> Output<'g> {
        let dims = [slim.window, slim.window, self.channels(x), channels];
        let weights = self.weight(weights, &dims, slim.initializer.clone());
        let strides = [slim.stride; 2];
        let y = x.conv2d(weights, strides, slim.padding, self.options.format);
        if !slim.relu {
            return y;
        }
        let biases = self.weight("biases", &[channels], Initializer::Zeros);
        y.bias_add(biases, self.options.format).relu()
    }

    /// A depthwise convolution.
    pub(crate) fn slim_depthwise(&self, x: Output<'g>, slim: Slim<'_>) -> Output<'g> {
        self.graph
            .variable_scope(slim.name, || self.slim_depthwise_here(x, &slim))
    }

    fn slim_depthwise_here(&self, x: Output<'g>, slim: &Slim<'_>) -> Output<'g> {
        let dims = [slim.window, slim.window, self.channels(x), 1];
        let weights = self.weight("depthwise_weights", &dims, slim.initializer.clone());
        let strides = [slim.stride; 2];
        x.depthwise_conv2d(weights, strides, slim.padding, self.options.format)
    }

    /// A separable convolution: depthwise, then pointwise to this many channels.
    pub(crate) fn slim_separable(
        &self,
        x: Output<'g>,
        channels: usize,
        slim: Slim<'_>,
    ) -> Output<'g> {
        self.graph.variable_scope(slim.name, || {
            let x = self.slim_depthwise_here(x, &slim);
            let pixel = Slim {
                window: 1,
                stride: 1,
                initializer: slim.initializer.clone(),
                ..slim
            };
            self.slim_conv_here(x, "pointwise_weights", channels, &pixel)
        })
    }

    /// Batch normalization under a name.
    pub(crate) fn slim_norm(&self, x: Output<'g>, name: &str, norm: Norm) -> Output<'g> {
        let layer = batch_norm()
            .named(name)
            .training(self.options.training)
            .momentum(norm.decay)
            .epsilon(norm.epsilon)
            .data_format(self.options.format);
        match norm.scale {
            true => layer.on(x),
            false => layer.without_scale().on(x),
        }
    }
}
