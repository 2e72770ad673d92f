//! SparseMatrixAdd, SparseMatrixMul, SparseMatrixSoftmax, SparseMatrixSoftmaxGrad.

use std::collections::BTreeMap;

use thalweg_cpu::number::{Arithmetic, Wide};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, arg, arg_of, type_attr};
use thalweg_tensor::{DType, dispatch};

use super::convert::MATRIX_OP;
use crate::sparse::sparse_input::invalid;
use crate::support::sparse_matrix::{ENTRIES, SparseMatrix, one_matrix};
use crate::support::sparse_sum::added;

const A: Arg = arg_of("a", DType::Variant);
/// Dtype of the entries of a softmax.
const REAL: AttrDef = type_attr("type", &[DType::F32, DType::F64]);

/// The sum of two multiples.
pub(crate) static ADD: Op = Op {
    def: OpDef {
        name: "SparseMatrixAdd",
        summary: "The sum of alpha times a sparse matrix and beta times another one.",
        inputs: &[
            A,
            arg_of("b", DType::Variant),
            arg("alpha", "T"),
            arg("beta", "T"),
        ],
        outputs: &[arg_of("c", DType::Variant)],
        attrs: &[type_attr("T", ENTRIES)],
        shape: |cx| {
            cx.ranked(2, 0)?;
            cx.ranked(3, 0)?;
            one_matrix(cx)
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let [a, b] = [
            SparseMatrix::typed(cx, 0, "T")?,
            SparseMatrix::typed(cx, 1, "T")?,
        ];
        let dtype = a.values.dtype();
        dispatch!(dtype, [F32 F64 C64 C128], T => {
            let factors = [cx.tensor(2)?.to_scalar::<T>()?, cx.tensor(3)?.to_scalar()?];
            added::<T>(cx, &a, &b, factors)?.output()
        }, else Err(KernelError::DType(dtype)))
    })],
};

/// Each entry times a number.
pub(crate) static MUL: Op = Op {
    def: OpDef {
        name: "SparseMatrixMul",
        summary: "A sparse matrix times a number, or each of a batch times its number.",
        inputs: &[A, arg("b", "T")],
        outputs: &[arg_of("output", DType::Variant)],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: one_matrix,
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let a = SparseMatrix::typed(cx, 0, "T")?;
        let dtype = a.values.dtype();
        dispatch!(dtype, [F32 F64 C64 C128], T => multiplied::<T>(cx, &a)?.output(), else Err(KernelError::DType(dtype)))
    })],
};

fn multiplied<T: Arithmetic>(
    cx: &TensorCx<'_>,
    a: &SparseMatrix,
) -> Result<SparseMatrix, KernelError> {
    let (b, pattern) = (cx.tensor(1)?, &a.pattern);
    let factors = b.as_slice::<T>()?;
    let is_batch = pattern.dims().len() == 3;
    match *b.dims() {
        [] => a.with_values(cx, |_, x: T| x.mul(factors[0])),
        [batch, 1, 1] if is_batch && batch == pattern.sizes()[0] => {
            let mut product = a.with_values(cx, |_, x: T| x)?;
            let values = product.values.as_mut_slice::<T>()?;
            for (matrix, &factor) in factors.iter().enumerate() {
                let own = &mut values[pattern.matrix(matrix)];
                own.iter_mut().for_each(|x| *x = x.mul(factor));
            }
            Ok(product)
        }
        _ => Err(invalid(format!(
            "b must be a scalar, or have shape [batch, 1, 1] for a batch of matrices; its shape is {}, and that of a {:?}",
            b.shape(),
            pattern.dims()
        ))),
    }
}

/// Softmax of the entries of each row.
pub(crate) static SOFTMAX: Op = Op {
    def: OpDef {
        name: "SparseMatrixSoftmax",
        summary: "The softmax of the entries of each row of a sparse matrix; absent ones count as minus infinity.",
        inputs: &[arg_of("logits", DType::Variant)],
        outputs: &[arg_of("softmax", DType::Variant)],
        attrs: &[REAL],
        shape: one_matrix,
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let logits = SparseMatrix::typed(cx, 0, "type")?;
        dispatch!(logits.values.dtype(), [F32 F64], T => softmax::<T>(cx, &logits)?.output(),
            else Err(KernelError::DType(logits.values.dtype())))
    })],
};

fn softmax<T: Wide>(cx: &TensorCx<'_>, logits: &SparseMatrix) -> Result<SparseMatrix, KernelError> {
    let mut result = logits.with_values(cx, |_, x: T| x)?;
    let (values, [batch, rows, _]) = (result.values.as_mut_slice::<T>()?, logits.pattern.sizes());
    let mut stop = cx.stop_check();
    for matrix in 0..batch {
        for row in 0..rows {
            stop.tick()?;
            let own = &mut values[logits.pattern.row(matrix, row)];
            let largest = own
                .iter()
                .fold(T::NEG_INFINITY, |most, &x| if x > most { x } else { most });
            let mut sum = T::ZERO;
            for x in own.iter_mut() {
                *x = (*x - largest).exp();
                sum = sum + *x;
            }
            own.iter_mut().for_each(|x| *x = *x / sum);
        }
    }
    Ok(result)
}

/// Gradient of the softmax.
pub(crate) static SOFTMAX_GRAD: Op = Op {
    def: OpDef {
        name: "SparseMatrixSoftmaxGrad",
        summary: "The gradient of SparseMatrixSoftmax, of which softmax is the result.",
        inputs: &[
            arg_of("softmax", DType::Variant),
            arg_of("grad_softmax", DType::Variant),
        ],
        outputs: &[arg_of("gradient", DType::Variant)],
        attrs: &[REAL],
        shape: one_matrix,
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let [y, dy] = [
            SparseMatrix::typed(cx, 0, "type")?,
            SparseMatrix::typed(cx, 1, "type")?,
        ];
        dispatch!(y.values.dtype(), [F32 F64], T => softmax_grad::<T>(cx, &y, &dy)?.output(),
            else Err(KernelError::DType(y.values.dtype())))
    })],
};

fn softmax_grad<T: Wide>(
    cx: &TensorCx<'_>,
    y: &SparseMatrix,
    dy: &SparseMatrix,
) -> Result<SparseMatrix, KernelError> {
    if y.pattern.dims() != dy.pattern.dims() {
        return Err(invalid(format!(
            "softmax and grad_softmax must have one shape, and have {:?} and {:?}",
            y.pattern.dims(),
            dy.pattern.dims()
        )));
    }
    let mut result = y.with_values(cx, |_, x: T| x)?;
    let (values, [batch, rows, _]) = (result.values.as_mut_slice::<T>()?, y.pattern.sizes());
    let (grads, mut of_column, mut stop) =
        (dy.values.as_slice::<T>()?, BTreeMap::new(), cx.stop_check());
    for matrix in 0..batch {
        for row in 0..rows {
            stop.tick()?;
            let (own, theirs) = (y.pattern.row(matrix, row), dy.pattern.row(matrix, row));
            of_column.clear();
            of_column.extend(theirs.map(|entry| (dy.pattern.columns()[entry], grads[entry])));
            let grad = |entry: usize| {
                let found = of_column.get(&y.pattern.columns()[entry]);
                found.copied().unwrap_or(T::ZERO)
            };
            let sum = own
                .clone()
                .fold(T::ZERO, |sum, entry| sum + values[entry] * grad(entry));
            for entry in own {
                values[entry] = values[entry] * (grad(entry) - sum);
            }
        }
    }
    Ok(result)
}
