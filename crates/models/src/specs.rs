//! Specifications of layers: normalization, convolutions and pools, as values for the tables of
//! networks.

use thalweg_ops::Padding;

/// Options of batch normalization.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    pub(crate) decay: f64,
    pub(crate) epsilon: f64,
    pub(crate) scale: bool,
}

impl Norm {
    /// The default.
    pub(crate) const USUAL: Norm = Norm {
        decay: 0.999,
        epsilon: 1e-3,
        scale: false,
    };
    /// The one of residual and of dense networks.
    pub(crate) const RESIDUAL: Norm = Norm {
        decay: 0.9,
        epsilon: 1e-5,
        scale: true,
    };
}

/// The padding of a layer's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    Same,
    Valid,
    /// Half of the window before, and the rest after: the positions of windows do not depend on the
    /// size of images.
    Resnet,
}

/// A convolution; see [`c`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv {
    pub(crate) channels: usize,
    pub(crate) window: [usize; 2],
    pub(crate) stride: usize,
    pub(crate) border: Border,
    pub(crate) relu: bool,
    pub(crate) bias: Option<f32>,
    pub(crate) stddev: Option<f64>,
    pub(crate) normalized: bool,
}

/// A convolution to this many channels with a square window, with ReLU.
pub(crate) const fn c(channels: usize, window: usize) -> Conv {
    c2(channels, window, window)
}

/// As [`c`], with a window of this height and width.
pub(crate) const fn c2(channels: usize, lines: usize, columns: usize) -> Conv {
    Conv {
        channels,
        window: [lines, columns],
        stride: 1,
        border: Border::Same,
        relu: true,
        bias: Some(0.0),
        stddev: None,
        normalized: true,
    }
}

impl Conv {
    pub(crate) const fn stride(self, stride: usize) -> Conv {
        Conv { stride, ..self }
    }

    pub(crate) const fn valid(self) -> Conv {
        self.border(Border::Valid)
    }

    pub(crate) const fn border(self, border: Border) -> Conv {
        Conv { border, ..self }
    }

    /// Without ReLU.
    pub(crate) const fn linear(self) -> Conv {
        Conv {
            relu: false,
            ..self
        }
    }

    /// Sets the initial bias, for a layer without normalization.
    pub(crate) const fn bias(self, bias: f32) -> Conv {
        Conv {
            bias: Some(bias),
            ..self
        }
    }

    /// Without a bias.
    pub(crate) const fn without_bias(self) -> Conv {
        Conv { bias: None, ..self }
    }

    pub(crate) const fn stddev(self, stddev: f64) -> Conv {
        Conv {
            stddev: Some(stddev),
            ..self
        }
    }

    /// Without normalization, also in a network that has it.
    pub(crate) const fn bare(self) -> Conv {
        Conv {
            normalized: false,
            ..self
        }
    }
}

/// A pool; see [`mp`] and [`ap`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) largest: bool,
    pub(crate) window: usize,
    pub(crate) stride: usize,
    pub(crate) padding: Padding,
}

/// Max pooling with a square window.
pub(crate) const fn mp(window: usize, stride: usize, padding: Padding) -> Pool {
    Pool {
        largest: true,
        window,
        stride,
        padding,
    }
}

/// Average pooling with a square window.
pub(crate) const fn ap(window: usize, stride: usize, padding: Padding) -> Pool {
    Pool {
        largest: false,
        ..mp(window, stride, padding)
    }
}
