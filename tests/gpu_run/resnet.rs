//! ResNet-50 version 1 (He and others, "Deep Residual Learning", 2015, table 1), in training mode.

use thalweg::prelude::*;

use crate::bench::Scale;

/// Number of classes.
pub const CLASSES: i32 = 1001;

/// A network that is being built.
pub struct ResNet<'g> {
    g: &'g Graph,
    format: DataFormat,
    /// Dtype of activations and products; variables are f32.
    dtype: DType,
}

impl<'g> ResNet<'g> {
    /// The logits of some images, of shape `[n, CLASSES]`. A small one has a block in each stage.
    pub fn logits(
        g: &'g Graph,
        images: Output<'g>,
        (format, dtype): (DataFormat, DType),
        scale: Scale,
    ) -> Output<'g> {
        let net = ResNet { g, format, dtype };
        let x = net.conv(images.cast(dtype), [7, 3, 64], 2).relu();
        let mut x = x.max_pool([3, 3], [2, 2], Padding::Same, format);
        let mut from = 64;
        for (blocks, width, stride) in [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)] {
            let blocks = if scale == Scale::Small { 1 } else { blocks };
            for block in 0..blocks {
                let stride = if block == 0 { stride } else { 1 };
                x = net.block(x, from, width, stride);
                from = 4 * width;
            }
        }
        let axes: [i32; 2] = match format {
            DataFormat::Nhwc => [1, 2],
            DataFormat::Nchw => [2, 3],
        };
        let x = x.reduce_mean(&axes[..], false);
        let weight = g.truncated_normal([from, CLASSES], 0.0, 0.01, DType::F32, None);
        let x = x.matmul(g.variable("weight", weight).value().cast(dtype));
        x.cast(DType::F32) + g.variable("bias", vec![0f32; CLASSES as usize]).value()
    }

    /// A bottleneck block: three convolutions and a shortcut.
    fn block(&self, x: Output<'g>, from: i32, width: i32, stride: usize) -> Output<'g> {
        let short = match from == 4 * width {
            true => x,
            false => self.conv(x, [1, from, 4 * width], stride),
        };
        let y = self.conv(x, [1, from, width], 1).relu();
        let y = self.conv(y, [3, width, width], stride).relu();
        (self.conv(y, [1, width, 4 * width], 1) + short).relu()
    }

    /// A convolution and its batch normalisation.
    fn conv(&self, x: Output<'g>, [k, from, to]: [i32; 3], stride: usize) -> Output<'g> {
        let g = self.g;
        let deviation = (2.0 / f64::from(k * k * from)).sqrt();
        let filter = g.truncated_normal([k, k, from, to], 0.0, deviation, DType::F32, None);
        let y = x.conv2d(
            g.variable("filter", filter).value().cast(self.dtype),
            [stride; 2],
            Padding::Same,
            self.format,
        );
        let scale = g.variable("scale", vec![1f32; to as usize]);
        let offset = g.variable("offset", vec![0f32; to as usize]);
        // While it trains, it uses the batch's own mean and variance.
        let none = g.constant(Vec::<f32>::new());
        g.op("FusedBatchNormV3")
            .inputs([y, scale.value(), offset.value(), none, none])
            .attr("data_format", self.format.name())
            .attr("is_training", true)
            .attr("epsilon", 1e-5f32)
            .build()
            .output(0)
    }
}
