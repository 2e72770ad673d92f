//! The shapes of a convolution, its passes, and the element types that it takes.

use crate::Layout;
use crate::gemm::Element;
use crate::micro_kernel::Tiled;
use crate::number::Number;
use crate::vector::Vectored;

/// The types of convolutions: `f32` and `f64`.
pub trait Real:
    Tiled + Vectored + Element<Sum = Self> + Number + Default + std::ops::AddAssign
{
}
impl Real for f32 {}
impl Real for f64 {}

/// The three passes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The convolution itself.
    Forward,
    /// The gradient to the input.
    ToInput,
    /// The gradient to the filter.
    ToFilter,
}

/// The shape of a convolution. Images lie as `layout` says; the filter is always `k_h x k_w x in_c x out_c`, dense.
///
/// Output pixel `(y, x)` sees input pixels `(y stride[0] - pad_top + i dilation[0], x stride[1] - pad_left + j dilation[1])`
/// for `i < k_h`, `j < k_w`; those outside the image are zero. Padding below and to the right follows from `out_h` and
/// `out_w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    /// Images.
    pub batch: usize,
    /// Lines of an input image.
    pub in_h: usize,
    /// Columns of an input image.
    pub in_w: usize,
    /// Channels of an input image.
    pub in_c: usize,
    /// Lines of an output image.
    pub out_h: usize,
    /// Columns of an output image.
    pub out_w: usize,
    /// Channels of an output image.
    pub out_c: usize,
    /// Lines of the filter.
    pub k_h: usize,
    /// Columns of the filter.
    pub k_w: usize,
    /// From an output line, and an output column, to the next, in input pixels; at least one.
    pub stride: [usize; 2],
    /// From a filter line, and a filter column, to the next, in input pixels; at least one.
    pub dilation: [usize; 2],
    /// Lines of zeros above the image.
    pub pad_top: usize,
    /// Columns of zeros left of the image.
    pub pad_left: usize,
    /// The layout of both the input and the output.
    pub layout: Layout,
}

impl ConvGeometry {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_h * self.in_w * self.in_c
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_h * self.out_w * self.out_c
    }

    /// Elements of the filter.
    pub fn filter_len(&self) -> usize {
        self.k_h * self.k_w * self.in_c * self.out_c
    }

    /// The same convolution with image lines as pixels, where the filter is as wide as the image and an output line is one
    /// pixel, as in convolutions of texts: an output line then has all output pixels of an image. The elements of images
    /// and filter lie as before. Other convolutions stay as they are.
    ///
    /// ```
    /// use thalweg_cpu::{Layout, conv::ConvGeometry};
    ///
    /// // 56 words of 128 numbers, and filters over 3 words.
    /// let g = ConvGeometry {
    ///     batch: 64, in_h: 56, in_w: 128, in_c: 1, out_h: 54, out_w: 1, out_c: 100,
    ///     k_h: 3, k_w: 128, stride: [1, 1], dilation: [1, 1], pad_top: 0, pad_left: 0, layout: Layout::Nhwc,
    /// };
    /// let folded = g.folded();
    /// assert_eq!((folded.in_h, folded.in_w, folded.in_c, folded.out_w), (1, 56, 128, 54));
    /// assert_eq!(folded.folded(), folded);
    /// ```
    pub fn folded(self) -> ConvGeometry {
        let is_one_pixel = self.out_w == 1 && self.k_w == self.in_w && self.pad_left == 0;
        let is_dense = self.dilation[1] == 1 || self.k_w == 1;
        if !is_one_pixel || !is_dense || self.out_h == 1 || self.layout == Layout::Nchw {
            return self;
        }
        ConvGeometry {
            in_h: 1,
            in_w: self.in_h,
            in_c: self.in_w * self.in_c,
            out_h: 1,
            out_w: self.out_h,
            k_h: 1,
            k_w: self.k_h,
            stride: [1, self.stride[0]],
            dilation: [1, self.dilation[0]],
            pad_top: 0,
            pad_left: self.pad_top,
            ..self
        }
    }

    /// Input lines that this many output lines see.
    pub(super) fn lines_seen(&self, lines: usize) -> usize {
        (lines - 1) * self.stride[0] + (self.k_h - 1) * self.dilation[0] + 1
    }

    /// Input columns that an output line sees.
    pub(super) fn cols_seen(&self) -> usize {
        (self.out_w - 1) * self.stride[1] + (self.k_w - 1) * self.dilation[1] + 1
    }

    /// `true` if no tap of any output pixel lies outside the image.
    pub(super) fn is_inside(&self) -> bool {
        let inside = self.lines_seen(self.out_h) <= self.in_h && self.cols_seen() <= self.in_w;
        inside && self.pad_top == 0 && self.pad_left == 0
    }

    /// `true` if there is nothing to compute: the output or an operand is empty.
    pub(super) fn is_empty(&self) -> bool {
        [self.output_len(), self.filter_len(), self.input_len()].contains(&0)
    }
}
