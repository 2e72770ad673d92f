//! Svd, BatchSvd.

use bytemuck::Pod;
use smallvec::smallvec;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::linalg::{Svd, complex, svd};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, bool_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::each_matrix::{EachMatrix, each_matrix, product};
use super::matrices::{DTYPE, checked_join, joined, matrices};
use super::svd_gradient::svd_gradient;
use crate::support::widened::widened;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (batch, [m, n]) = matrices(cx, 0)?;
    let least = match (m, n) {
        (Some(m), Some(n)) => Some(m.min(n)),
        (Some(0), _) | (_, Some(0)) => Some(0),
        _ => None,
    };
    cx.set(0, joined(&batch, &[least]));
    let (u, v) = match (
        cx.attrs().bool("compute_uv"),
        cx.attrs().bool("full_matrices"),
    ) {
        (false, _) => (Shape::known(&[0]), Shape::known(&[0])),
        (true, true) => (
            checked_join(&batch, &[m, m])?,
            checked_join(&batch, &[n, n])?,
        ),
        (true, false) => (joined(&batch, &[m, least]), joined(&batch, &[n, least])),
    };
    cx.set(1, u);
    cx.set(2, v);
    Ok(())
}

/// Function that computes the singular values of a matrix, and its singular vectors.
type SvdFn<T> = fn(Isa, &Svd, &[T], &mut [T], [&mut [T]; 2], &mut [T]) -> bool;

fn of_complex(
    _: Isa,
    g: &Svd,
    a: &[Complex<f64>],
    s: &mut [Complex<f64>],
    vectors: [&mut [Complex<f64>]; 2],
    scratch: &mut [Complex<f64>],
) -> bool {
    complex::svd(g, a, s, vectors, scratch)
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let &[.., rows, columns] = p.dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let attrs = &p.node.attrs;
    let (vectors, full) = (attrs.bool("compute_uv"), attrs.bool("full_matrices"));
    let g = Svd {
        rows,
        columns,
        full,
        vectors,
    };
    let outputs: &'static [usize] = if vectors { &[0, 1, 2] } else { &[0] };
    widened(p, &[0], outputs, &|p| {
        dispatch!(p.dtype(0), [F32 F64], T => kernel::<T>(p, g, svd, g.scratch(), T::NAN), else match p.dtype(0) {
            DType::C128 => {
                let nan = Complex::new(f64::NAN, 0.0);
                kernel(p, g, of_complex, complex::svd_scratch(&g), nan)
            }
            other => Err(KernelError::DType(other)),
        })
    })
}

fn kernel<T: Element + Pod>(
    p: &Prepare<'_>,
    g: Svd,
    svd: SvdFn<T>,
    scratch: Option<usize>,
    nan: T,
) -> Result<Prepared, KernelError> {
    let work = product(&[g.rows, g.columns, g.values(), 50]);
    if g.vectors {
        let form = EachMatrix {
            inputs: [2],
            outputs: [1, 2, 2],
            scratch,
            work,
        };
        return each_matrix::<T, 1, 3>(p, form, move |cx| {
            let ([a], [s, u, v]) = (cx.inputs, cx.outputs);
            // As in TensorFlow, matrices with NaNs and infinities are no error.
            if !svd(cx.isa, &g, a, s, [&mut *u, &mut *v], cx.scratch) {
                [s, u, v].into_iter().for_each(|x| x.fill(nan));
            }
            Ok(())
        });
    }
    let form = EachMatrix {
        inputs: [2],
        outputs: [1],
        scratch,
        work,
    };
    each_matrix::<T, 1, 1>(p, form, move |cx| {
        let ([a], [s]) = (cx.inputs, cx.outputs);
        if !svd(cx.isa, &g, a, s, [&mut [], &mut []], cx.scratch) {
            s.fill(nan);
        }
        Ok(())
    })
}

const DEF: OpDef = OpDef {
    name: "Svd",
    summary: "The singular values of matrices, from large to small, and their left and right singular vectors as columns.",
    inputs: &[arg("input", "T")],
    outputs: &[arg("s", "T"), arg("u", "T"), arg("v", "T")],
    attrs: &[
        bool_attr("compute_uv", true),
        bool_attr("full_matrices", false),
        DTYPE,
    ],
    shape,
    gradient: Gradient::Rule(|g| smallvec![Some(svd_gradient(g))]),
    ..OpDef::EMPTY
};

const KERNELS: &[Kernel] = &[cpu(prepare)];

/// Singular value decompositions.
pub(crate) static SVD: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older name of [`SVD`].
pub(crate) static BATCH_SVD: Op = Op {
    def: OpDef {
        name: "BatchSvd",
        ..DEF
    },
    kernels: KERNELS,
};
