//! Builder methods for products and decompositions of matrices.

use thalweg_graph::Output;

/// Builder methods of this family.
pub trait LinalgOps<'g>: Sized {
    /// Product of two matrices: `[m, k]` and `[k, n]` give `[m, n]`.
    fn matmul(self, b: impl Into<Output<'g>>) -> Output<'g>;

    /// [`LinalgOps::matmul`] with either matrix transposed first: `[k, m]` if `transpose_a`,
    /// `[n, k]` if `transpose_b`.
    fn matmul_t(self, b: impl Into<Output<'g>>, transpose_a: bool, transpose_b: bool)
    -> Output<'g>;

    /// Products of the matrices in the last two dimensions: `[.., m, k]` and `[.., k, n]` give
    /// `[.., m, n]`; the dimensions before them broadcast.
    fn batch_matmul(self, b: impl Into<Output<'g>>) -> Output<'g>;

    /// [`LinalgOps::batch_matmul`] with the matrices of either side transposed first.
    fn batch_matmul_t(self, b: impl Into<Output<'g>>, adj_x: bool, adj_y: bool) -> Output<'g>;

    /// QR decomposition of each matrix in the last two dimensions (`[.., m, n]`, `f32` or `f64`): a matrix with
    /// orthonormal columns (`[.., m, p]`) and an upper triangular one (`[.., p, n]`), where `p` is the
    /// smaller of `m` and `n`.
    fn qr(self) -> [Output<'g>; 2];
}

impl<'g> LinalgOps<'g> for Output<'g> {
    #[track_caller]
    fn matmul(self, b: impl Into<Output<'g>>) -> Output<'g> {
        self.matmul_t(b, false, false)
    }

    #[track_caller]
    fn matmul_t(
        self,
        b: impl Into<Output<'g>>,
        transpose_a: bool,
        transpose_b: bool,
    ) -> Output<'g> {
        self.graph()
            .op("MatMul")
            .input(self)
            .input(b)
            .attr("transpose_a", transpose_a)
            .attr("transpose_b", transpose_b)
            .output()
    }

    #[track_caller]
    fn batch_matmul(self, b: impl Into<Output<'g>>) -> Output<'g> {
        self.batch_matmul_t(b, false, false)
    }

    #[track_caller]
    fn batch_matmul_t(self, b: impl Into<Output<'g>>, adj_x: bool, adj_y: bool) -> Output<'g> {
        self.graph()
            .op("BatchMatMulV2")
            .input(self)
            .input(b)
            .attr("adj_x", adj_x)
            .attr("adj_y", adj_y)
            .output()
    }

    #[track_caller]
    fn qr(self) -> [Output<'g>; 2] {
        let node = self.graph().op("Qr").input(self).build();
        [node.output(0), node.output(1)]
    }
}
