//! The shape of a convolution of volumes, its blocks, and the lengths of its operands.

use crate::Layout;
use crate::conv::Pass;
use crate::gemm::Gemm;
use crate::window_axis::WindowAxis;

/// Bytes of the patches of a block, if a single patch is not larger.
const BLOCK_BYTES: usize = 1 << 21;
/// The shape of a convolution of volumes. The filter is always `depth x lines x columns x in_c x out_c`, dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv3dGeometry {
    /// Volumes.
    pub batch: usize,
    /// Depth, lines and columns.
    pub axes: [WindowAxis; 3],
    /// Channels of the input.
    pub in_c: usize,
    /// Channels of the output.
    pub out_c: usize,
    /// The place of the channels: [`Layout::Nhwc`] has them last, [`Layout::Nchw`] first.
    pub layout: Layout,
}

impl Conv3dGeometry {
    pub(super) fn in_voxels(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    pub(super) fn out_voxels(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// Numbers of a patch.
    pub(super) fn patch(&self) -> usize {
        self.axes.iter().map(|axis| axis.window).product::<usize>() * self.in_c
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_voxels() * self.in_c
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_voxels() * self.out_c
    }

    /// Elements of the filter.
    pub fn filter_len(&self) -> usize {
        self.patch() * self.out_c
    }

    /// `true` if there is nothing to compute: the output or an operand is empty.
    pub(super) fn is_empty(&self) -> bool {
        [self.output_len(), self.filter_len(), self.input_len()].contains(&0)
    }

    /// `true` if the patches are the voxels of the input, in their order.
    pub(super) fn is_pointwise(&self) -> bool {
        self.axes.iter().all(|axis| axis.is_pointwise())
    }

    /// Patches of a block.
    pub(super) fn rows<T>(&self) -> usize {
        let all = self.batch * self.out_voxels();
        if self.is_pointwise() {
            return all;
        }
        (BLOCK_BYTES / size_of::<T>() / self.patch()).clamp(1, all)
    }

    /// The GEMM of so many patches.
    pub(super) fn gemm(&self, pass: Pass, rows: usize) -> Gemm {
        let (m, n, k) = match pass {
            Pass::Forward => (rows, self.out_c, self.patch()),
            Pass::ToInput => (rows, self.patch(), self.out_c),
            Pass::ToFilter => (self.patch(), self.out_c, rows),
        };
        Gemm {
            m,
            n,
            k,
            transpose_a: pass == Pass::ToFilter,
            transpose_b: pass == Pass::ToInput,
        }
    }

    /// Numbers of the patches, of a filter's part, and of the input and the output with channels last.
    pub(super) fn lens<T>(&self, pass: Pass) -> [usize; 4] {
        let (pointwise, last) = (self.is_pointwise(), self.layout == Layout::Nhwc);
        [
            if pointwise {
                0
            } else {
                self.rows::<T>() * self.patch()
            },
            if pass == Pass::ToFilter {
                self.filter_len()
            } else {
                0
            },
            if last { 0 } else { self.input_len() },
            if last { 0 } else { self.output_len() },
        ]
    }

    pub(super) fn check(&self, lens: [usize; 3]) {
        assert!(
            lens == [self.input_len(), self.filter_len(), self.output_len()],
            "operands do not fit {self:?}"
        );
    }
}
