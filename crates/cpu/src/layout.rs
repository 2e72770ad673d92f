//! Layouts of images: NHWC and NCHW.

/// How the dimensions of a batch of images lie, from the slowest to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Image, line, column, channel.
    Nhwc,
    /// Image, channel, line, column.
    Nchw,
}
