//! SelfAdjointEigV2, SelfAdjointEig, and their older names.

use bytemuck::Pod;
use smallvec::smallvec;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::linalg::{complex, symmetric_eigen, symmetric_eigen_scratch};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, bool_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{DTYPE, REAL, checked_join, joined, square};
use super::matrix_nodes::{
    adjoint, band_part, diag, diag_part, inverse_differences, product as matmul, set_diag,
};
use crate::array::ArrayOps;
use crate::support::widened::widened;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (batch, n) = square(cx, 0)?;
    cx.set(0, joined(&batch, &[n]));
    let vectors = match cx.attrs().bool("compute_v") {
        true => joined(&batch, &[n, n]),
        false => Shape::known(&[0]),
    };
    cx.set(1, vectors);
    Ok(())
}

/// The sum of the gradients of the eigenvalues and of the eigenvectors, for the lower triangle, which alone is read.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let graph = g.graph();
    let (e, v) = match g.attrs().bool("compute_v") {
        true => (g.output(0), g.output(1)),
        false => {
            let node = graph.op("SelfAdjointEigV2").input(g.input(0));
            let node = node.attr("compute_v", true).build();
            (node.output(0), node.output(1))
        }
    };
    let values = g.dy(0).map(diag);
    let vectors = g.dy(1).filter(|_| g.attrs().bool("compute_v"));
    let vectors = vectors.map(|dv| inverse_differences(e) * matmul(v, true, dv, false));
    let middle = match (values, vectors) {
        (Some(values), Some(vectors)) => values + vectors,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return g.input(0).zeros_like(),
    };
    let da = matmul(v, false, matmul(middle, false, v, true), false);
    let da = band_part(da + adjoint(da), -1, 0);
    set_diag(da, diag_part(da) * 0.5)
}

const ERROR: &str =
    "Self-adjoint eigen decomposition was not successful. The input might not be valid.";

/// Function that computes the eigenvalues of a matrix, and its eigenvectors.
type EigenFn<T> = fn(Isa, usize, &[T], &mut [T], Option<&mut [T]>, &mut [T]) -> bool;

/// Elements of scratch memory of [`complex::hermitian_eigen`].
fn hermitian_scratch(n: usize) -> Option<usize> {
    n.checked_mul(n)?.checked_mul(2)
}

fn hermitian(
    _: Isa,
    n: usize,
    a: &[Complex<f64>],
    e: &mut [Complex<f64>],
    v: Option<&mut [Complex<f64>]>,
    scratch: &mut [Complex<f64>],
) -> bool {
    complex::hermitian_eigen(n, a, e, v, scratch)
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let n = p.dims(0).last().copied().unwrap_or(0);
    let vectors = p.node.attrs.bool("compute_v");
    let scratch = symmetric_eigen_scratch(n, vectors);
    let outputs: &'static [usize] = if vectors { &[0, 1] } else { &[0] };
    widened(p, &[0], outputs, &|p| {
        dispatch!(p.dtype(0), [F32 F64], T => kernel::<T>(p, symmetric_eigen, scratch), else match p.dtype(0) {
            DType::C128 => kernel(p, hermitian, hermitian_scratch(n)),
            other => Err(KernelError::DType(other)),
        })
    })
}

fn kernel<T: Element + Pod>(
    p: &Prepare<'_>,
    eigen: EigenFn<T>,
    scratch: Option<usize>,
) -> Result<Prepared, KernelError> {
    let n = p.dims(0).last().copied().unwrap_or(0);
    let work = product(&[n, n, n, 4]);
    if p.node.attrs.bool("compute_v") {
        let form = EachMatrix {
            inputs: [2],
            outputs: [1, 2],
            scratch,
            work,
        };
        return each_matrix::<T, 1, 2>(p, form, move |cx| {
            let ([a], [e, v]) = (cx.inputs, cx.outputs);
            let converged = eigen(cx.isa, n, a, e, Some(v), cx.scratch);
            converged.then_some(()).ok_or(ERROR)
        });
    }
    let form = EachMatrix {
        inputs: [2],
        outputs: [1],
        scratch,
        work,
    };
    each_matrix::<T, 1, 1>(p, form, move |cx| {
        let ([a], [e]) = (cx.inputs, cx.outputs);
        let converged = eigen(cx.isa, n, a, e, None, cx.scratch);
        converged.then_some(()).ok_or(ERROR)
    })
}

const DEF: OpDef = OpDef {
    name: "SelfAdjointEigV2",
    summary: "The eigenvalues of symmetric matrices, from small to large, and their eigenvectors as columns; lower triangles are read.",
    inputs: &[arg("input", "T")],
    outputs: &[arg("e", "T"), arg("v", "T")],
    attrs: &[bool_attr("compute_v", true), DTYPE],
    shape,
    gradient: Gradient::Rule(|g| smallvec![Some(gradient(g))]),
    ..OpDef::EMPTY
};

const KERNELS: &[Kernel] = &[cpu(prepare)];

/// Eigenvalues and eigenvectors.
pub(crate) static SELF_ADJOINT_EIG_V2: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older name of [`SELF_ADJOINT_EIG_V2`].
pub(crate) static BATCH_SELF_ADJOINT_EIG_V2: Op = Op {
    def: OpDef {
        name: "BatchSelfAdjointEigV2",
        ..DEF
    },
    kernels: KERNELS,
};

/// Both in one tensor.
const FIRST_DEF: OpDef = OpDef {
    name: "SelfAdjointEig",
    summary: "The eigenvalues of symmetric matrices as a first row, and their eigenvectors below, as columns.",
    outputs: &[arg("output", "T")],
    attrs: &[REAL],
    shape: |cx| {
        let (batch, n) = square(cx, 0)?;
        let rows = n.map(|n| n.saturating_add(1));
        cx.set(0, checked_join(&batch, &[rows, n])?);
        Ok(())
    },
    gradient: Gradient::Missing,
    ..DEF
};

const FIRST_KERNELS: &[Kernel] = &[cpu(|p| {
    let n = p.dims(0).last().copied().unwrap_or(0);
    let form = EachMatrix {
        inputs: [2],
        outputs: [2],
        scratch: symmetric_eigen_scratch(n, true),
        work: product(&[n, n, n, 4]),
    };
    dispatch!(p.dtype(0), [F32 F64], T => each_matrix::<T, 1, 1>(p, form, move |cx| {
        let ([a], [out]) = (cx.inputs, cx.outputs);
        let (e, v) = out.split_at_mut(n);
        let converged = symmetric_eigen(cx.isa, n, a, e, Some(v), cx.scratch);
        converged.then_some(()).ok_or(ERROR)
    }), else Err(KernelError::DType(p.dtype(0))))
})];

/// The first form of [`SELF_ADJOINT_EIG_V2`].
pub(crate) static SELF_ADJOINT_EIG: Op = Op {
    def: FIRST_DEF,
    kernels: FIRST_KERNELS,
};

/// The older name of [`SELF_ADJOINT_EIG`].
pub(crate) static BATCH_SELF_ADJOINT_EIG: Op = Op {
    def: OpDef {
        name: "BatchSelfAdjointEig",
        ..FIRST_DEF
    },
    kernels: FIRST_KERNELS,
};
