//! RaggedCross: all combinations of the features of each row, one from each ragged, sparse or dense column.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Gradient, any_count_attr, arg, arg_of, args_of, attr, type_attr, types_attr,
};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::cross::{Column, FEATURES, check_attrs, hashed_values, joined_values, keyed};
use super::sparse_input::invalid;
use crate::support::tensors::{AccountedVec, integers};

/// The numbers of ragged, sparse and dense columns.
fn counts(attrs: &Attrs) -> [usize; 3] {
    ["ragged_values_types", "sparse_values_types", "dense_types"].map(|t| attrs.types(t).len())
}

/// The columns of a node.
struct Inputs {
    ragged: usize,
    sparse: usize,
}

impl Inputs {
    fn splits(&self, i: usize) -> usize {
        self.ragged + i
    }

    /// Indices, values and shape of a sparse column.
    fn sparse(&self, i: usize) -> [usize; 3] {
        [0, 1, 2].map(|part| 2 * self.ragged + part * self.sparse + i)
    }

    fn dense(&self, i: usize) -> usize {
        2 * self.ragged + 3 * self.sparse + i
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let attrs = cx.attrs();
    let [ragged, sparse, dense] = counts(attrs);
    let columns = ["ragged_values_types", "sparse_values_types", "dense_types"];
    check_attrs(attrs, &columns)?;
    let splits = attrs.types("ragged_splits_types");
    if splits.len() != ragged || splits.iter().any(|t| !DType::INDICES.contains(t)) {
        return Err(InferError::Attr {
            attr: "ragged_splits_types",
            reason: format!("give int32 or int64 for each of the {ragged} ragged columns"),
        });
    }
    if usize::try_from(attrs.int("Nsparse")) != Ok(sparse) {
        return Err(InferError::Attr {
            attr: "sparse_values_types",
            reason: format!(
                "give one for each of the {} sparse columns",
                attrs.int("Nsparse")
            ),
        });
    }
    let order = attrs.str("input_order");
    let of = |kind| order.chars().filter(|&c| c == kind).count();
    if ['R', 'S', 'D'].map(of) != [ragged, sparse, dense] || order.len() != ragged + sparse + dense
    {
        return Err(InferError::Attr {
            attr: "input_order",
            reason: format!(
                "has {order:?}: give R, S or D for each column, {ragged}, {sparse} and {dense} of them"
            ),
        });
    }
    let hashed = attrs.bool("hashed_output");
    if hashed != (attrs.dtype("out_values_type") == Some(DType::I64)) {
        return Err(InferError::Attr {
            attr: "out_values_type",
            reason: "must be int64 if hashed_output is true, and string otherwise".to_owned(),
        });
    }
    cx.set(0, Shape::partial([None]));
    cx.set(1, Shape::partial([None]));
    Ok(())
}

/// The row splits at input `i` of the ragged values at input `values`.
fn row_starts(
    cx: &TensorCx<'_>,
    i: usize,
    values: usize,
) -> Result<AccountedVec<usize>, KernelError> {
    let (found, values) = (cx.tensor(i)?, cx.tensor(values)?);
    if found.dims().len() != 1 || values.dims().len() != 1 {
        return Err(invalid(format!(
            "tf.ragged.cross only supports inputs with rank=2: row splits and values must be vectors, and have shapes {} and {}",
            found.shape(),
            values.shape()
        )));
    }
    let mut starts = AccountedVec::filled(found.len(), 0, cx.memory())?;
    let splits = cx.ints(i)?;
    let ascend = splits.first() == Some(&0) && splits.is_sorted();
    if !ascend || splits.last() != Some(&(values.len() as i64)) {
        return Err(invalid(format!(
            "Invalid ragged splits: those at input {i} must ascend from 0 to {}, the number of values",
            values.len()
        )));
    }
    starts
        .iter_mut()
        .zip(splits)
        .for_each(|(to, start)| *to = start as usize);
    Ok(starts)
}

/// The number of rows: that of the first column.
fn batch(cx: &TensorCx<'_>, inputs: &Inputs, first: Option<char>) -> Result<usize, KernelError> {
    let rows = |i: usize| Ok::<_, KernelError>(cx.tensor(i)?.dims().first().copied());
    let batch = match first {
        None => Some(0),
        Some('R') => match rows(inputs.splits(0))? {
            Some(0) => {
                return Err(invalid(
                    "Invalid ragged splits: they must have one number or more",
                ));
            }
            ends => ends.map(|ends| ends - 1),
        },
        Some('S') => {
            let shape = cx.slice::<i64>(inputs.sparse(0)[2])?.first();
            shape.and_then(|&n| usize::try_from(n).ok())
        }
        Some(_) => rows(inputs.dense(0))?,
    };
    batch.ok_or_else(|| {
        invalid("tf.ragged.cross only supports inputs with rank=2: the first has no rows")
    })
}

/// The columns in their order, and the number of rows.
fn columns<'a>(cx: &TensorCx<'a>) -> Result<(Vec<Column<'a>>, usize), KernelError> {
    let [ragged, sparse, _] = counts(cx.attrs());
    let inputs = Inputs { ragged, sparse };
    let order = cx.attrs().str("input_order");
    let rows = batch(cx, &inputs, order.chars().next())?;
    let (mut all, mut next) = (Vec::with_capacity(order.len()), [0; 3]);
    for kind in order.chars() {
        let mut number = |kind: usize| {
            next[kind] += 1;
            next[kind] - 1
        };
        let column = match kind {
            'R' => {
                let i = number(0);
                let starts = row_starts(cx, inputs.splits(i), i)?;
                if starts.len() != rows + 1 {
                    return Err(invalid(format!(
                        "inputs must all have the same batch dimension size: the first has {rows}, and a ragged one {}",
                        starts.len() - 1
                    )));
                }
                Column::ragged(cx.tensor(i)?, starts)
            }
            'S' => {
                let i = number(1);
                Column::sparse(cx, inputs.sparse(i), rows, i)?
            }
            _ => Column::dense(cx, inputs.dense(number(2)), rows)?,
        };
        all.push(column);
    }
    Ok((all, rows))
}

