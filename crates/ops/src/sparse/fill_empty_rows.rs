//! SparseFillEmptyRows, SparseFillEmptyRowsGrad, RaggedFillEmptyRows, RaggedFillEmptyRowsGrad: rows without an entry get a
//! default value.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, Gradient, InputGradients, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{SparseInput, expect_rank, index_tensor, infer_sparse, invalid};
use crate::flow::rows::joined;
use crate::support::gradient_nodes::or_zeros;
use crate::support::shapes::expect_scalar;
use crate::support::tensors::{AccountedVec, take_slices};

const EMPTY_ROWS: Arg = arg_of("empty_row_indicator", DType::Bool);
const PLACES: Arg = arg_of("reverse_index_map", DType::I64);

/// Rows with an entry each: those of the input, and one in each empty row.
struct FilledRows {
    /// The entries; `None` where they are those of the input: no row is empty, and their rows ascend.
    entries: Option<Entries>,
    /// `true` for each row that was empty.
    empty: Tensor,
    /// For each entry of the input its number in the result.
    places: Tensor,
}

/// The entries of a result.
struct Entries {
    /// The input's entry behind each; one past the last for the default value.
    sources: AccountedVec<usize>,
    /// The row of each.
    rows: AccountedVec<usize>,
}

/// Distributes entries, given their rows, over `count` rows.
fn fill(
    cx: &TensorCx<'_>,
    entries: usize,
    row_of: impl Fn(usize) -> i64,
    count: i64,
) -> Result<FilledRows, KernelError> {
    let rows =
        usize::try_from(count).map_err(|_| invalid(format!("{count} rows: give 0 or more")))?;
    if rows == 0 && entries > 0 {
        return Err(invalid(format!(
            "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {entries}"
        )));
    }
    let mut next = AccountedVec::filled(rows, 0usize, cx.memory())?;
    let (mut ascend, mut last, mut stop) = (true, 0, cx.stop_check());
    for entry in 0..entries {
        stop.tick()?;
        let row = row_of(entry);
        ascend &= last <= row;
        last = row;
        let found = usize::try_from(row).ok().and_then(|row| next.get_mut(row));
        *found.ok_or_else(|| {
            invalid(format!("indices({entry}, 0) is invalid: {row} >= {rows}"))
        })? += 1;
    }
    let mut empty = cx.zeros(DType::Bool, &[rows])?;
    let mut total = 0;
    for (next, empty) in next.iter_mut().zip(empty.as_mut_slice::<bool>()?) {
        *empty = *next == 0;
        let start = total;
        total += (*next).max(1);
        *next = start;
    }
    let mut places = cx.zeros(DType::I64, &[entries])?;
    let all_places = places.as_mut_slice::<i64>()?.iter_mut();
    if ascend && total == entries {
        all_places
            .zip(0..)
            .for_each(|(place, entry)| *place = entry);
        return Ok(FilledRows {
            entries: None,
            empty,
            places,
        });
    }
    let mut sources = AccountedVec::filled(total, entries, cx.memory())?;
    let mut row_numbers = AccountedVec::filled(total, 0, cx.memory())?;
    for (row, &start) in next.iter().enumerate() {
        row_numbers[start] = row;
    }
    for (entry, place) in all_places.enumerate() {
        let row = row_of(entry) as usize;
        let at = next[row];
        next[row] += 1;
        (sources[at], row_numbers[at]) = (entry, row);
        *place = at as i64;
    }
    Ok(FilledRows {
        entries: Some(Entries {
            sources,
            rows: row_numbers,
        }),
        empty,
        places,
    })
}

impl FilledRows {
    /// The values of all entries.
    fn values(
        &self,
        cx: &TensorCx<'_>,
        values: &Tensor,
        default: usize,
    ) -> Result<Tensor, KernelError> {
        let default = cx.tensor(default)?;
        if !default.dims().is_empty() {
            return Err(invalid(format!(
                "default_value must be a scalar, saw: {}",
                default.shape()
            )));
        }
        let Some(Entries { sources, .. }) = &self.entries else {
            return Ok(values.clone());
        };
        let all = [values.clone(), default.clone()];
        let all = joined(cx.memory(), values.dtype(), &all, &[values.len() + 1])?;
        take_slices(cx, &all, sources, 1, &[sources.len()])
    }
}

/// Adds an entry to each row of a sparse tensor that has none.
pub(crate) static SPARSE: Op = Op {
    def: OpDef {
        name: "SparseFillEmptyRows",
        summary: "A sparse tensor with a default value at the start of each row that has no entry.",
        inputs: &[
            arg_of("indices", DType::I64),
            arg("values", "T"),
            arg_of("dense_shape", DType::I64),
            arg("default_value", "T"),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg("output_values", "T"),
            EMPTY_ROWS,
            PLACES,
        ],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            let rank = infer_sparse(cx, 0)?;
            expect_scalar(cx, 3)?;
            let rows = cx.ints(2).and_then(|shape| shape.first().copied());
            let rows = rows.and_then(|rows| usize::try_from(rows).ok());
            cx.set(0, Shape::partial([None, rank]));
            cx.set(1, Shape::partial([None]));
            cx.set(2, Shape::partial([rows]));
            cx.set(3, Shape::partial([cx.shape(0).dim(0)]));
            Ok(())
        },
        gradient: Gradient::Rule(|g| gradient(g, "SparseFillEmptyRowsGrad")),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let sparse = SparseInput::of(cx, 0)?;
        let Some(&count) = sparse.shape.first() else {
            return Err(invalid("Dense shape cannot be empty."));
        };
        let filled = fill(cx, sparse.len(), |entry| sparse.index(entry)[0], count)?;
        let indices = match &filled.entries {
            None => cx.value(0)?,
            Some(Entries { sources, rows }) => {
                index_tensor(cx, sparse.rank(), rows.len(), |i, to| match sources[i] {
                    added if added == sparse.len() => to[0] = rows[i] as i64,
                    entry => to.copy_from_slice(sparse.index(entry)),
                })?
            }
        };
        let values = filled.values(cx, sparse.values, 3)?;
        Ok(vec![indices, values, filled.empty, filled.places])
    })],
};

