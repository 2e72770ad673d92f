//! Convolutions in groups: group `i` of the output channels sees group `i` of the input channels, of which the filter
//! has as many as one group. The operands are moved into one block for each group, and each group is a convolution
//! of its own.

use thalweg_cpu::Layout;
use thalweg_cpu::conv::ConvGeometry;
use thalweg_device::KernelError;

use super::strided_copy::{CopyAxis, StridedCopy};

/// Tensor of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConvTensor {
    Images,
    Filter,
    Output,
}

/// Computation of a convolution or of one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConvDirection {
    /// The convolution.
    Forward,
    /// Gradient with respect to the images.
    ToImages,
    /// Gradient with respect to the filter.
    ToFilter,
}

impl ConvDirection {
    /// Indices of its inputs.
    pub(crate) fn operands(self) -> [usize; 2] {
        match self {
            ConvDirection::Forward => [0, 1],
            ConvDirection::ToImages => [1, 2],
            ConvDirection::ToFilter => [0, 2],
        }
    }

    /// Tensors of its inputs.
    pub(crate) fn tensors(self) -> [ConvTensor; 2] {
        match self {
            ConvDirection::Forward => [ConvTensor::Images, ConvTensor::Filter],
            ConvDirection::ToImages => [ConvTensor::Filter, ConvTensor::Output],
            ConvDirection::ToFilter => [ConvTensor::Images, ConvTensor::Output],
        }
    }

    /// Tensor of its output.
    pub(crate) fn result(self) -> ConvTensor {
        match self {
            ConvDirection::Forward => ConvTensor::Output,
            ConvDirection::ToImages => ConvTensor::Images,
            ConvDirection::ToFilter => ConvTensor::Filter,
        }
    }
}

/// Geometry of a convolution in groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvGroups {
    /// Geometry of one group.
    pub(crate) one: ConvGeometry,
    /// Number of groups.
    pub(crate) count: usize,
}

impl ConvGroups {
    /// Number of elements of one group of a tensor.
    pub(crate) fn len(&self, tensor: ConvTensor) -> usize {
        match tensor {
            ConvTensor::Images => self.one.input_len(),
            ConvTensor::Filter => self.one.filter_len(),
            ConvTensor::Output => self.one.output_len(),
        }
    }

    /// Copy of a tensor into a block for each group, which begins every `step` elements.
    ///
    /// # Errors
    /// [`KernelError::Argument`] if there are too many elements.
    pub(crate) fn split(
        &self,
        tensor: ConvTensor,
        step: usize,
    ) -> Result<StridedCopy, KernelError> {
        StridedCopy::new(0, 0, &self.axes(tensor, step))
    }

    /// Copy of the blocks of the groups into a tensor: the inverse of [`split`](ConvGroups::split).
    ///
    /// # Errors
    /// As [`split`](ConvGroups::split).
    pub(crate) fn join(&self, tensor: ConvTensor, step: usize) -> Result<StridedCopy, KernelError> {
        let axes = self.axes(tensor, step);
        StridedCopy::new(
            0,
            0,
            &axes.map(|axis| CopyAxis {
                len: axis.len,
                from: axis.to,
                to: axis.from,
            }),
        )
    }

    /// Axes of a tensor as rows that have the columns of all groups side by side.
    fn axes(&self, tensor: ConvTensor, step: usize) -> [CopyAxis; 3] {
        let g = &self.one;
        let images = |pixels: usize, channels: usize| match g.layout {
            Layout::Nhwc => (g.batch * pixels, channels),
            Layout::Nchw => (g.batch, channels * pixels),
        };
        let (rows, columns) = match tensor {
            ConvTensor::Images => images(g.in_h * g.in_w, g.in_c),
            ConvTensor::Filter => (g.k_h * g.k_w * g.in_c, g.out_c),
            ConvTensor::Output => images(g.out_h * g.out_w, g.out_c),
        };
        let axis = |len: usize, from: usize, to: usize| CopyAxis {
            len,
            from: from as isize,
            to: to as isize,
        };
        [
            axis(self.count, columns, step),
            axis(rows, columns * self.count, columns),
            axis(columns, 1, 1),
        ]
    }
}
