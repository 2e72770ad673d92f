//! Cholesky, BatchCholesky.

use smallvec::smallvec;
use thalweg_cpu::linalg::cholesky;
use thalweg_device::{Kernel, KernelError, Op, cpu};
use thalweg_graph::op::{Gradient, arg};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::dispatch;

use super::build::LinalgOps;
use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{DTYPE, unchanged_squares};
use super::matrix_nodes::{adjoint, band_part, diag_part, product as matmul, set_diag};

const ERROR: &str = "Cholesky decomposition was not successful. The input might not be valid.";

const DEF: OpDef = OpDef {
    name: "Cholesky",
    summary: "The Cholesky factor of each positive definite matrix, of which the lower triangle is read.",
    inputs: &[arg("input", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[DTYPE],
    shape: unchanged_squares,
    gradient: Gradient::Rule(|g| smallvec![Some(gradient(g))]),
    ..OpDef::EMPTY
};

/// Half of `G + G'`, where `G` is `inv(L)' m inv(L)`, and `m` the lower triangle of `L' dL` with half of its diagonal.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (l, dl) = (g.output(0), g.grad());
    let middle = matmul(l, true, dl, false);
    let middle = set_diag(middle, diag_part(middle) * 0.5);
    let solve = |x| l.triangular_solve_t(x, true, true);
    let transposed = solve(adjoint(solve(band_part(middle, -1, 0))));
    (transposed + adjoint(transposed)) * 0.5
}

const KERNELS: &[Kernel] = &[cpu(|p| {
    let n = p.dims(0).last().copied().unwrap_or(0);
    let form = EachMatrix {
        inputs: [2],
        outputs: [2],
        scratch: Some(0),
        work: product(&[n, n, n]) / 3,
    };
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 1, 1>(p, form, move |cx| {
        let ([a], [l]) = (cx.inputs, cx.outputs);
        cholesky(cx.isa, n, a, l).then_some(()).ok_or(ERROR)
    }), else Err(KernelError::DType(p.dtype(0))))
})];

/// Cholesky factors.
pub(crate) static CHOLESKY: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older name of [`CHOLESKY`].
pub(crate) static BATCH_CHOLESKY: Op = Op {
    def: OpDef {
        name: "BatchCholesky",
        ..DEF
    },
    kernels: KERNELS,
};