/// Adds a value to each row of a ragged tensor that has none.
pub(crate) static RAGGED: Op = Op {
    def: OpDef {
        name: "RaggedFillEmptyRows",
        summary: "The values of a ragged tensor, with a default value in each row that is empty.",
        inputs: &[
            arg_of("value_rowids", DType::I64),
            arg("values", "T"),
            arg_of("nrows", DType::I64),
            arg("default_value", "T"),
        ],
        outputs: &[
            arg_of("output_value_rowids", DType::I64),
            arg("output_values", "T"),
            EMPTY_ROWS,
            PLACES,
        ],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            let ids = cx.ranked(0, 1)?;
            cx.ranked(1, 1)?;
            expect_scalar(cx, 2)?;
            expect_scalar(cx, 3)?;
            for i in 0..3 {
                cx.set(i, Shape::partial([None]));
            }
            cx.set(3, ids);
            Ok(())
        },
        gradient: Gradient::Rule(|g| gradient(g, "RaggedFillEmptyRowsGrad")),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        expect_rank(cx, 0, "value_rowids", 1)?;
        expect_rank(cx, 1, "values", 1)?;
        let (ids, values) = (cx.slice::<i64>(0)?, cx.tensor(1)?);
        if ids.len() != values.len() {
            return Err(invalid(format!(
                "The length of `values` ({}) must match the first dimension of `value_rowids` ({}).",
                values.len(),
                ids.len()
            )));
        }
        let filled = fill(cx, ids.len(), |entry| ids[entry], cx.int(2)?)?;
        let rows = match &filled.entries {
            None => cx.value(0)?,
            Some(Entries { rows, .. }) => {
                let mut numbers = cx.zeros(DType::I64, &[rows.len()])?;
                let to = numbers.as_mut_slice::<i64>()?.iter_mut();
                to.zip(rows.iter()).for_each(|(to, &row)| *to = row as i64);
                numbers
            }
        };
        let values = filled.values(cx, values, 3)?;
        Ok(vec![rows, values, filled.empty, filled.places])
    })],
};

/// Gradient by op `op`, from the places of the values and the gradient of the result.
fn gradient<'g>(g: &GradCx<'_, 'g>, op: &str) -> InputGradients<'g> {
    let node = g.graph().op(op).input(g.output(3));
    let node = node.input(or_zeros(g.dy(1), g.output(1))).build();
    smallvec![None, Some(node.output(0)), None, Some(node.output(1))]
}

/// The gradients of values at their places, and of the default value at all others.
fn backward<T: Arithmetic>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect_rank(cx, 0, "reverse_index_map", 1)?;
    expect_rank(cx, 1, "grad_values", 1)?;
    let (places, dy) = (cx.slice::<i64>(0)?, cx.slice::<T>(1)?);
    let mut is_value = AccountedVec::filled(dy.len(), false, cx.memory())?;
    let mut values = cx.zeros(T::DTYPE, &[places.len()])?;
    for (to, &place) in values.as_mut_slice::<T>()?.iter_mut().zip(places) {
        let at = usize::try_from(place).ok().filter(|&at| at < dy.len());
        let at = at.ok_or_else(|| {
            invalid(format!(
                "Elements in reverse index must be in [0, {}) but got {place}",
                dy.len()
            ))
        })?;
        is_value[at] = true;
        *to = dy[at];
    }
    let added = dy
        .iter()
        .zip(is_value.iter())
        .filter(|(_, is_value)| !**is_value);
    let default = added.fold(T::ZERO, |sum, (&dy, _)| sum.add(dy));
    Ok(vec![values, cx.tensor_of(&[], &[default])?])
}

const GRAD: OpDef = OpDef {
    name: "SparseFillEmptyRowsGrad",
    summary: "The gradient of SparseFillEmptyRows.",
    inputs: &[PLACES, arg("grad_values", "T")],
    outputs: &[arg("d_values", "T"), arg("d_default_value", "T")],
    attrs: &[type_attr("T", DType::ALL_NUMBERS)],
    shape: |cx| {
        let places = cx.ranked(0, 1)?;
        cx.ranked(1, 1)?;
        cx.set(0, places);
        cx.set(1, Shape::scalar());
        Ok(())
    },
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Gradient of SparseFillEmptyRows.
pub(crate) static SPARSE_GRAD: Op = Op {
    def: GRAD,
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => backward::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

/// Gradient of RaggedFillEmptyRows.
pub(crate) static RAGGED_GRAD: Op = Op {
    def: OpDef {
        name: "RaggedFillEmptyRowsGrad",
        summary: "The gradient of RaggedFillEmptyRows.",
        ..GRAD
    },
    kernels: SPARSE_GRAD.kernels,
};
