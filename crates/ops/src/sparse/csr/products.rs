//! SparseMatrixMatMul, SparseMatrixSparseMatMul, SparseMatrixTranspose.

use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::convert::{MATRIX_OP, TYPE};
use crate::sparse::sparse_input::invalid;
use crate::support::sparse_matrix::{SparseMatrix, conjugated, one_matrix};
use crate::support::sparse_sum::merged_rows;

const TRANSPOSES: [AttrDef; 4] = [
    bool_attr("transpose_a", false),
    bool_attr("transpose_b", false),
    bool_attr("adjoint_a", false),
    bool_attr("adjoint_b", false),
];

/// Fails if an operand is to be both transposed and adjoint.
fn check_transposes(attrs: &Attrs) -> Result<(), InferError> {
    for (attr, adjoint) in [("transpose_a", "adjoint_a"), ("transpose_b", "adjoint_b")] {
        if attrs.bool(attr) && attrs.bool(adjoint) {
            return Err(InferError::Attr {
                attr,
                reason: format!("Only one of {adjoint} and {attr} may be true."),
            });
        }
    }
    Ok(())
}

/// The matrix as the product takes it: transposed, or adjoint.
fn operand(
    cx: &TensorCx<'_>,
    matrix: &SparseMatrix,
    [transpose, adjoint]: [&str; 2],
) -> Result<SparseMatrix, KernelError> {
    match (cx.attrs().bool(transpose), cx.attrs().bool(adjoint)) {
        (false, false) => Ok(matrix.clone()),
        (_, false) => matrix.transposed(cx),
        (_, true) => conjugated(cx, &matrix.transposed(cx)?),
    }
}

/// The error for operands that do not fit each other.
fn unfit(a: &[usize], b: &[usize]) -> KernelError {
    invalid(format!(
        "Dimensions of the operands do not match: {a:?} and {b:?}, with those of a transposed one exchanged, must have one batch, and as many columns as rows"
    ))
}

/// The product with a dense matrix.
pub(crate) static MAT_MUL: Op = Op {
    def: OpDef {
        name: "SparseMatrixMatMul",
        summary: "The product of a sparse matrix and a dense one, or of a batch of each.",
        inputs: &[arg_of("a", DType::Variant), arg("b", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            TRANSPOSES[0],
            TRANSPOSES[1],
            TRANSPOSES[2],
            TRANSPOSES[3],
            bool_attr("transpose_output", false),
            bool_attr("conjugate_output", false),
        ],
        shape: |cx| {
            check_transposes(cx.attrs())?;
            cx.set(0, Shape::unknown());
            Ok(())
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let a = SparseMatrix::typed(cx, 0, "T")?;
        let a = operand(cx, &a, ["transpose_a", "adjoint_a"])?;
        let dtype = a.values.dtype();
        dispatch!(dtype, [F32 F64 C64 C128], T => Ok(vec![with_dense::<T>(cx, &a)?]), else Err(KernelError::DType(dtype)))
    })],
};

fn with_dense<T: Arithmetic>(cx: &TensorCx<'_>, a: &SparseMatrix) -> Result<Tensor, KernelError> {
    let (b, attrs) = (cx.tensor(1)?, cx.attrs());
    let (pattern, [batch, rows, inner]) = (&a.pattern, a.pattern.sizes());
    let conjugate = attrs.bool("adjoint_b");
    let is_transposed = conjugate || attrs.bool("transpose_b");
    let (outer, [b_rows, b_columns]) = match *b.dims() {
        [rows, columns] => (1, [rows, columns]),
        [batch, rows, columns] => (batch, [rows, columns]),
        _ => return Err(unfit(pattern.dims(), b.dims())),
    };
    // The distances of the rows and columns of the operand.
    let (b_inner, columns, [down, right]) = match is_transposed {
        false => (b_rows, b_columns, [b_columns, 1]),
        true => (b_columns, b_rows, [1, b_columns]),
    };
    let fits = b.dims().len() == pattern.dims().len() && outer == batch && b_inner == inner;
    if !fits {
        return Err(unfit(pattern.dims(), b.dims()));
    }
    let (mut dims, [to_row, to_column]) = match attrs.bool("transpose_output") {
        false => (vec![rows, columns], [columns, 1]),
        true => (vec![columns, rows], [1, rows]),
    };
    if pattern.dims().len() == 3 {
        dims.insert(0, batch);
    }
    let mut product = cx.zeros(T::DTYPE, &dims)?;
    let to = product.as_mut_slice::<T>()?;
    let (values, from) = (a.values.as_slice::<T>()?, b.as_slice::<T>()?);
    let mut stop = cx.stop_check();
    for matrix in 0..batch {
        let (b, own) = (matrix * b_rows * b_columns, matrix * rows * columns);
        for row in 0..rows {
            stop.tick()?;
            for entry in pattern.row(matrix, row) {
                stop.tick()?;
                let (x, k) = (values[entry], pattern.columns()[entry] as usize);
                for column in 0..columns {
                    let y = from[b + k * down + column * right];
                    let y = if conjugate { y.conj() } else { y };
                    let to = &mut to[own + row * to_row + column * to_column];
                    *to = to.add(x.mul(y));
                }
            }
        }
    }
    if attrs.bool("conjugate_output") {
        to.iter_mut().for_each(|x| *x = x.conj());
    }
    Ok(product)
}

