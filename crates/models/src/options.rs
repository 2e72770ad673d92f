//! What a network is built with.

use thalweg_ops::DataFormat;
use thalweg_tensor::DType;

/// What a network is built with: see each method. Without any, it is a network that learns, in f32, with channels
/// last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) format: DataFormat,
    pub(crate) training: bool,
    pub(crate) compute: DType,
    pub(crate) weights: DType,
    pub(crate) auxiliary: bool,
    pub(crate) drops: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            format: DataFormat::Nhwc,
            training: true,
            compute: DType::F32,
            weights: DType::F32,
            auxiliary: false,
            drops: true,
        }
    }
}

impl Options {
    /// A network that learns, in f32, with channels last.
    pub fn new() -> Options {
        Options::default()
    }

    /// The order of the dimensions inside of the network. Images are given with channels last all the same.
    pub fn data_format(mut self, format: DataFormat) -> Options {
        self.format = format;
        self
    }

    /// A network that is used and does not learn: batch normalization takes its moving averages, and nothing is
    /// dropped.
    pub fn inference(mut self) -> Options {
        self.training = false;
        self
    }

    /// The dtype that the network computes in: f32, f16 or bf16. Statistics of batch normalization and logits are f32
    /// all the same.
    pub fn compute(mut self, dtype: DType) -> Options {
        self.compute = dtype;
        self
    }

    /// The dtype of weights, which is f32 without it. Those of batch normalization are always f32.
    pub fn weights(mut self, dtype: DType) -> Options {
        self.weights = dtype;
        self
    }

    /// With the auxiliary head, where the network has one and learns.
    pub fn auxiliary(mut self) -> Options {
        self.auxiliary = true;
        self
    }

    /// A network that learns and drops nothing: its steps are the same in every run.
    pub fn without_dropout(mut self) -> Options {
        self.drops = false;
        self
    }
}
