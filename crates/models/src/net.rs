//! `Net`: builds layers with tf_cnn_benchmarks' defaults and names.
//!
//! A layer's name is its kind and its number among those of its kind in the whole network: `conv0`,
//! `mpool0`, `affine0`. Checkpoints depend on these names.

use std::collections::BTreeMap;

use thalweg_graph::{Graph, Output};
use thalweg_layers::initializers::{Distribution, Fan};
use thalweg_layers::{Initializer, Layer, VariableScopes, Weights, batch_norm};
use thalweg_ops::{
    ArrayOps, DataFormat, DropoutOps, LinalgOps, NnOps, Padding, ReduceOps, SourceOps, Variable,
};
use thalweg_tensor::DType;

use crate::options::Options;
use crate::specs::{Border, Conv, Norm, Pool};

/// A network under construction.
pub(crate) struct Net<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) options: Options,
    /// The batch normalization of convolutions; in networks without it they have a bias.
    pub(crate) norm: Option<Norm>,
    /// The input of the auxiliary head.
    pub(crate) auxiliary: Option<Output<'g>>,
    counts: BTreeMap<&'static str, usize>,
}

impl<'g> Net<'g> {
    pub(crate) fn new(graph: &'g Graph, options: &Options) -> Net<'g> {
        Net {
            graph,
            options: options.clone(),
            norm: None,
            auxiliary: None,
            counts: BTreeMap::new(),
        }
    }

    /// The name of the next layer of this kind.
    pub(crate) fn name(&mut self, kind: &'static str) -> String {
        let count = self.counts.entry(kind).or_default();
        let name = format!("{kind}{count}");
        *count += 1;
        name
    }

    /// The dimension of channels.
    pub(crate) fn channel(&self) -> usize {
        self.options.format.channel(4)
    }

    /// The channels of `x`; 0 if it has none, which the op that takes `x` reports.
    pub(crate) fn channels(&self, x: Output<'g>) -> usize {
        x.shape().dim(self.channel()).unwrap_or(0)
    }

    /// A weight, in the dtype of the network's computation.
    pub(crate) fn weight(
        &self,
        name: &str,
        dims: &[usize],
        initializer: Initializer,
    ) -> Output<'g> {
        let weight = self.graph.get_variable(name, dims);
        let weight = weight.dtype(self.options.weights).initializer(initializer);
        self.computed(weight.build())
    }

