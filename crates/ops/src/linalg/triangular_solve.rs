//! MatrixTriangularSolve, BatchMatrixTriangularSolve.

use smallvec::smallvec;
use thalweg_cpu::linalg::solve_triangular;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, bool_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::dispatch;

use super::build::LinalgOps;
use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{DTYPE, joined, matrices, same_batch, square, sum_batches};
use super::matrix_nodes::{band_part, product as matmul};
use super::solve_shape::{expect_rows, triangle_of};

fn shape(cx: &mut Infer<'_>, broadcast: bool) -> Result<(), InferError> {
    let ((batch, n), (rhs_batch, rhs)) = (square(cx, 0)?, matrices(cx, 1)?);
    let n = expect_rows(cx, n, rhs[0])?;
    let batch = match broadcast {
        true => batch.broadcast(&rhs_batch).ok_or(InferError::Broadcast {
            left: batch,
            right: rhs_batch,
        })?,
        false => same_batch(batch, rhs_batch)?,
    };
    cx.set(0, joined(&batch, &[n, rhs[1]]));
    Ok(())
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (a, b, x) = (g.input(0), g.input(1), g.output(0));
    let (lower, adjoint) = (g.attrs().bool("lower"), g.attrs().bool("adjoint"));
    let db = a.triangular_solve_t(g.grad(), lower, !adjoint);
    let da = match adjoint {
        true => -matmul(x, false, db, true),
        false => -matmul(db, false, x, true),
    };
    let da = match lower {
        true => band_part(da, -1, 0),
        false => band_part(da, 0, -1),
    };
    smallvec![Some(sum_batches(da, a, b)), Some(sum_batches(db, b, a))]
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let triangle = triangle_of(p)?;
    let form = EachMatrix {
        inputs: [2, 2],
        outputs: [2],
        scratch: Some(0),
        work: product(&[triangle.n, triangle.n, triangle.columns]) / 2,
    };
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 2, 1>(p, form, move |cx| {
        let ([a, b], [x]) = (cx.inputs, cx.outputs);
        x.copy_from_slice(b);
        solve_triangular(cx.isa, triangle, a, x);
        Ok(())
    }), else Err(KernelError::DType(p.dtype(0))))
}

const DEF: OpDef = OpDef {
    name: "MatrixTriangularSolve",
    summary: "The solutions of systems of linear equations with triangular matrices, over batches that broadcast.",
    inputs: &[arg("matrix", "T"), arg("rhs", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[bool_attr("lower", true), bool_attr("adjoint", false), DTYPE],
    shape: |cx| shape(cx, true),
    gradient: Gradient::Rule(gradient),
    ..OpDef::EMPTY
};

const KERNELS: &[Kernel] = &[cpu(prepare)];

/// Solutions of triangular systems.
pub(crate) static MATRIX_TRIANGULAR_SOLVE: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older form of [`MATRIX_TRIANGULAR_SOLVE`], for the same batch of both inputs.
pub(crate) static BATCH_MATRIX_TRIANGULAR_SOLVE: Op = Op {
    def: OpDef {
        name: "BatchMatrixTriangularSolve",
        summary: "The solutions of systems of linear equations with triangular matrices.",
        shape: |cx| shape(cx, false),
        ..DEF
    },
    kernels: KERNELS,
};
