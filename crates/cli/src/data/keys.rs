//! Keys of ImageNet's records, which tf_cnn_benchmarks and other programs read.

pub(super) const ENCODED: &str = "image/encoded";
pub(super) const FORMAT: &str = "image/format";
pub(super) const COLORSPACE: &str = "image/colorspace";
pub(super) const CHANNELS: &str = "image/channels";
pub(super) const HEIGHT: &str = "image/height";
pub(super) const WIDTH: &str = "image/width";
pub(super) const FILENAME: &str = "image/filename";
pub(super) const LABEL: &str = "image/class/label";
pub(super) const TEXT: &str = "image/class/text";
pub(super) const SYNSET: &str = "image/class/synset";
