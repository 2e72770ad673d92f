//! What libraries of CUDA's compute in place of kernels.

use std::fmt;

use smallvec::SmallVec;
use thalweg_tensor::DType;

use super::{Arg, Handle, Launch};

/// What a library computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// GEMMs.
    Gemm(Gemm),
    /// A convolution, or one of its gradients.
    Convolution(Convolution),
}

/// GEMMs that lie row by row: of `[rows, depth]` and `[depth, columns]`, or of what
/// these are transposed, one for each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Of all three tensors.
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
    /// Whether the left input's matrices are `[depth, rows]`.
    pub transpose_left: bool,
    /// Whether the right input's matrices are `[columns, depth]`.
    pub transpose_right: bool,
}

/// Which of the three tensors of a convolution is computed from the other two.
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
    /// What is computed.
    pub direction: Direction,
    /// Of all three tensors.
    pub dtype: DType,
    /// Whether channels come last.
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

/// A call that a driver has made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCall {
    /// The driver's number for it.
    pub handle: Handle,
    /// Bytes of memory that it works with.
    pub workspace: usize,
    /// Which of the library's engines computes it, where the library numbers them.
    pub engine: Option<Engine>,
}

/// An engine of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The library's number for it.
    pub number: i64,
    /// What it computes by, which says how exact it is.
    pub algorithm: Algorithm,
}

/// What a convolution is computed by.
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

/// What is done in place of a kernel's own launches where the libraries for it are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithLibraries {
    /// In order; each may read what those before it wrote.
    pub steps: SmallVec<[LibraryStep; 1]>,
    /// Bytes of scratch memory, beside what calls work with.
    pub scratch: usize,
}
