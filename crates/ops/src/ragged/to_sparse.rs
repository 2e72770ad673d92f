//! RaggedTensorToSparse.

use smallvec::SmallVec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, InputGradients, arg, arg_of, count_attr, type_attr};
use thalweg_tensor::{DType, Shape, Tensor};

use super::row_splits::{SPLITS, nested_splits};
use crate::array::ArrayOps;
use crate::support::gradient_nodes::shape_of;
use crate::support::tensors::AccountedVec;

/// A ragged tensor as a sparse one.
pub(crate) static TO_SPARSE: Op = Op {
    def: OpDef {
        name: "RaggedTensorToSparse",
        summary: "The elements of a ragged tensor as a sparse one.",
        inputs: &[
            arg("rt_nested_splits", "Tsplits").list("RAGGED_RANK"),
            arg("rt_dense_values", "T"),
        ],
        outputs: &[
            arg_of("sparse_indices", DType::I64),
            arg("sparse_values", "T"),
            arg_of("sparse_dense_shape", DType::I64),
        ],
        attrs: &[
            count_attr("RAGGED_RANK"),
            type_attr("T", &DType::ALL),
            SPLITS,
        ],
        shape: |cx| {
            let splits = cx.inputs() - 1;
            let values = cx.shape(splits);
            let rank = values.rank().map(|rank| rank + splits);
            cx.set(0, Shape::partial([values.elements(), rank]));
            cx.set(1, Shape::partial([values.elements()]));
            cx.set(2, Shape::partial([rank]));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let values = g.inputs() - 1;
            let mut all: InputGradients<'_> = SmallVec::from_elem(None, values);
            let shape = shape_of(g.input(values), DType::I32);
            all.push(g.dy(1).map(|dy| dy.reshape(shape)));
            all
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(to_sparse)],
};

fn to_sparse(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let ragged_rank = cx.inputs() - 1;
    let splits = nested_splits(cx, ragged_rank)?;
    let values = cx.tensor(ragged_rank)?;
    let [rows, inner @ ..] = values.dims() else {
        return Err(KernelError::Argument("values with rows"));
    };
    let width = ragged_rank + values.dims().len();
    let mut shape = vec![(splits[0].len() - 1) as i64];
    for ends in &splits {
        let lengths = ends.windows(2).map(|ends| ends[1] - ends[0]);
        shape.push(lengths.max().unwrap_or(0) as i64);
    }
    shape.extend(inner.iter().map(|&d| d as i64));
    // The row around each row of values, by level from the inside: its number, and the place in it.
    let mut indices = cx.zeros(DType::I64, &[values.len(), width])?;
    let per_row = if *rows == 0 { 0 } else { values.len() / rows };
    let to = indices.as_mut_slice::<i64>()?;
    let mut current = AccountedVec::filled(*rows, 0usize, cx.memory())?;
    current.iter_mut().enumerate().for_each(|(i, row)| *row = i);
    for (level, ends) in splits.iter().enumerate().rev() {
        let outer = outer_rows(cx, ends)?;
        for (row, at) in current.iter_mut().enumerate() {
            let parent = outer[*at];
            let place = (*at - ends[parent]) as i64;
            let first = row * per_row * width;
            let copies = to[first..first + per_row * width].chunks_exact_mut(width);
            for index in copies {
                index[level + 1] = place;
                index[level] = parent as i64;
            }
            *at = parent;
        }
    }
    let mut stop = cx.stop_check();
    for (element, index) in to.chunks_exact_mut(width).enumerate() {
        stop.tick()?;
        let mut rest = element % per_row.max(1);
        for (to, &size) in index[ragged_rank + 1..].iter_mut().zip(inner).rev() {
            *to = (rest % size) as i64;
            rest /= size;
        }
    }
    Ok(vec![
        indices,
        cx.value(ragged_rank)?.reshaped(&[values.len()])?,
        cx.tensor_of(&[shape.len()], &shape)?,
    ])
}

/// The row around each inner row.
fn outer_rows(cx: &TensorCx<'_>, ends: &[usize]) -> Result<AccountedVec<usize>, KernelError> {
    let mut outer = AccountedVec::filled(ends[ends.len() - 1], 0, cx.memory())?;
    for (row, ends) in ends.windows(2).enumerate() {
        outer[ends[0]..ends[1]].fill(row);
    }
    Ok(outer)
}