    fn computed(&self, weight: Variable<'g>) -> Output<'g> {
        match self.options.compute == self.options.weights {
            true => weight.value(),
            false => weight.value().cast(self.options.compute),
        }
    }

    pub(crate) fn conv(&mut self, x: Output<'g>, conv: Conv) -> Output<'g> {
        let name = self.name("conv");
        let graph = self.graph;
        graph.variable_scope(&*name, || {
            let x = self.convolved(x, &conv);
            let x = match (self.norm.filter(|_| conv.normalized), conv.bias) {
                (Some(norm), _) => self.normalized(x, norm),
                (None, Some(bias)) => {
                    let initial = Initializer::Constant(f64::from(bias));
                    let bias = self.weight("biases", &[conv.channels], initial);
                    x.bias_add(bias, self.options.format)
                }
                (None, None) => x,
            };
            if conv.relu { x.relu() } else { x }
        })
    }

    fn convolved(&mut self, x: Output<'g>, conv: &Conv) -> Output<'g> {
        let [lines, columns] = conv.window;
        let initializer = match conv.stddev {
            Some(stddev) => Initializer::truncated_normal(0.0, stddev),
            None => Initializer::variance_scaling(1.0, Fan::In, Distribution::TruncatedNormal),
        };
        let dims = [lines, columns, self.channels(x), conv.channels];
        let kernel = self.weight("conv2d/kernel", &dims, initializer);
        let (x, padding) = match conv.border {
            Border::Valid => (x, Padding::Valid),
            Border::Resnet if conv.stride > 1 => (self.padded(x, conv.window), Padding::Valid),
            Border::Same | Border::Resnet => (x, Padding::Same),
        };
        x.conv2d(kernel, [conv.stride; 2], padding, self.options.format)
    }

    /// Pads with zeros, half of the window before and the rest after.
    fn padded(&self, x: Output<'g>, window: [usize; 2]) -> Output<'g> {
        let around = window.map(|n| [(n as i32 - 1) / 2, n as i32 - 1 - (n as i32 - 1) / 2]);
        let none = [0, 0];
        let all = match self.options.format {
            DataFormat::Nhwc => [none, around[0], around[1], none],
            DataFormat::Nchw => [none, none, around[0], around[1]],
        };
        x.pad(self.graph.constant(all))
    }

    /// Batch normalization.
    pub(crate) fn normalized(&mut self, x: Output<'g>, norm: Norm) -> Output<'g> {
        let layer = batch_norm()
            .named(&self.name("batchnorm"))
            .training(self.options.training)
            .momentum(norm.decay)
            .epsilon(norm.epsilon)
            .data_format(self.options.format);
        match norm.scale {
            true => layer.on(x),
            false => layer.without_scale().on(x),
        }
    }

    pub(crate) fn pool(&mut self, x: Output<'g>, pool: Pool) -> Output<'g> {
        let (window, strides) = ([pool.window; 2], [pool.stride; 2]);
        let format = self.options.format;
        let kind = if pool.largest { "mpool" } else { "apool" };
        let name = self.name(kind);
        self.graph.name_scope(&name, || match pool.largest {
            true => x.max_pool(window, strides, pool.padding, format),
            false => x.avg_pool(window, strides, pool.padding, format),
        })
    }

    /// Flattens each image to one dimension, in the order of the network's format.
    pub(crate) fn flat(&self, x: Output<'g>) -> Output<'g> {
        let shape = x.shape();
        let lengths = shape.dims().unwrap_or_default().iter().skip(1);
        let all: Option<usize> = lengths.copied().product();
        x.reshape([-1, all.map_or(-1, |n| n as i64)])
    }

    /// A dense layer of this many units with ReLU.
    pub(crate) fn dense(&mut self, x: Output<'g>, units: usize) -> Output<'g> {
        self.affine(x, units, 2.0, None, 0.0).relu()
    }

    /// As [`Net::dense`], with an initial standard deviation of the weights, and a bias.
    pub(crate) fn dense_with_stddev(
        &mut self,
        x: Output<'g>,
        units: usize,
        stddev: f64,
        bias: f64,
    ) -> Output<'g> {
        self.affine(x, units, 2.0, Some(stddev), bias).relu()
    }

    /// The logits, as f32.
    pub(crate) fn logits(
        &mut self,
        x: Output<'g>,
        classes: usize,
        stddev: Option<f64>,
    ) -> Output<'g> {
        let logits = self.affine(x, classes, 1.0, stddev, 0.0);
        match self.options.compute {
            DType::F32 => logits,
            _ => logits.cast(DType::F32),
        }
    }

    /// `x w + b`; without a standard deviation of its own, `w` has the variance `factor / inputs`.
    fn affine(
        &mut self,
        x: Output<'g>,
        units: usize,
        factor: f64,
        stddev: Option<f64>,
        bias: f64,
    ) -> Output<'g> {
        let name = self.name("affine");
        let inputs = x.shape().dim(1).unwrap_or(0);
        let stddev = stddev.unwrap_or_else(|| (factor / inputs.max(1) as f64).sqrt());
        self.graph.variable_scope(&*name, || {
            let initial = Initializer::truncated_normal(0.0, stddev);
            let weights = self.weight("weights", &[inputs, units], initial);
            let biases = self.weight("biases", &[units], Initializer::Constant(bias));
            x.matmul(weights).bias_add(biases, DataFormat::Nhwc)
        })
    }

    /// Dropout that keeps this share, during training.
    pub(crate) fn dropout(&mut self, x: Output<'g>, keep: f64) -> Output<'g> {
        match self.options.training && self.options.drops {
            true => x.dropout(keep, None),
            false => x,
        }
    }

    /// The mean of each channel of each image.
    pub(crate) fn mean(&mut self, x: Output<'g>) -> Output<'g> {
        let name = self.name("spatial_mean");
        let axes = match self.options.format {
            DataFormat::Nhwc => [1, 2],
            DataFormat::Nchw => [2, 3],
        };
        self.graph.name_scope(&name, || x.reduce_mean(&axes, false))
    }

    /// Concatenates tensors along the channels.
    pub(crate) fn joined(&self, all: &[Output<'g>]) -> Output<'g> {
        self.graph.concat(all, self.channel() as i64)
    }
}
