//! The shape of a pooling.

use crate::Layout;

/// The shape of a pooling. Output pixel `(y, x)` sees the input pixels
/// `(y stride[0] - pad_top + i, x stride[1] - pad_left + j)` for `i < k_h`, `j < k_w` that lie inside the image, and sees
/// at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolGeometry {
    /// Images.
    pub batch: usize,
    /// Lines of an input image.
    pub in_h: usize,
    /// Columns of an input image.
    pub in_w: usize,
    /// Channels of both images.
    pub channels: usize,
    /// Lines of an output image.
    pub out_h: usize,
    /// Columns of an output image.
    pub out_w: usize,
    /// Lines of a window.
    pub k_h: usize,
    /// Columns of a window.
    pub k_w: usize,
    /// From a window to the next, along lines and along columns; at least one.
    pub stride: [usize; 2],
    /// Lines above the image that windows reach.
    pub pad_top: usize,
    /// Columns left of the image that windows reach.
    pub pad_left: usize,
    /// The layout of both images.
    pub layout: Layout,
}

impl PoolGeometry {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_h * self.in_w * self.channels
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_h * self.out_w * self.channels
    }

    pub(super) fn check(&self, input: usize, output: usize) {
        assert!(
            input == self.input_len() && output == self.output_len(),
            "operands do not fit {self:?}"
        );
        assert!(
            output == 0
                || (self.out_h - 1) * self.stride[0] < self.in_h + self.pad_top
                    && (self.out_w - 1) * self.stride[1] < self.in_w + self.pad_left
                    && self.pad_top < self.k_h
                    && self.pad_left < self.k_w,
            "windows outside the image: {self:?}"
        );
    }
}
