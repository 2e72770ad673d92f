//! CholeskyGrad, BatchCholeskyGrad.

use thalweg_cpu::linalg::{Triangle, solve_triangular};
use thalweg_cpu::number::Wide;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::dispatch;

use super::each_matrix::{EachMatrix, MatrixCx, each_matrix, product};
use super::matrices::{REAL, joined, square};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.same(0, 1)?;
    let (batch, n) = square(cx, 0)?;
    cx.set(0, joined(&batch, &[n, n]));
    Ok(())
}

/// Half of `G + G'`, where `G` is `inv(L)' m inv(L)`, and `m` the lower triangle of `L' dL` with half of its diagonal. Only
/// lower triangles are read.
fn gradient<T: Wide>(n: usize, cx: MatrixCx<'_, T, 2, 1>) {
    let ([l, dl], [out], middle) = (cx.inputs, cx.outputs, cx.scratch);
    let half = T::from_f64(0.5);
    middle.fill(T::ZERO);
    for k in 0..n {
        for i in 0..=k {
            let factor = l[k * n + i];
            for j in 0..=i {
                middle[i * n + j] = middle[i * n + j] + factor * dl[k * n + j];
            }
        }
    }
    middle
        .iter_mut()
        .step_by(n + 1)
        .for_each(|x| *x = *x * half);
    let triangle = Triangle {
        n,
        columns: n,
        lower: true,
        adjoint: true,
        unit: false,
    };
    solve_triangular(cx.isa, triangle, l, middle);
    for i in 0..n {
        (0..n).for_each(|j| out[i * n + j] = middle[j * n + i]);
    }
    solve_triangular(cx.isa, triangle, l, out);
    for i in 0..n {
        for j in 0..=i {
            let mean = half * (out[i * n + j] + out[j * n + i]);
            (out[i * n + j], out[j * n + i]) = (mean, mean);
        }
    }
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let n = p.dims(0).last().copied().unwrap_or(0);
    let form = EachMatrix {
        inputs: [2, 2],
        outputs: [2],
        scratch: n.checked_mul(n),
        work: product(&[n, n, n]),
    };
    dispatch!(p.dtype(0), [F32 F64], T => each_matrix::<T, 2, 1>(p, form, move |cx| {
        gradient(n, cx);
        Ok(())
    }), else Err(KernelError::DType(p.dtype(0))))
}

const DEF: OpDef = OpDef {
    name: "CholeskyGrad",
    summary: "The gradients of positive definite matrices from those of their Cholesky factors.",
    inputs: &[arg("l", "T"), arg("grad", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[REAL],
    shape,
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

const KERNELS: &[Kernel] = &[cpu(prepare)];

/// Gradients of Cholesky decompositions.
pub(crate) static CHOLESKY_GRAD: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older name of [`CHOLESKY_GRAD`].
pub(crate) static BATCH_CHOLESKY_GRAD: Op = Op {
    def: OpDef {
        name: "BatchCholeskyGrad",
        ..DEF
    },
    kernels: KERNELS,
};
