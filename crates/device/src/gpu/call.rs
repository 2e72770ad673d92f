//! Calls of CUDA's libraries in place of kernels: GEMMs and convolutions.

use std::fmt;

use smallvec::SmallVec;
use thalweg_tensor::DType;

use super::{Arg, Handle, Launch};

/// A call of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// GEMMs.
    Gemm(Gemm),
    /// A convolution, or one of its gradients.
    Convolution(Convolution),
}

impl Call {
    /// The bytes of its two inputs and its output, in the order of a command's addresses.
    pub fn bytes(&self) -> [usize; 3] {
        let (dtype, elements) = match self {
            Call::Gemm(g) => {
                // A step of 0 is that of one matrix for all.
                let all = |one: usize, step: usize| match step {
                    0 => one,
                    step => step * (g.batches.max(1) - 1) + one,
                };
                let left = all(g.rows * g.depth, g.left_step);
                let right = all(g.depth * g.columns, g.right_step);
                (g.dtype, [left, right, g.batches * g.rows * g.columns])
            }
            Call::Convolution(c) => {
                let [images, filter, output] =
                    [c.images, c.filter, c.output].map(|dims| dims.iter().product::<usize>());
                let elements = match c.direction {
                    Direction::Forward => [images, filter, output],
                    Direction::Images => [filter, output, images],
                    Direction::Filter => [images, output, filter],
                };
                (c.dtype, elements)
            }
        };
        elements.map(|n| n * dtype.size())
    }
}

/// GEMMs of matrices that lie row by row: of `[rows, depth]` and `[depth, columns]`, or of their transposes, one for
/// each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Dtype of all three tensors.
    pub dtype: DType,
    /// The number of GEMMs.
    pub batches: usize,
    /// Elements from the first matrix of the left input to that of the next batch; 0 where all
    /// batches share one.
    pub left_step: usize,
    /// The same of the right input.
    pub right_step: usize,
    /// Rows of a GEMM.
    pub rows: usize,
    /// Columns of a GEMM.
    pub columns: usize,
    /// The inner dimension.
    pub depth: usize,
    /// `true` if the left input's matrices are `[depth, rows]`.
    pub transpose_left: bool,
    /// `true` if the right input's matrices are `[columns, depth]`.
    pub transpose_right: bool,
}

/// Direction of a convolution: the one of its three tensors that is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The output, of images and filter.
    Forward,
    /// The images' gradient, of filter and the output's gradient.
    Images,
    /// The filter's gradient, of images and the output's gradient.
    Filter,
}

/// A convolution. The filter's dimensions are output channels, input channels, lines and columns,
/// laid out as the images are: channels after the filter's lines and columns where the images'
/// channels come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The tensor that is computed.
    pub direction: Direction,
    /// Dtype of all three tensors.
    pub dtype: DType,
    /// `true` if channels come last.
    pub channels_last: bool,
    /// Images, channels, lines and columns of the input.
    pub images: [usize; 4],
    /// Output channels, input channels, lines and columns of the filter.
    pub filter: [usize; 4],
    /// Images, channels, lines and columns of the output.
    pub output: [usize; 4],
    /// Lines of zeros above the image, and columns before it.
    pub before: [usize; 2],
    /// Lines of zeros below the image, and columns behind it.
    pub after: [usize; 2],
    /// Lines and columns from one window to the next.
    pub stride: [usize; 2],
    /// Lines and columns from one place of a window to the next.
    pub dilation: [usize; 2],
}

/// A call that a driver has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCall {
    /// The driver's number for it.
    pub handle: Handle,
    /// Bytes of its workspace.
    pub workspace: usize,
    /// The library's engine that computes it, where the library numbers them.
    pub engine: Option<Engine>,
}

/// An engine of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The library's number for it.
    pub number: i64,
    /// Its algorithm, which determines its precision.
    pub algorithm: Algorithm,
}

/// The algorithm of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Sums of products.
    Direct,
    /// Winograd's transforms: some digits fewer than direct sums.
    Winograd,
    /// Fourier transforms: a digit or two fewer than direct sums.
    Fft,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.algorithm {
            Algorithm::Direct => "",
            Algorithm::Winograd => " (Winograd)",
            Algorithm::Fft => " (FFT)",
        };
        write!(f, "engine {}{algorithm}", self.number)
    }
}

/// One of the steps in which libraries take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryStep {
    /// A launch.
    Launch(Launch),
    /// A call, with its two inputs and its output.
    Call(Call, [Arg; 3]),
}

/// Steps with library calls that replace a kernel's own launches, where the libraries are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithLibraries {
    /// In order; each may read what those before it wrote.
    pub steps: SmallVec<[LibraryStep; 1]>,
    /// Bytes of scratch memory, beside the workspaces of calls.
    pub scratch: usize,
}
