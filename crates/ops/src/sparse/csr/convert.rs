//! SparseTensorToCSRSparseMatrix, CSRSparseMatrixToSparseTensor, DenseToCSRSparseMatrix, CSRSparseMatrixToDense,
//! CSRSparseMatrixComponents, SparseMatrixNNZ, SparseMatrixZeros.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use crate::flow::rows::slice_elements;
use crate::sparse::sparse_input::{
    SparseInput, check_shape, expect_rank, index_tensor, infer_sparse, invalid, set_sparse,
    shape_tensor,
};
use crate::support::sparse_matrix::{ENTRIES, Pattern, SparseMatrix, one_matrix};
use crate::support::tensors::{AccountedVec, take_slices};

/// The base definition of an op on sparse matrices.
pub(super) const MATRIX_OP: OpDef = OpDef {
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Dtype of the entries.
pub(super) const TYPE: AttrDef = type_attr("type", ENTRIES);
const MATRIX: Arg = arg_of("sparse_matrix", DType::Variant);

/// A sparse tensor as a matrix.
pub(crate) static FROM_SPARSE: Op = Op {
    def: OpDef {
        name: "SparseTensorToCSRSparseMatrix",
        summary: "A sparse tensor of rank 2, or a batch of them, as a sparse matrix in compressed rows.",
        inputs: &[
            arg_of("indices", DType::I64),
            arg("values", "T"),
            arg_of("dense_shape", DType::I64),
        ],
        outputs: &[MATRIX],
        attrs: &[type_attr("T", ENTRIES)],
        shape: |cx| {
            infer_sparse(cx, 0)?;
            one_matrix(cx)
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let input = SparseInput::of(cx, 0)?;
        let dims = input.dims();
        SparseMatrix::of_entries(cx, &dims, cx.slice::<i64>(0)?, input.values)?.output()
    })],
};

/// Elements of a dense tensor as a matrix.
pub(crate) static FROM_DENSE: Op = Op {
    def: OpDef {
        name: "DenseToCSRSparseMatrix",
        summary: "The elements of a dense matrix, or of a batch of them, at these indices, as a sparse matrix in compressed rows.",
        inputs: &[arg("dense_input", "T"), arg_of("indices", DType::I64)],
        outputs: &[arg_of("sparse_output", DType::Variant)],
        attrs: &[type_attr("T", ENTRIES)],
        shape: |cx| {
            cx.ranked(1, 2)?;
            one_matrix(cx)
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(from_dense)],
};

fn from_dense(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (dense, index) = (cx.tensor(0)?, cx.slice::<i64>(1)?);
    expect_rank(cx, 1, "indices", 2)?;
    let &[count, rank] = cx.tensor(1)?.dims() else {
        return Err(KernelError::Argument("indices"));
    };
    let dims = dense.dims();
    if rank != dims.len() || !(2..=3).contains(&rank) {
        return Err(invalid(format!(
            "dense_input must have rank 2 or 3, and indices a column for each dimension; their shapes are {} and {}",
            dense.shape(),
            cx.tensor(1)?.shape()
        )));
    }
    let mut places = AccountedVec::filled(count, 0, cx.memory())?;
    for (to, index) in places.iter_mut().zip(index.chunks_exact(rank)) {
        let inside = index
            .iter()
            .zip(dims)
            .all(|(&i, &size)| i >= 0 && (i as usize) < size);
        if !inside {
            return Err(invalid(format!(
                "indices {index:?} does not index into dense_input of shape {}",
                dense.shape()
            )));
        }
        let at = |at: usize, (&i, &size): (&i64, &usize)| at * size + i as usize;
        *to = index.iter().zip(dims).fold(0, at);
    }
    let values = take_slices(cx, dense, &places, 1, &[count])?;
    SparseMatrix::of_entries(cx, dims, index, &values)?.output()
}

/// A matrix as a sparse tensor.
pub(crate) static TO_SPARSE: Op = Op {
    def: OpDef {
        name: "CSRSparseMatrixToSparseTensor",
        summary: "A sparse matrix as a sparse tensor.",
        inputs: &[MATRIX],
        outputs: &[
            arg_of("indices", DType::I64),
            arg("values", "type"),
            arg_of("dense_shape", DType::I64),
        ],
        attrs: &[TYPE],
        shape: |cx| {
            set_sparse(cx, 0, None, None);
            Ok(())
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let matrix = SparseMatrix::typed(cx, 0, "type")?;
        let (pattern, rank) = (&matrix.pattern, matrix.pattern.dims().len());
        let mut places = AccountedVec::filled(pattern.len(), [0; 3], cx.memory())?;
        pattern.each(cx, |entry, place| places[entry] = place)?;
        let indices = index_tensor(cx, rank, places.len(), |i, to| {
            let own = places[i][3 - rank..].iter();
            to.iter_mut().zip(own).for_each(|(to, &i)| *to = i as i64);
        })?;
        let dims: Vec<i64> = pattern.dims().iter().map(|&size| size as i64).collect();
        Ok(vec![
            indices,
            matrix.values.clone(),
            shape_tensor(cx, &dims)?,
        ])
    })],
};

