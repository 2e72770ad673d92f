//! The convolutions of the networks of the report: each shape once.

/// A convolution of a square image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Lines and columns of the image.
    pub side: usize,
    /// Channels of the image.
    pub from: usize,
    /// Channels of the result.
    pub to: usize,
    /// Lines and columns of the filter.
    pub filter: [usize; 2],
    /// In both directions.
    pub stride: usize,
    /// `true` for TensorFlow's SAME padding, `false` for VALID.
    pub same: bool,
}

impl Conv {
    /// Lines and columns of the result.
    pub fn out(&self) -> [usize; 2] {
        self.filter.map(|k| match self.same {
            true => self.side.div_ceil(self.stride),
            false => (self.side - k) / self.stride + 1,
        })
    }

    /// Operations of one image: two for each product that is summed.
    pub fn flops(&self) -> f64 {
        let [h, w] = self.out();
        let [k, l] = self.filter;
        2.0 * (h * w * k * l) as f64 * (self.from * self.to) as f64
    }

    /// `56x56x64 3x3 to 64 /2`.
    pub fn name(&self) -> String {
        let Conv { side, from, to, .. } = *self;
        let [k, l] = self.filter;
        let stride = if self.stride > 1 { " /2" } else { "" };
        let valid = if self.same { "" } else { " valid" };
        format!("{side}x{side}x{from} {k}x{l} to {to}{stride}{valid}")
    }
}

const fn conv(side: usize, from: usize, to: usize, k: usize, stride: usize) -> Conv {
    Conv {
        side,
        from,
        to,
        filter: [k, k],
        stride,
        same: true,
    }
}

const fn valid(side: usize, from: usize, to: usize, k: usize, stride: usize) -> Conv {
    Conv {
        same: false,
        ..conv(side, from, to, k, stride)
    }
}

const fn line(side: usize, from: usize, to: usize, k: usize, l: usize) -> Conv {
    Conv {
        filter: [k, l],
        ..conv(side, from, to, 1, 1)
    }
}

/// ResNet-50 (He et al., 2015), with the strides in the convolutions of 3x3.
pub const RESNET_50: [Conv; 23] = [
    conv(224, 3, 64, 7, 2),
    conv(56, 64, 64, 1, 1),
    conv(56, 64, 64, 3, 1),
    conv(56, 64, 256, 1, 1),
    conv(56, 256, 64, 1, 1),
    conv(56, 256, 128, 1, 1),
    conv(56, 128, 128, 3, 2),
    conv(28, 128, 512, 1, 1),
    conv(56, 256, 512, 1, 2),
    conv(28, 512, 128, 1, 1),
    conv(28, 128, 128, 3, 1),
    conv(28, 512, 256, 1, 1),
    conv(28, 256, 256, 3, 2),
    conv(14, 256, 1024, 1, 1),
    conv(28, 512, 1024, 1, 2),
    conv(14, 1024, 256, 1, 1),
    conv(14, 256, 256, 3, 1),
    conv(14, 1024, 512, 1, 1),
    conv(14, 512, 512, 3, 2),
    conv(7, 512, 2048, 1, 1),
    conv(14, 1024, 2048, 1, 2),
    conv(7, 2048, 512, 1, 1),
    conv(7, 512, 512, 3, 1),
];

/// InceptionV3 (Szegedy et al., 2015), without its auxiliary head.
pub const INCEPTION_V3: [Conv; 43] = [
    valid(299, 3, 32, 3, 2),
    valid(149, 32, 32, 3, 1),
    conv(147, 32, 64, 3, 1),
    conv(73, 64, 80, 1, 1),
    valid(73, 80, 192, 3, 1),
    conv(35, 192, 64, 1, 1),
    conv(35, 192, 48, 1, 1),
    conv(35, 48, 64, 5, 1),
    conv(35, 64, 96, 3, 1),
    conv(35, 96, 96, 3, 1),
    conv(35, 192, 32, 1, 1),
    conv(35, 256, 64, 1, 1),
    conv(35, 256, 48, 1, 1),
    conv(35, 288, 64, 1, 1),
    conv(35, 288, 48, 1, 1),
    valid(35, 288, 384, 3, 2),
    valid(35, 96, 96, 3, 2),
    conv(17, 768, 192, 1, 1),
    conv(17, 768, 128, 1, 1),
    line(17, 128, 128, 1, 7),
    line(17, 128, 128, 7, 1),
    line(17, 128, 192, 1, 7),
    line(17, 128, 192, 7, 1),
    conv(17, 768, 160, 1, 1),
    line(17, 160, 160, 1, 7),
    line(17, 160, 160, 7, 1),
    line(17, 160, 192, 1, 7),
    line(17, 160, 192, 7, 1),
    line(17, 192, 192, 1, 7),
    line(17, 192, 192, 7, 1),
    valid(17, 192, 320, 3, 2),
    valid(17, 192, 192, 3, 2),
    conv(8, 1280, 320, 1, 1),
    conv(8, 1280, 384, 1, 1),
    line(8, 384, 384, 1, 3),
    line(8, 384, 384, 3, 1),
    conv(8, 1280, 448, 1, 1),
    conv(8, 448, 384, 3, 1),
    conv(8, 1280, 192, 1, 1),
    conv(8, 2048, 320, 1, 1),
    conv(8, 2048, 384, 1, 1),
    conv(8, 2048, 448, 1, 1),
    conv(8, 2048, 192, 1, 1),
];
