//! Eig, MatrixSquareRoot, MatrixLogarithm, MatrixExponential: eigenvalues and functions of matrices that need not be
//! symmetric, in `Complex<f64>`.

use thalweg_cpu::linalg::complex::{
    MatrixFunction, eigenvectors, exponential, exponential_scratch, schur,
};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Shape, Tensor};

use super::matrices::{DTYPE, joined, square, unchanged_squares};
use crate::support::elementwise::Compute;
use crate::support::tensors::{AccountedVec, bytes_mut};

/// The elements of a tensor as complex numbers.
fn complex_numbers(
    cx: &TensorCx<'_>,
    tensor: &Tensor,
) -> Result<AccountedVec<Complex<f64>>, KernelError> {
    let mut all = AccountedVec::filled(tensor.len(), Complex::ZERO, cx.memory())?;
    match Complex::conversion(tensor.dtype()) {
        Some(conversion) => conversion.widen(tensor.bytes(), &mut all),
        None => all.copy_from_slice(tensor.as_slice()?),
    }
    Ok(all)
}

/// Writes the elements of a matrix from element `at` on; where they must be real and the matrix is not, NaNs.
fn write(to: &mut Tensor, at: usize, from: &mut [Complex<f64>]) -> Result<(), KernelError> {
    let dtype = to.dtype();
    let sum = |of: fn(&Complex<f64>) -> f64| -> f64 { from.iter().map(of).sum() };
    if !dtype.is_complex() && sum(|x| x.im * x.im) > ROUNDING * sum(Complex::norm_sqr) {
        from.fill(Complex::new(f64::NAN, 0.0));
    }
    let to = &mut bytes_mut(to, dtype)?[at * dtype.size()..][..from.len() * dtype.size()];
    match Complex::conversion(dtype) {
        Some(conversion) => conversion.narrow(from, to),
        None => to.copy_from_slice(bytemuck::cast_slice(from)),
    }
    Ok(())
}

/// The largest share of imaginary parts, by their squares, that comes from rounding alone.
const ROUNDING: f64 = 1e-16;

/// Rows of the square matrices of a tensor, and the number of those; both 0 without elements.
fn sizes(tensor: &Tensor) -> Result<(usize, usize), KernelError> {
    match tensor.dims() {
        _ if tensor.is_empty() => Ok((0, 0)),
        &[.., n, _] => Ok((n, tensor.len() / (n * n))),
        _ => Err(KernelError::Argument("a matrix")),
    }
}

const TOO_LARGE: &str = "a matrix is too large";
const NOT_CONVERGED: &str =
    "the iterations for eigenvalues do not converge: look for NaNs and infinities in the matrix";

fn apply(cx: &TensorCx<'_>, function: MatrixFunction) -> Result<Vec<Tensor>, KernelError> {
    let input = cx.tensor(0)?;
    let ((n, count), mut all) = (sizes(input)?, complex_numbers(cx, input)?);
    let len = function.scratch(n);
    let len = len.ok_or_else(|| KernelError::Invalid(TOO_LARGE.to_owned()))?;
    let mut scratch = AccountedVec::filled(len, Complex::ZERO, cx.memory())?;
    let mut out = cx.zeros(input.dtype(), input.dims())?;
    let mut stop = cx.stop_check();
    for i in 0..count {
        stop.tick()?;
        let matrix = &mut all[i * n * n..][..n * n];
        if !function.apply(n, matrix, &mut scratch) {
            return Err(KernelError::Invalid(NOT_CONVERGED.to_owned()));
        }
        write(&mut out, i * n * n, matrix)?;
    }
    Ok(vec![out])
}

/// Square roots of matrices.
pub(crate) static MATRIX_SQUARE_ROOT: Op = Op {
    def: OpDef {
        name: "MatrixSquareRoot",
        summary: "The principal square roots of square matrices; NaNs where the root of a real matrix is not real.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[DTYPE],
        shape: unchanged_squares,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| apply(cx, MatrixFunction::SquareRoot))],
};