fn cross(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (columns, rows) = columns(cx)?;
    let values = match cx.attrs().bool("hashed_output") {
        true => hashed_values(cx, &columns, rows, &keyed(cx.attrs()))?,
        false => joined_values(cx, &columns, rows, b"_X_")?,
    };
    let mut ends = AccountedVec::filled(rows.saturating_add(1), 0i64, cx.memory())?;
    for row in 0..rows {
        // Their sum, which is larger, was counted for the values. A row without columns has no combinations.
        let count: usize = columns.iter().map(|c| c.count(row)).product();
        ends[row + 1] = ends[row] + count as i64;
    }
    let splits = integers(cx, "out_row_splits_type", ends.iter().copied())?;
    Ok(vec![values, splits])
}

/// Combinations of ragged columns.
pub(crate) static RAGGED: Op = Op {
    def: OpDef {
        name: "RaggedCross",
        summary: "All combinations of the features of each row of ragged, sparse and dense columns, as strings joined by _X_ or as hashes.",
        inputs: &[
            args_of("ragged_values", "ragged_values_types"),
            args_of("ragged_row_splits", "ragged_splits_types"),
            arg_of("sparse_indices", DType::I64).list("Nsparse"),
            args_of("sparse_values", "sparse_values_types"),
            arg_of("sparse_shape", DType::I64).list("Nsparse"),
            args_of("dense_inputs", "dense_types"),
        ],
        outputs: &[
            arg("output_values", "out_values_type"),
            arg("output_row_splits", "out_row_splits_type"),
        ],
        attrs: &[
            any_count_attr("Nsparse"),
            attr("input_order", AttrKind::Str),
            attr("hashed_output", AttrKind::Bool),
            attr("num_buckets", AttrKind::Int),
            attr("hash_key", AttrKind::Int),
            types_attr("ragged_values_types"),
            types_attr("ragged_splits_types"),
            types_attr("sparse_values_types"),
            types_attr("dense_types"),
            type_attr("out_values_type", FEATURES),
            type_attr("out_row_splits_type", DType::INDICES),
        ],
        shape: infer,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(cross)],
};