/// A matrix as a dense tensor.
pub(crate) static TO_DENSE: Op = Op {
    def: OpDef {
        name: "CSRSparseMatrixToDense",
        summary: "A sparse matrix as a dense tensor.",
        inputs: &[arg_of("sparse_input", DType::Variant)],
        outputs: &[arg("dense_output", "type")],
        attrs: &[TYPE],
        shape: |cx| {
            cx.set(0, Shape::unknown());
            Ok(())
        },
        ..MATRIX_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let matrix = SparseMatrix::typed(cx, 0, "type")?;
        let (pattern, dtype) = (&matrix.pattern, matrix.values.dtype());
        let [_, rows, columns] = pattern.sizes();
        let mut dense = cx.zeros(dtype, pattern.dims())?;
        dispatch!(dtype, [F32 F64 C64 C128], T => {
            let (to, from) = (dense.as_mut_slice::<T>()?, matrix.values.as_slice::<T>()?);
            pattern.each(cx, |entry, [matrix, row, column]| {
                to[(matrix * rows + row) * columns + column] = from[entry];
            })
        }, else Err(KernelError::DType(dtype)))?;
        Ok(vec![dense])
    })],
};

/// The arrays of one matrix.
pub(crate) static COMPONENTS: Op = Op {
    def: OpDef {
        name: "CSRSparseMatrixComponents",
        summary: "The row pointers, columns and values of one of a batch of sparse matrices.",
        inputs: &[
            arg_of("csr_sparse_matrix", DType::Variant),
            arg_of("index", DType::I32),
        ],
        outputs: &[
            arg_of("row_ptrs", DType::I32),
            arg_of("col_inds", DType::I32),
            arg("values", "type"),
        ],
        attrs: &[TYPE],
        shape: |cx| {
            cx.ranked(1, 0)?;
            (0..3).for_each(|i| cx.set(i, Shape::partial([None])));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let matrix = SparseMatrix::typed(cx, 0, "type")?;
        let (pattern, batch) = (&matrix.pattern, matrix.pattern.sizes()[0]);
        let index = cx.int(1)?;
        let at = usize::try_from(index).ok().filter(|&at| at < batch);
        let at = at.ok_or_else(|| {
            invalid(format!(
                "index ({index}) not in [0, batch_size), where batch_size is {batch}"
            ))
        })?;
        let (entries, ptrs) = (pattern.matrix(at), pattern.row_ptrs(at));
        let count = entries.len();
        Ok(vec![
            cx.tensor_of(&[ptrs.len()], ptrs)?,
            cx.tensor_of(&[count], &pattern.columns()[entries.clone()])?,
            slice_elements(cx.memory(), &matrix.values, entries.start, &[count])?,
        ])
    })],
};

/// The number of entries.
pub(crate) static NNZ: Op = Op {
    def: OpDef {
        name: "SparseMatrixNNZ",
        summary: "The number of entries of a sparse matrix, or of each of a batch.",
        inputs: &[MATRIX],
        outputs: &[arg_of("nnz", DType::I32)],
        shape: |cx| {
            cx.set(0, Shape::unknown());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let matrix = SparseMatrix::at(cx, 0)?;
        let (dims, batch) = (matrix.pattern.dims(), matrix.pattern.sizes()[0]);
        let mut counts = cx.zeros(DType::I32, &dims[..dims.len() - 2])?;
        let to = counts.as_mut_slice::<i32>()?.iter_mut();
        to.zip(0..batch)
            .for_each(|(to, at)| *to = matrix.pattern.matrix(at).len() as i32);
        Ok(vec![counts])
    })],
};

/// A matrix without entries.
pub(crate) static ZEROS: Op = Op {
    def: OpDef {
        name: "SparseMatrixZeros",
        summary: "A sparse matrix, or a batch of them, without entries.",
        inputs: &[arg_of("dense_shape", DType::I64)],
        outputs: &[MATRIX],
        attrs: &[TYPE],
        shape: |cx| {
            cx.ranked(0, 1)?;
            one_matrix(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let shape = cx.slice::<i64>(0)?;
        check_shape(shape)?;
        let dims: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        let dtype = cx.attrs().dtype("type").unwrap_or(DType::F32);
        let matrix = SparseMatrix {
            pattern: Pattern::of(cx, &dims, 0, |_| [0; 3])?,
            values: cx.zeros(dtype, &[0])?,
        };
        matrix.output()
    })],
};
