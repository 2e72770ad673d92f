//! DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput: occurrences of numbers as sparse tensors; and
//! SparseBincount, RaggedBincount: as dense ones.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{
    Allowed, Arg, AttrDef, Gradient, arg, arg_of, attr, bool_attr, int_attr, type_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{SparseInput, index_tensor, invalid, set_sparse, shape_tensor};
use crate::support::shape_inputs::{checked_shape, invalid_value, scalar_int};
use crate::support::tensors::AccountedVec;

const COUNTED: &[DType] = &[DType::I32, DType::I64, DType::F32, DType::F64];

/// Numbers to count.
struct Values {
    numbers: Vec<i64>,
    /// The row of each number; empty if all are in one.
    rows: AccountedVec<usize>,
    /// Number of rows; none if there is no dimension of rows.
    row_count: Option<usize>,
}

impl Values {
    /// The numbers of a vector or a matrix at input 0.
    fn dense(cx: &TensorCx<'_>) -> Result<Values, KernelError> {
        let input = cx.tensor(0)?;
        let mut rows = AccountedVec::new(cx.memory());
        let row_count = match *input.dims() {
            [_] => None,
            [count, width] => {
                rows.grow(input.len(), 0)?;
                rows.iter_mut()
                    .enumerate()
                    .for_each(|(i, row)| *row = i / width.max(1));
                Some(count)
            }
            _ => {
                return Err(invalid(format!(
                    "Input must be a 1 or 2-dimensional tensor. Got: {}",
                    input.shape()
                )));
            }
        };
        Ok(Values {
            numbers: cx.ints(0)?,
            rows,
            row_count,
        })
    }

    /// The numbers of a sparse tensor at inputs 0 to 2, of one or more dimensions; the first one counts rows.
    fn sparse(cx: &TensorCx<'_>) -> Result<Values, KernelError> {
        let sparse = SparseInput::of(cx, 0)?;
        sparse.check_inside(cx)?;
        let mut rows = AccountedVec::new(cx.memory());
        let row_count = match sparse.shape[..] {
            [] => return Err(invalid("the dense shape must have one dimension or more")),
            [_] => None,
            [count, ..] => {
                rows.grow(sparse.len(), 0)?;
                let numbers = rows.iter_mut().enumerate();
                numbers.for_each(|(i, row)| *row = sparse.index(i)[0] as usize);
                Some(count as usize)
            }
        };
        Ok(Values {
            numbers: cx.ints(1)?,
            rows,
            row_count,
        })
    }

    /// The numbers of a ragged tensor: row splits at input 0, and values at input 1.
    fn ragged(cx: &TensorCx<'_>) -> Result<Values, KernelError> {
        let (splits, numbers) = (cx.ints(0)?, cx.ints(1)?);
        let (Some(&first), Some(&last)) = (splits.first(), splits.last()) else {
            return Err(invalid("Splits must be non-empty"));
        };
        if splits.len() < 2 {
            return Err(invalid(
                "Must provide at least 2 elements for the splits argument",
            ));
        }
        if first != 0 {
            return Err(invalid(format!(
                "Splits must start with 0, not with {first}"
            )));
        }
        if last != numbers.len() as i64 {
            return Err(invalid(format!(
                "Splits must end with the number of values, got {last} instead of {}",
                numbers.len()
            )));
        }
        if !splits.is_sorted() {
            return Err(invalid("Splits must be non decreasing"));
        }
        let mut rows = AccountedVec::filled(numbers.len(), 0, cx.memory())?;
        for (row, ends) in splits.windows(2).enumerate() {
            rows[ends[0] as usize..ends[1] as usize].fill(row);
        }
        Ok(Values {
            numbers,
            rows,
            row_count: Some(splits.len() - 1),
        })
    }

    /// The weights at input `i`: one for each number, or none.
    fn weights<'a, T: Number>(
        &self,
        cx: &TensorCx<'a>,
        i: usize,
        values: usize,
    ) -> Result<&'a [T], KernelError> {
        let (weights, values) = (cx.tensor(i)?, cx.tensor(values)?);
        match weights.is_empty() || weights.len() == values.len() {
            true => Ok(cx.slice::<T>(i)?),
            false => Err(invalid(format!(
                "Weights and values must have the same shape. Weight shape: {}; values shape: {}",
                weights.shape(),
                values.shape()
            ))),
        }
    }

    fn row(&self, i: usize) -> usize {
        self.rows.get(i).copied().unwrap_or(0)
    }
}

/// Adds an occurrence to a count.
fn add<T: Number>(count: T, weight: Option<&T>, binary: bool) -> T {
    match weight {
        _ if binary => T::ONE,
        Some(&weight) => count.add(weight),
        None => count.add(T::ONE),
    }
}

