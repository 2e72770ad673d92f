//! Two-dimensional convolutions: forward, and the gradients to the input and to the filter.
//!
//! All are products through register tiles. A filter of one pixel, without padding, makes products of matrices
//! (`pointwise`), but for its gradient where that is small; some others take fewer multiplications between what tiles and
//! filter become at a few points (`winograd`). The rest have an offset per filter tap: a matrix of patches is never
//! written. There what pixels see is copied with padding written out and channels last, so that a pixel and its neighbour are a
//! fixed distance apart: by tasks, a band of lines at a time that fits the second-level cache, where the filter fits it
//! too (`band`); where it does not, once, unless the images lie so already, and tasks go along the filter in blocks
//! (`swept`). A layout with channels first differs in how images are copied in and out.
//!
//! ```
//! use thalweg_cpu::conv::{ConvGeometry, conv2d, conv2d_scratch};
//! use thalweg_cpu::{Cpu, Epilogue, Isa, Layout, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // An image of 3 x 3 pixels, a filter of 2 x 2, and one channel.
//! let g = ConvGeometry {
//!     batch: 1, in_h: 3, in_w: 3, in_c: 1,
//!     out_h: 2, out_w: 2, out_c: 1,
//!     k_h: 2, k_w: 2, stride: [1, 1], dilation: [1, 1],
//!     pad_top: 0, pad_left: 0, layout: Layout::Nhwc,
//! };
//! let image = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
//! let (filter, mut y) = ([1.0f32; 4], [0.0; 4]);
//! let mut scratch = vec![0; conv2d_scratch::<f32>(cpu.isa, pool.threads(), &g)];
//! conv2d(cpu, &g, &image, filter[..].into(), Epilogue::NONE, &mut y, &mut scratch);
//! assert_eq!(y, [12.0, 16.0, 24.0, 28.0]);
//! ```

mod band;
mod cache_blocked;
mod filter;
mod filter_grad;
mod forward;
mod input_grad;
mod pointwise;
#[cfg(test)]
mod tests;
mod winograd;

pub use filter::{Filter, Packing};
pub use filter_grad::{conv2d_filter_grad, conv2d_filter_grad_scratch};
pub use forward::{conv2d, conv2d_pack, conv2d_packing, conv2d_scratch};
pub use input_grad::{conv2d_input_grad, conv2d_input_grad_scratch};

use super::gemm::Element;
use super::micro_kernel::Tiled;
use super::{Cpu, Epilogue, Isa, Layout};
use crate::number::Number;
use pointwise::Pointwise;
use winograd::Winograd;

/// Which of the three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Forward,
    ToInput,
    ToFilter,
}

/// Another way than tap by tap.
enum Other<'a> {
    Pointwise(Pointwise<'a>),
    Winograd(Winograd<'a>),
}

impl<'a> Other<'a> {
    /// None where tap by tap is better.
    fn of<T: Real>(isa: Isa, g: &'a ConvGeometry, pass: Pass) -> Option<Self> {
        let one = Pointwise::of::<T>(isa, g, pass).map(Other::Pointwise);
        one.or_else(|| Winograd::of::<T>(isa, g, pass).map(Other::Winograd))
    }

    /// The scratch it needs on this many threads, in bytes.
    fn scratch<T: Real>(&self, isa: Isa, threads: usize) -> usize {
        match self {
            Other::Pointwise(one) => one.scratch::<T>(isa, threads),
            Other::Winograd(fast) => fast.scratch(threads),
        }
    }

    /// How the filter may be kept from step to step.
    fn packing(&self) -> Option<Packing> {
        match self {
            Other::Pointwise(_) => None,
            Other::Winograd(fast) => fast.packing(),
        }
    }

    /// Makes of the filter what is kept of it.
    fn pack<T: Real>(&self, cpu: Cpu<'_>, filter: &[T], to: &mut [T], scratch: &mut [u8]) {
        match self {
            Other::Pointwise(_) => {}
            Other::Winograd(fast) => fast.pack(cpu, filter, to, scratch),
        }
    }

    /// Computes it, and what follows a forward pass; operands as the pass's function takes them, and the filter as it
    /// was kept, if it was.
    fn run<T: Real>(
        &self,
        cpu: Cpu<'_>,
        operands: [&[T]; 2],
        packed: Option<&[T]>,
        epilogue: Epilogue<'_, T>,
        to: &mut [T],
        scratch: &mut [u8],
    ) {
        match self {
            Other::Pointwise(one) => one.run(cpu, operands, epilogue, to, scratch),
            Other::Winograd(fast) => fast.run(cpu, operands, packed, epilogue, to, scratch),
        }
    }
}

/// The types of convolutions: `f32` and `f64`.
pub trait Real: Tiled + Element<Sum = Self> + Number + Default + std::ops::AddAssign {}
impl Real for f32 {}
impl Real for f64 {}

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
    /// How both the input and the output lie.
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

    /// Input lines that this many output lines see.
    fn lines_seen(&self, lines: usize) -> usize {
        (lines - 1) * self.stride[0] + (self.k_h - 1) * self.dilation[0] + 1
    }

    /// Input columns that an output line sees.
    fn cols_seen(&self) -> usize {
        (self.out_w - 1) * self.stride[1] + (self.k_w - 1) * self.dilation[1] + 1
    }

    /// Whether no tap of any output pixel lies outside the image.
    fn is_inside(&self) -> bool {
        let inside = self.lines_seen(self.out_h) <= self.in_h && self.cols_seen() <= self.in_w;
        inside && self.pad_top == 0 && self.pad_left == 0
    }

    /// Nothing to compute: the output or what it is made of is empty.
    fn is_empty(&self) -> bool {
        [self.output_len(), self.filter_len(), self.input_len()].contains(&0)
    }
}