/// The product of sparse matrices.
pub(crate) static SPARSE_MAT_MUL: Op = Op {
    def: OpDef {
        name: "SparseMatrixSparseMatMul",
        summary: "The product of two sparse matrices, or of a batch of each, with an entry wherever two entries meet.",
        inputs: &[arg_of("a", DType::Variant), arg_of("b", DType::Variant)],
        outputs: &[arg_of("c", DType::Variant)],
        attrs: &[
            TYPE,
            TRANSPOSES[0],
            TRANSPOSES[1],
            TRANSPOSES[2],
            TRANSPOSES[3],
        ],
        shape: |cx: &mut Infer<'_>| {
            check_transposes(cx.attrs())?;
            one_matrix(cx)
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let [a, b] = [
            SparseMatrix::typed(cx, 0, "type")?,
            SparseMatrix::typed(cx, 1, "type")?,
        ];
        let a = operand(cx, &a, ["transpose_a", "adjoint_a"])?;
        let b = operand(cx, &b, ["transpose_b", "adjoint_b"])?;
        let dtype = a.values.dtype();
        dispatch!(dtype, [F32 F64 C64 C128], T => with_sparse::<T>(cx, &a, &b)?.output(), else Err(KernelError::DType(dtype)))
    })],
};

fn with_sparse<T: Arithmetic>(
    cx: &TensorCx<'_>,
    a: &SparseMatrix,
    b: &SparseMatrix,
) -> Result<SparseMatrix, KernelError> {
    let ([batch, _, inner], [b_batch, b_rows, columns]) = (a.pattern.sizes(), b.pattern.sizes());
    let same_rank = a.pattern.dims().len() == b.pattern.dims().len();
    if !same_rank || batch != b_batch || inner != b_rows {
        return Err(unfit(a.pattern.dims(), b.pattern.dims()));
    }
    let [x, y] = [a.values.as_slice::<T>()?, b.values.as_slice::<T>()?];
    let mut dims = a.pattern.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = columns;
    }
    let mut stop = cx.stop_check();
    merged_rows(cx, &dims, |matrix, row, sums| {
        for left in a.pattern.row(matrix, row) {
            let k = a.pattern.columns()[left] as usize;
            for right in b.pattern.row(matrix, k) {
                stop.tick()?;
                let sum = sums.entry(b.pattern.columns()[right]).or_insert(T::ZERO);
                *sum = sum.add(x[left].mul(y[right]));
            }
        }
        Ok(())
    })
}

/// The transposed matrix.
pub(crate) static TRANSPOSE: Op = Op {
    def: OpDef {
        name: "SparseMatrixTranspose",
        summary: "The transpose of a sparse matrix, or of each of a batch, with conjugates if asked.",
        inputs: &[arg_of("input", DType::Variant)],
        outputs: &[arg_of("output", DType::Variant)],
        attrs: &[bool_attr("conjugate", false), TYPE],
        shape: one_matrix,
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let matrix = SparseMatrix::typed(cx, 0, "type")?.transposed(cx)?;
        match cx.attrs().bool("conjugate") {
            true => conjugated(cx, &matrix)?.output(),
            false => matrix.output(),
        }
    })],
};