/// The counts as a sparse tensor. The numbers are of input `values`, the weights of the input after the numbers.
fn counts<T: Number>(
    cx: &TensorCx<'_>,
    all: Values,
    [values, weights]: [usize; 2],
) -> Result<Vec<Tensor>, KernelError> {
    let weights = all.weights::<T>(cx, weights, values)?;
    let attrs = cx.attrs();
    let (least, most) = (attrs.int("minlength"), attrs.int("maxlength"));
    let binary = attrs.bool("binary_output");
    if all.numbers.iter().any(|&number| number < 0) {
        return Err(invalid("Input values must all be non-negative"));
    }
    let is_counted = |i: &usize| most < 0 || all.numbers[*i] < most;
    let mut order = AccountedVec::filled(all.numbers.len(), 0, cx.memory())?;
    let mut len = 0;
    for i in (0..all.numbers.len()).filter(is_counted) {
        order[len] = i;
        len += 1;
    }
    order.truncate(len);
    order.sort_unstable_by_key(|&i| (all.row(i), all.numbers[i], i));
    let mut found = AccountedVec::filled(len, (0usize, 0i64, T::ZERO), cx.memory())?;
    let mut count = 0;
    for &i in order.iter() {
        let (row, number) = (all.row(i), all.numbers[i]);
        let is_new = count == 0 || (found[count - 1].0, found[count - 1].1) != (row, number);
        if is_new {
            found[count] = (row, number, T::ZERO);
            count += 1;
        }
        found[count - 1].2 = add(found[count - 1].2, weights.get(i), binary);
    }
    let largest = found[..count].iter().map(|(_, number, _)| *number).max();
    let width = match most >= 0 {
        true => most,
        false => largest.unwrap_or(0).saturating_add(1).max(least),
    };
    let has_rows = all.row_count.is_some();
    let indices = index_tensor(cx, 1 + usize::from(has_rows), count, |i, to| {
        let (row, number, _) = found[i];
        if has_rows {
            to[0] = row as i64;
        }
        to[usize::from(has_rows)] = number;
    })?;
    let mut values = cx.zeros(T::DTYPE, &[count])?;
    let to = values.as_mut_slice::<T>()?.iter_mut();
    to.zip(found.iter())
        .for_each(|(to, (_, _, count))| *to = *count);
    let rows = all.row_count.map(|rows| rows as i64);
    let shape: Vec<i64> = rows.into_iter().chain([width]).collect();
    Ok(vec![indices, values, shape_tensor(cx, &shape)?])
}

/// The counts as a dense tensor: a row of `size` for each row of numbers.
fn bins<T: Number>(
    cx: &TensorCx<'_>,
    all: Values,
    [values, size, weights]: [usize; 3],
) -> Result<Vec<Tensor>, KernelError> {
    let weights = all.weights::<T>(cx, weights, values)?;
    let size = cx.int(size)?;
    let width = usize::try_from(size)
        .map_err(|_| invalid(format!("size ({size}) must be non-negative")))?;
    let dims: Vec<usize> = all.row_count.into_iter().chain([width]).collect();
    let mut out = cx.zeros(T::DTYPE, &dims)?;
    let to = out.as_mut_slice::<T>()?;
    let binary = cx.attrs().bool("binary_output");
    for (i, &number) in all.numbers.iter().enumerate() {
        let number = usize::try_from(number).map_err(|_| invalid("Input must be non-negative"))?;
        // Numbers beyond the last bin are not counted.
        if number < width {
            let count = &mut to[all.row(i) * width + number];
            *count = add(*count, weights.get(i), binary);
        }
    }
    Ok(vec![out])
}

const AT_LEAST: AttrDef = AttrDef {
    allowed: Allowed::AtLeast(-1),
    ..int_attr("minlength", -1)
};
const COUNT_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::INDICES),
    AT_LEAST,
    AttrDef {
        name: "maxlength",
        ..AT_LEAST
    },
    attr("binary_output", AttrKind::Bool),
    type_attr("output_type", COUNTED),
];
const COUNTS: &[Arg] = &[
    arg_of("output_indices", DType::I64),
    arg("output_values", "output_type"),
    arg_of("output_dense_shape", DType::I64),
];

const DENSE: OpDef = OpDef {
    name: "DenseCountSparseOutput",
    summary: "How often each number occurs in a vector, or in each row of a matrix, as a sparse tensor.",
    inputs: &[arg("values", "T"), arg("weights", "output_type")],
    outputs: COUNTS,
    attrs: COUNT_ATTRS,
    shape: |cx| {
        let rank = cx.shape(0).rank();
        set_sparse(cx, 0, None, rank);
        Ok(())
    },
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Counts of a dense tensor.
pub(crate) static DENSE_COUNT: Op = Op {
    def: DENSE,
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, [I32 I64 F32 F64], T => counts::<T>(cx, Values::dense(cx)?, [0, 1]), else
            Err(KernelError::DType(dtype)))
    })],
};

