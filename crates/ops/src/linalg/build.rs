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

    /// Cholesky factor of each positive definite matrix in the last two dimensions (`[.., n, n]`, `f32` or `f64`, as of all
    /// methods that follow): the lower triangular matrix whose product with its transpose it is. Only the lower triangle is
    /// read. A step fails where a matrix is not positive definite.
    fn cholesky(self) -> Output<'g>;

    /// Solutions `x` of `self x = rhs`, where the matrices `[.., n, n]` are lower triangular, or upper triangular: `rhs` and
    /// the result are `[.., n, k]`. The dimensions before them broadcast. The other triangle is not read. A step fails where
    /// a diagonal has a zero.
    fn triangular_solve(self, rhs: impl Into<Output<'g>>, lower: bool) -> Output<'g>;

    /// [`LinalgOps::triangular_solve`] with the matrices transposed, if `adjoint`; `lower` is that of the matrices before.
    fn triangular_solve_t(
        self,
        rhs: impl Into<Output<'g>>,
        lower: bool,
        adjoint: bool,
    ) -> Output<'g>;

    /// Solutions `x` of `self x = rhs`: `[.., n, n]` and `[.., n, k]` give `[.., n, k]`. A step fails where a matrix has no
    /// inverse.
    fn matrix_solve(self, rhs: impl Into<Output<'g>>) -> Output<'g>;

    /// Inverse of each matrix (`[.., n, n]`). A step fails where a matrix has none.
    fn matrix_inverse(self) -> Output<'g>;

    /// Determinant of each matrix: `[.., n, n]` gives `[..]`.
    fn determinant(self) -> Output<'g>;

    /// Sign of each determinant (zero where a matrix has no inverse), and logarithm of its absolute value: `[.., n, n]` gives
    /// `[..]` twice.
    fn log_determinant(self) -> [Output<'g>; 2];

    /// Eigenvalues of each symmetric matrix (`[.., n, n]`), from small to large (`[.., n]`), and eigenvectors, which are the
    /// columns of a matrix (`[.., n, n]`). Only the lower triangle is read.
    fn self_adjoint_eig(self) -> [Output<'g>; 2];

    /// Singular value decomposition of each matrix (`[.., m, n]`): the singular values from large to small (`[.., p]`, where
    /// `p` is the smaller of `m` and `n`), and the left (`[.., m, p]`) and right (`[.., n, p]`) singular vectors, which are
    /// columns.
    fn svd(self) -> [Output<'g>; 3];
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

    #[track_caller]
    fn cholesky(self) -> Output<'g> {
        self.graph().op("Cholesky").input(self).output()
    }

    #[track_caller]
    fn triangular_solve(self, rhs: impl Into<Output<'g>>, lower: bool) -> Output<'g> {
        self.triangular_solve_t(rhs, lower, false)
    }

    #[track_caller]
    fn triangular_solve_t(
        self,
        rhs: impl Into<Output<'g>>,
        lower: bool,
        adjoint: bool,
    ) -> Output<'g> {
        self.graph()
            .op("MatrixTriangularSolve")
            .input(self)
            .input(rhs)
            .attr("lower", lower)
            .attr("adjoint", adjoint)
            .output()
    }

    #[track_caller]
    fn matrix_solve(self, rhs: impl Into<Output<'g>>) -> Output<'g> {
        let node = self.graph().op("MatrixSolve").input(self);
        node.input(rhs).output()
    }

    #[track_caller]
    fn matrix_inverse(self) -> Output<'g> {
        self.graph().op("MatrixInverse").input(self).output()
    }

    #[track_caller]
    fn determinant(self) -> Output<'g> {
        self.graph().op("MatrixDeterminant").input(self).output()
    }

    #[track_caller]
    fn log_determinant(self) -> [Output<'g>; 2] {
        let node = self.graph().op("LogMatrixDeterminant").input(self).build();
        [node.output(0), node.output(1)]
    }

    #[track_caller]
    fn self_adjoint_eig(self) -> [Output<'g>; 2] {
        let node = self.graph().op("SelfAdjointEigV2").input(self).build();
        [node.output(0), node.output(1)]
    }

    #[track_caller]
    fn svd(self) -> [Output<'g>; 3] {
        let node = self.graph().op("Svd").input(self).build();
        [node.output(0), node.output(1), node.output(2)]
    }
}
