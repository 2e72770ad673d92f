//! `Layer` for `Conv`: checks the options of a convolution layer, and builds its weights and nodes.

use thalweg_graph::{NodeBuilder, Output};
use thalweg_ops::{DataFormat, NnOps, Padding};
use thalweg_tensor::{DType, Shape};

use super::{Conv, ConvKind};
use crate::layer::{Layer, Weights, channels, of_shape, report_mistake, sizes};

impl<'g> Layer<'g> for Conv {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        let x = x.into();
        if x.is_invalid() {
            return x;
        }
        let (graph, usual) = (x.graph(), self.kind.usual());
        graph.at_caller(|| {
            self.options.scope(graph, usual, || {
                let made = self.check().and_then(|()| self.apply(x));
                made.unwrap_or_else(|text| report_mistake(graph, usual, text))
            })
        })
    }
}

impl Conv {
    /// Checks for options that exclude each other.
    fn check(&self) -> Result<(), String> {
        let by_channel = matches!(self.kind, ConvKind::Depthwise | ConvKind::Separable);
        let for_channels = self.multiplier != 1
            || self.depthwise_initializer.is_some()
            || self.depthwise_regularizer.is_some();
        if for_channels && !by_channel {
            let text = "only depthwise and separable convolutions have a multiplier and a depthwise \
                        kernel";
            return Err(text.to_owned());
        }
        if self.kind == ConvKind::Transposed {
            if self.dilations != [1, 1] {
                return Err("a transposed convolution takes no dilation".to_owned());
            }
            if matches!(self.padding, Padding::Explicit(_)) {
                let text = "a transposed convolution takes Padding::Same or Padding::Valid";
                return Err(text.to_owned());
            }
        }
        Ok(())
    }

    fn apply<'g>(&self, x: Output<'g>) -> Result<Output<'g>, String> {
        let (graph, dtype, [h, w]) = (x.graph(), x.dtype(), self.window);
        let (dims, inputs) = channels(x, 4..=4, |rank| self.format.channel(rank))?;
        let kernel = |name: &str, dims: &[usize]| self.options.kernel(graph, name, dims, dtype);
        let bias = |outputs: usize| self.options.bias(graph, "bias", &[outputs], dtype);
        let (y, bias) = match self.kind {
            ConvKind::Plain => {
                let kernel = kernel("kernel", &[h, w, inputs, self.filters]);
                let bias = bias(self.filters);
                let (strides, dilations) = (self.strides, self.dilations);
                let y = x.conv2d_dilated(kernel, strides, dilations, self.padding, self.format);
                (y, bias)
            }
            ConvKind::Depthwise => {
                let y = self.by_channel(x, inputs, dtype);
                (y, bias(inputs.saturating_mul(self.multiplier)))
            }
            ConvKind::Separable => {
                let y = self.by_channel(x, inputs, dtype);
                let between = inputs.saturating_mul(self.multiplier);
                let kernel = kernel("pointwise_kernel", &[1, 1, between, self.filters]);
                let bias = bias(self.filters);
                let y = y.conv2d(kernel, [1, 1], Padding::Valid, self.format);
                (y, bias)
            }
            ConvKind::Transposed => {
                let kernel = kernel("kernel", &[h, w, self.filters, inputs]);
                let bias = bias(self.filters);
                (self.transposed(x, dims, kernel.value()), bias)
            }
        };
        Ok(match bias {
            Some(bias) => y.bias_add(bias, self.format),
            None => y,
        })
    }

    /// The depthwise convolution.
    fn by_channel<'g>(&self, x: Output<'g>, inputs: usize, dtype: DType) -> Output<'g> {
        let (graph, [h, w]) = (x.graph(), self.window);
        let mut options = self.options.clone();
        if let Some(initializer) = &self.depthwise_initializer {
            options = options.kernel_initializer(initializer.clone());
        }
        if let Some(regularizer) = self.depthwise_regularizer {
            options = options.kernel_regularizer(regularizer);
        }
        let dims = [h, w, inputs, self.multiplier];
        let kernel = options.kernel(graph, "depthwise_kernel", &dims, dtype);
        let node = graph.op("DepthwiseConv2dNative").input(x).input(kernel);
        let node = self.sliding(node);
        let node = match self.padding {
            Padding::Explicit(_) => {
                node.attr("explicit_paddings", self.padding.explicit(self.format))
            }
            _ => node,
        };
        node.attr("dilations", self.spatial(self.dilations))
            .output()
    }

    fn transposed<'g>(
        &self,
        x: Output<'g>,
        mut dims: Vec<Option<usize>>,
        kernel: Output<'g>,
    ) -> Output<'g> {
        let channel = self.format.channel(4);
        let first = match self.format {
            DataFormat::Nhwc => 1,
            DataFormat::Nchw => 2,
        };
        // Height (0) and width (1): multiplied by the stride, with the padding's surplus.
        let longer = |i: usize| match self.padding {
            Padding::Valid => self.window[i].saturating_sub(self.strides[i]),
            _ => 0,
        };
        for i in [0, 1] {
            let times = |n: usize| n.saturating_mul(self.strides[i]);
            dims[first + i] = dims[first + i].map(|n| times(n).saturating_add(longer(i)));
        }
        dims[channel] = Some(self.filters);
        let sizes = sizes(x, &dims, |axis, own| match axis.checked_sub(first) {
            Some(i @ (0 | 1)) => own * self.strides[i] as i32 + longer(i) as i32,
            _ => own,
        });
        let node = x.graph().op("Conv2DBackpropInput");
        let node = node.input(sizes.on(x.graph())).input(kernel).input(x);
        of_shape(self.sliding(node).output(), Shape::partial(dims))
    }

    /// Adds the attributes of the windows to `node`.
    fn sliding<'g>(&self, node: NodeBuilder<'g>) -> NodeBuilder<'g> {
        node.attr("strides", self.spatial(self.strides))
            .attr("padding", self.padding.name())
            .attr("data_format", self.format)
    }

    /// Height and width as an attribute with a number for each dimension.
    fn spatial(&self, pair: [usize; 2]) -> Vec<i64> {
        // A number beyond an i64 is refused like one beyond an i32.
        let [h, w] = pair.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        match self.format {
            DataFormat::Nhwc => vec![1, h, w, 1],
            DataFormat::Nchw => vec![1, 1, h, w],
        }
    }
}
