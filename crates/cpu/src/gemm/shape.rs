//! The shape of a GEMM, and of several of one shape.

/// The shape of a GEMM `C = A B`, with `C` of `m x n`; all matrices are dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// `true` if `A` lies transposed, as `k x m` and not `m x k`.
    pub transpose_a: bool,
    /// `true` if `B` lies transposed, as `n x k` and not `k x n`.
    pub transpose_b: bool,
}

/// GEMMs of one shape, whose matrices lie the same steps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmBatch {
    /// Number of GEMMs; at least one.
    pub gemms: usize,
    /// From each `A`, `B` and `C` to the next, in elements: none for a matrix that all share. Where all share `C`, it is
    /// the sum of the GEMMs, in their order.
    pub steps: [usize; 3],
}

impl GemmBatch {
    /// A single GEMM.
    pub const ONE: GemmBatch = GemmBatch {
        gemms: 1,
        steps: [0; 3],
    };

    /// Returns the number of matrices `C`, and of the GEMMs that are summed in each.
    pub(super) fn results(self) -> (usize, usize) {
        match self.steps[2] {
            0 => (1, self.gemms),
            _ => (self.gemms, 1),
        }
    }

    /// `true` if slices of these lengths hold the matrices, and no two results overlap.
    pub(super) fn fits(self, p: &Gemm, lens: [usize; 3]) -> bool {
        let each = [p.m * p.k, p.k * p.n, p.m * p.n];
        let Some(last) = self.gemms.checked_sub(1) else {
            return false;
        };
        let apart = last == 0 || self.steps[2] == 0 || self.steps[2] >= each[2];
        apart && (0..3).all(|i| lens[i] == last * self.steps[i] + each[i])
    }
}