/// Logarithms of matrices.
pub(crate) static MATRIX_LOGARITHM: Op = Op {
    def: OpDef {
        name: "MatrixLogarithm",
        summary: "The principal logarithms of square matrices.",
        attrs: &[type_attr("T", DType::COMPLEX)],
        ..MATRIX_SQUARE_ROOT.def
    },
    kernels: &[cpu_tensors(|cx| apply(cx, MatrixFunction::Logarithm))],
};

fn exponentials(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let input = cx.tensor(0)?;
    let ((n, count), mut all) = (sizes(input)?, complex_numbers(cx, input)?);
    let len = exponential_scratch(n);
    let len = len.ok_or_else(|| KernelError::Invalid(TOO_LARGE.to_owned()))?;
    let mut scratch = AccountedVec::filled(len, Complex::ZERO, cx.memory())?;
    let mut out = cx.zeros(input.dtype(), input.dims())?;
    for i in 0..count {
        let matrix = &mut all[i * n * n..][..n * n];
        let mut stopped = || cx.environment().is_stopped();
        if !exponential(n, matrix, &mut scratch, &mut stopped) {
            return Err(KernelError::Stopped);
        }
        write(&mut out, i * n * n, matrix)?;
    }
    Ok(vec![out])
}

/// Exponentials of matrices.
pub(crate) static MATRIX_EXPONENTIAL: Op = Op {
    def: OpDef {
        name: "MatrixExponential",
        summary: "The exponentials of square matrices.",
        ..MATRIX_SQUARE_ROOT.def
    },
    kernels: &[cpu_tensors(exponentials)],
};

fn eig_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (input, out) = (cx.dtype(0), cx.attrs().dtype("Tout"));
    if let Some(out) = out
        && out.real() != input.real()
    {
        return Err(InferError::Attr {
            attr: "Tout",
            reason: format!(
                "eigenvalues of {input} are not {out}: take the complex dtype of its size"
            ),
        });
    }
    let (batch, n) = square(cx, 0)?;
    cx.set(0, joined(&batch, &[n]));
    let vectors = match cx.attrs().bool("compute_v") {
        true => joined(&batch, &[n, n]),
        false => Shape::known(&[0]),
    };
    cx.set(1, vectors);
    Ok(())
}

fn eig(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (input, attrs) = (cx.tensor(0)?, cx.attrs());
    let dtype = attrs.dtype("Tout").unwrap_or(DType::C64);
    let with_vectors = attrs.bool("compute_v");
    let ((n, count), mut all) = (sizes(input)?, complex_numbers(cx, input)?);
    let complex = |len| AccountedVec::filled(len, Complex::ZERO, cx.memory());
    let (mut u, mut vectors, mut values) = (complex(n * n)?, complex(n * n)?, complex(n)?);
    let rank = input.dims().len();
    let mut e = cx.zeros(dtype, &input.dims()[..rank - 1])?;
    let mut v = match with_vectors {
        true => cx.zeros(dtype, input.dims())?,
        false => cx.zeros(dtype, &[0])?,
    };
    let mut stop = cx.stop_check();
    for i in 0..count {
        stop.tick()?;
        let t = &mut all[i * n * n..][..n * n];
        if !schur(n, t, &mut u) {
            return Err(KernelError::Invalid(NOT_CONVERGED.to_owned()));
        }
        if with_vectors {
            eigenvectors(n, t, &u, &mut vectors, &mut values);
            write(&mut v, i * n * n, &mut vectors)?;
        }
        let diagonal = t.iter().step_by(n + 1);
        values.iter_mut().zip(diagonal).for_each(|(to, &x)| *to = x);
        write(&mut e, i * n, &mut values)?;
    }
    Ok(vec![e, v])
}

/// Eigenvalues and eigenvectors of general matrices.
pub(crate) static EIG: Op = Op {
    def: OpDef {
        name: "Eig",
        summary: "The eigenvalues of square matrices, in no order, and their eigenvectors as columns of length 1.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("e", "Tout"), arg("v", "Tout")],
        attrs: &[
            bool_attr("compute_v", true),
            DTYPE,
            type_attr("Tout", DType::COMPLEX),
        ],
        shape: eig_shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(eig)],
};
