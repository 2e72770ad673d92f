//! Layouts of images: NHWC and NCHW.

/// The order of the dimensions of a batch of images, from the slowest to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Image, line, column, channel.
    Nhwc,
    /// Image, channel, line, column.
    Nchw,
}
