//! MatrixDeterminant, LogMatrixDeterminant, BatchMatrixDeterminant.

use smallvec::smallvec;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::linalg::lu;
use thalweg_cpu::number::Field;
use thalweg_device::{Kernel, KernelError, Op, Prepare, cpu};
use thalweg_graph::op::{Gradient, arg};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::dispatch;

use super::each_matrix::{EachMatrix, each_matrix, product};
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

/// Sign (zero where a matrix has no inverse) and logarithm of the absolute value of a determinant. The sign of a complex
/// number is the one of length 1 in its direction.
fn sign_and_log<T: Field>(isa: Isa, n: usize, a: &[T], factors: &mut [T]) -> (T, f64) {
    factors.copy_from_slice(a);
    let (mut sign, mut log) = (T::ONE, 0.0);
    lu(isa, n, factors, &mut |_, _| sign = -sign);
    for &pivot in factors.iter().step_by(n + 1) {
        let size = pivot.magnitude();
        sign = sign * direction(pivot, size);
        log += size.ln();
    }
    (sign, log)
}

/// The number of length 1 in the direction of one of this length; zero of zero. That of a complex infinity is NaN.
fn direction<T: Field>(x: T, length: f64) -> T {
    if length == 0.0 {
        return T::ZERO;
    }
    match T::DTYPE == T::DTYPE.real() && length.is_infinite() {
        true => T::from_real(x.real().signum()),
        false => x / T::from_real(length),
    }
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
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 1, 1>(p, form(p, n), move |cx| {
        let ([a], [out]) = (cx.inputs, cx.outputs);
        let (sign, log) = sign_and_log(cx.isa, n, a, cx.scratch);
        out[0] = sign * T::from_real(log.exp());
        Ok(())
    }), else Err(KernelError::DType(p.dtype(0))))
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
        dispatch!(p.dtype(0), [F32 F64 C64 C128], T => each_matrix::<T, 1, 2>(p, form(p, n), move |cx| {
            let ([a], [sign, log]) = (cx.inputs, cx.outputs);
            let (own, size) = sign_and_log(cx.isa, n, a, cx.scratch);
            (sign[0], log[0]) = (own, T::from_real(size));
            Ok(())
        }), else Err(KernelError::DType(p.dtype(0))))
    })],
};
