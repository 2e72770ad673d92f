//! Options of building a network.

use thalweg_ops::DataFormat;
use thalweg_tensor::DType;

/// Options of a network: see each method. The default is a network for training, in f32, with
/// channels last.
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
    /// The defaults: a network for training, in f32, with channels last.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the data format inside of the network. Images are passed with channels last all the
    /// same.
    pub fn data_format(mut self, format: DataFormat) -> Options {
        self.format = format;
        self
    }

    /// Builds the network for inference: batch normalization takes its moving averages, and there
    /// is no dropout.
    pub fn inference(mut self) -> Options {
        self.training = false;
        self
    }

    /// Sets the dtype of the network's computation: f32, f16 or bf16. Statistics of batch
    /// normalization and logits are f32 all the same.
    pub fn compute(mut self, dtype: DType) -> Options {
        self.compute = dtype;
        self
    }

    /// Sets the dtype of weights; f32 by default. Those of batch normalization are always f32.
    pub fn weights(mut self, dtype: DType) -> Options {
        self.weights = dtype;
        self
    }

    /// Adds the auxiliary head, if the network has one and is for training.
    pub fn auxiliary(mut self) -> Options {
        self.auxiliary = true;
        self
    }

    /// Builds the network for training without dropout: its steps are the same in every run.
    pub fn without_dropout(mut self) -> Options {
        self.drops = false;
        self
    }
}
