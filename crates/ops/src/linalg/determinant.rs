//! MatrixDeterminant, LogMatrixDeterminant, BatchMatrixDeterminant.

use smallvec::smallvec;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::linalg::{complex, lu};
use thalweg_cpu::number::Wide;
use thalweg_device::{Kernel, Op, Prepare, cpu};
use thalweg_graph::op::{Gradient, arg};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::dispatch;
use thalweg_tensor::num_complex::Complex;

use super::each_matrix::{EachMatrix, each_matrix, in_complex, product};
use super::matrices::{DTYPE, square};
use crate::array::ArrayOps;
use crate::support::gradient_nodes::conj;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (batch, _) = square(cx, 0)?;
    for i in 0..cx.outputs() {
        cx.set(i, batch.clone());
    }
    Ok(())
}

/// Sign (zero where a matrix has no inverse) and logarithm of the absolute value of a determinant.
fn sign_and_log<T: Wide>(isa: Isa, n: usize, a: &[T], factors: &mut [T]) -> (T, T) {
    factors.copy_from_slice(a);
    let (mut sign, mut log) = (T::ONE, T::ZERO);
    lu(isa, n, factors, &mut |_, _| sign = -sign);
    for &pivot in factors.iter().step_by(n + 1) {
        if pivot == T::ZERO {
            return (T::ZERO, T::NEG_INFINITY);
        }
        if pivot < T::ZERO {
            sign = -sign;
        }
        log = log + Wide::abs(pivot).ln();
    }
    if log.is_nan() {
        (log, log)
    } else {
        (sign, log)
    }
}

/// As [`sign_and_log`], of complex numbers: the sign is the number of length 1 in the direction of the determinant.
fn complex_sign_and_log(
    n: usize,
    a: &[Complex<f64>],
    factors: &mut [Complex<f64>],
) -> (Complex<f64>, f64) {
    factors.copy_from_slice(a);
    let (mut sign, mut log) = (Complex::from(1.0), 0.0);
    complex::lu(n, factors, &mut |_, _| sign = -sign);
    for &pivot in factors.iter().step_by(n + 1) {
        let size = pivot.norm();
        if size == 0.0 {
            return (Complex::ZERO, f64::NEG_INFINITY);
        }
        sign *= pivot / size;
        log += size.ln();
    }
    (sign, log)
}

fn form<const O: usize>(p: &Prepare<'_>, n: usize) -> EachMatrix<1, O> {
    EachMatrix {
        inputs: [2],
        outputs: [0; O],
        scratch: n.checked_mul(n),
        work: product(&[p.dims(0).last().copied().unwrap_or(0); 3]) / 3,
    }
}

/// `factor`, a number for each matrix, times the inverses of the transposed matrices.
fn inverses<'g>(g: &GradCx<'_, 'g>, factor: Output<'g>) -> Output<'g> {
    let inverse = g.graph().op("MatrixInverse").input(g.input(0));
    factor.expand_dims(-1).expand_dims(-1) * inverse.attr("adjoint", true).output()
}

const DEF: OpDef = OpDef {
    name: "MatrixDeterminant",
    summary: "The determinants of square matrices.",
    inputs: &[arg("input", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[DTYPE],
    shape,
    gradient: Gradient::Rule(|g| smallvec![Some(inverses(g, g.grad() * conj(g.output(0))))]),
    ..OpDef::EMPTY
};

const KERNELS: &[Kernel] = &[cpu(|p| {
    let n = p.dims(0).last().copied().unwrap_or(0);
    dispatch!(p.dtype(0), [F32 F64], T => each_matrix::<T, 1, 1>(p, form(p, n), move |cx| {
        let ([a], [out]) = (cx.inputs, cx.outputs);
        let (sign, log) = sign_and_log(cx.isa, n, a, cx.scratch);
        out[0] = sign * Wide::exp(log);
        Ok(())
    }), else in_complex(p, &[0], &[0], &|p| {
        each_matrix::<Complex<f64>, 1, 1>(p, form(p, n), move |cx| {
            let ([a], [out]) = (cx.inputs, cx.outputs);
            let (sign, log) = complex_sign_and_log(n, a, cx.scratch);
            out[0] = sign * log.exp();
            Ok(())
        })
    }))
})];

/// Determinants.
pub(crate) static MATRIX_DETERMINANT: Op = Op {
    def: DEF,
    kernels: KERNELS,
};

/// The older name of [`MATRIX_DETERMINANT`].
pub(crate) static BATCH_MATRIX_DETERMINANT: Op = Op {
    def: OpDef {
        name: "BatchMatrixDeterminant",
        ..DEF
    },
    kernels: KERNELS,
};

/// Signs of determinants, and logarithms of their absolute values.
pub(crate) static LOG_MATRIX_DETERMINANT: Op = Op {
    def: OpDef {
        name: "LogMatrixDeterminant",
        summary: "The signs of the determinants of square matrices, and the logarithms of their absolute values.",
        outputs: &[arg("sign", "T"), arg("log_abs_determinant", "T")],
        gradient: Gradient::Rule(|g| smallvec![g.dy(1).map(|dlog| inverses(g, dlog))]),
        ..DEF
    },
    kernels: &[cpu(|p| {
        let n = p.dims(0).last().copied().unwrap_or(0);
        dispatch!(p.dtype(0), [F32 F64], T => each_matrix::<T, 1, 2>(p, form(p, n), move |cx| {
            let ([a], [sign, log]) = (cx.inputs, cx.outputs);
            (sign[0], log[0]) = sign_and_log(cx.isa, n, a, cx.scratch);
            Ok(())
        }), else in_complex(p, &[0], &[0, 1], &|p| {
            each_matrix::<Complex<f64>, 1, 2>(p, form(p, n), move |cx| {
                let ([a], [sign, log]) = (cx.inputs, cx.outputs);
                let (own, size) = complex_sign_and_log(n, a, cx.scratch);
                (sign[0], log[0]) = (own, size.into());
                Ok(())
            })
        }))
    })],
};
