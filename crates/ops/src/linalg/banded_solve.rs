//! BandedTriangularSolve.

use smallvec::smallvec;
use thalweg_cpu::linalg::solve_banded;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, bool_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::dispatch;

use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{REAL, joined, matrices, sum_batches};
use super::matrix_nodes::product as matmul;
use super::solve_shape::{expect_rows, triangle_of};
use crate::array::{ArrayOps, SourceOps};
use crate::support::shape_inputs::invalid_value;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let ((batch, [bands, n]), (rhs_batch, rhs)) = (matrices(cx, 0)?, matrices(cx, 1)?);
    if bands == Some(0) {
        return Err(invalid_value(
            0,
            "it has no diagonals: give at least the main one",
        ));
    }
    let n = expect_rows(cx, n, rhs[0])?;
    let batch = batch.broadcast(&rhs_batch).ok_or(InferError::Broadcast {
        left: batch,
        right: rhs_batch,
    })?;
    cx.set(0, joined(&batch, &[n, rhs[1]]));
    Ok(())
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, a, b, x) = (g.graph(), g.input(0), g.input(1), g.output(0));
    let (lower, adjoint) = (g.attrs().bool("lower"), g.attrs().bool("adjoint"));
    let node = graph.op("BandedTriangularSolve").input(a).input(g.grad());
    let db = node.attr("lower", lower).attr("adjoint", !adjoint).output();
    let da = match adjoint {
        true => -matmul(x, false, db, true),
        false => -matmul(db, false, x, true),
    };
    let (zero, furthest) = (graph.constant(0i32), a.shape_tensor().at(-2) - 1);
    let bounds = match lower {
        true => [-furthest, zero],
        false => [zero, furthest],
    };
    // A single diagonal comes without its dimension.
    let part = graph
        .op("MatrixDiagPartV3")
        .input(da)
        .input(graph.stack(&bounds, 0));
    let part = part
        .input(zero.cast(a.dtype()))
        .attr("align", "LEFT_RIGHT")
        .output();
    let shape = [da.shape_tensor().at(..-2), a.shape_tensor().at(-2..)];
    let part = part.reshape(graph.concat(&shape, 0));
    smallvec![Some(sum_batches(part, a, b)), Some(sum_batches(db, b, a))]
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let triangle = triangle_of(p)?;
    let (n, columns) = (triangle.n, triangle.columns);
    let &[.., bands, _] = p.dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let form = EachMatrix {
        inputs: [2, 2],
        outputs: [2],
        scratch: Some(0),
        work: product(&[bands, n, columns]),
    };
    let main = if triangle.lower {
        0
    } else {
        bands.saturating_sub(1)
    };
    dispatch!(p.dtype(0), [F32 F64], T => each_matrix::<T, 2, 1>(p, form, move |cx| {
        let ([a, b], [x]) = (cx.inputs, cx.outputs);
        if a[main * n..][..n].contains(&0.0) {
            return Err("Input matrix is not invertible.");
        }
        x.copy_from_slice(b);
        solve_banded(triangle, bands, a, x);
        Ok(())
    }), else Err(KernelError::DType(p.dtype(0))))
}

/// Solutions of systems with triangular matrices that are given by their diagonals.
pub(crate) static BANDED_TRIANGULAR_SOLVE: Op = Op {
    def: OpDef {
        name: "BandedTriangularSolve",
        summary: "The solutions of systems of linear equations with triangular matrices, of which some diagonals are given, over batches that broadcast.",
        inputs: &[arg("matrix", "T"), arg("rhs", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[bool_attr("lower", true), bool_attr("adjoint", false), REAL],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare)],
};