/// Counts of a sparse tensor.
pub(crate) static SPARSE_COUNT: Op = Op {
    def: OpDef {
        name: "SparseCountSparseOutput",
        summary: "How often each number occurs in a sparse vector, or in each row of a sparse matrix, as a sparse tensor.",
        inputs: &[
            arg_of("indices", DType::I64),
            arg("values", "T"),
            arg_of("dense_shape", DType::I64),
            arg("weights", "output_type"),
        ],
        shape: |cx| {
            let rank = cx.shape(2).dim(0).map(|rank| rank.min(2));
            set_sparse(cx, 0, None, rank);
            Ok(())
        },
        ..DENSE
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(3)?.dtype();
        dispatch!(dtype, [I32 I64 F32 F64], T => counts::<T>(cx, Values::sparse(cx)?, [1, 3]), else
            Err(KernelError::DType(dtype)))
    })],
};

/// Counts of a ragged tensor.
pub(crate) static RAGGED_COUNT: Op = Op {
    def: OpDef {
        name: "RaggedCountSparseOutput",
        summary: "How often each number occurs in each row of a ragged tensor, as a sparse tensor.",
        inputs: &[
            arg_of("splits", DType::I64),
            arg("values", "T"),
            arg("weights", "output_type"),
        ],
        shape: |cx| {
            set_sparse(cx, 0, None, Some(2));
            Ok(())
        },
        ..DENSE
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(2)?.dtype();
        dispatch!(dtype, [I32 I64 F32 F64], T => counts::<T>(cx, Values::ragged(cx)?, [1, 2]), else
            Err(KernelError::DType(dtype)))
    })],
};

/// Shape of counts in `size`, input `input`, bins for each of so many rows.
fn bins_shape(
    cx: &mut Infer<'_>,
    input: usize,
    rows: Option<&[Option<usize>]>,
) -> Result<(), InferError> {
    let size = match scalar_int(cx, input)? {
        Some(size) => Some(
            usize::try_from(size)
                .map_err(|_| invalid_value(input, format!("size ({size}) must be non-negative")))?,
        ),
        None => None,
    };
    if let Some(rows) = rows {
        let shape = checked_shape(input, Shape::partial([rows, &[size]].concat()))?;
        cx.set(0, shape);
    }
    Ok(())
}

const BIN_ATTRS: &[AttrDef] = &[
    type_attr("Tidx", DType::INDICES),
    type_attr("T", COUNTED),
    bool_attr("binary_output", false),
];

const SPARSE_BINS: OpDef = OpDef {
    name: "SparseBincount",
    summary: "How often each number below size occurs in a sparse vector, or in each row of a sparse matrix.",
    inputs: &[
        arg_of("indices", DType::I64),
        arg("values", "Tidx"),
        arg_of("dense_shape", DType::I64),
        arg("size", "Tidx"),
        arg("weights", "T"),
    ],
    outputs: &[arg("output", "T")],
    attrs: BIN_ATTRS,
    shape: |cx| {
        let rows: Option<&[Option<usize>]> = match cx.shape(2).dim(0) {
            Some(1) => Some(&[]),
            Some(_) => Some(&[None]),
            None => None,
        };
        bins_shape(cx, 3, rows)
    },
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Bins of a sparse tensor.
pub(crate) static SPARSE_BINCOUNT: Op = Op {
    def: SPARSE_BINS,
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(4)?.dtype();
        dispatch!(dtype, [I32 I64 F32 F64], T => bins::<T>(cx, Values::sparse(cx)?, [1, 3, 4]), else
            Err(KernelError::DType(dtype)))
    })],
};

/// Bins of a ragged tensor.
pub(crate) static RAGGED_BINCOUNT: Op = Op {
    def: OpDef {
        name: "RaggedBincount",
        summary: "How often each number below size occurs in each row of a ragged tensor.",
        inputs: &[
            arg_of("splits", DType::I64),
            arg("values", "Tidx"),
            arg("size", "Tidx"),
            arg("weights", "T"),
        ],
        shape: |cx| {
            let rows = cx.ranked(0, 1)?.dim(0).map(|ends| ends.saturating_sub(1));
            bins_shape(cx, 2, Some(&[rows]))
        },
        ..SPARSE_BINS
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(3)?.dtype();
        dispatch!(dtype, [I32 I64 F32 F64], T => bins::<T>(cx, Values::ragged(cx)?, [1, 2, 3]), else
            Err(KernelError::DType(dtype)))
    })],
};
