//! RaggedGather.

use std::ops::Range;

use smallvec::SmallVec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, InputGradients, any_count_attr, arg, count_attr, type_attr};
use thalweg_graph::{GradCx, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, Tensor};

use super::row_splits::{SPLITS, invalid, nested_splits};
use crate::array::ArrayOps;
use crate::support::gradient_nodes::{first_size, gather_rows, int_scalar, int_vector, or_zeros};
use crate::support::tensors::{AccountedVec, integers, take_slices};

/// Rows of a ragged tensor.
pub(crate) static GATHER: Op = Op {
    def: OpDef {
        name: "RaggedGather",
        summary: "The rows of a ragged tensor with these numbers, in the dimensions of the numbers.",
        inputs: &[
            arg("params_nested_splits", "Tsplits").list("PARAMS_RAGGED_RANK"),
            arg("params_dense_values", "Tvalues"),
            arg("indices", "Tindices"),
        ],
        outputs: &[
            arg("output_nested_splits", "Tsplits").list("OUTPUT_RAGGED_RANK"),
            arg("output_dense_values", "Tvalues"),
        ],
        attrs: &[
            type_attr("Tvalues", DType::ELEMENTS),
            type_attr("Tindices", DType::INDICES),
            SPLITS,
            count_attr("PARAMS_RAGGED_RANK"),
            any_count_attr("OUTPUT_RAGGED_RANK"),
        ],
        shape: |cx| {
            let splits = cx.outputs() - 1;
            for i in 0..splits {
                cx.set(i, Shape::partial([None]));
            }
            let values = cx.shape(cx.inputs() - 2).dims();
            let inner = values.and_then(|dims| dims.get(1..));
            let all = inner.map(|inner| [&[None], inner].concat());
            cx.set(splits, all.map_or(Shape::unknown(), Shape::partial));
            Ok(())
        },
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(gather)],
};

/// Maximum number of rows of indices without elements.
const MAX_ROWS: usize = 1 << 24;

fn gather(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let ragged_rank = cx.inputs() - 2;
    let splits = nested_splits(cx, ragged_rank)?;
    let (values, indices) = (cx.tensor(ragged_rank)?, cx.tensor(ragged_rank + 1)?);
    let outer = indices.dims();
    let out_rank = cx.node().outputs.len() - 1;
    if outer.len() + ragged_rank != out_rank + 1 {
        return Err(invalid(format!(
            "OUTPUT_RAGGED_RANK must be {} for indices with {} dimensions and {ragged_rank} row splits, and is {out_rank}",
            (outer.len() + ragged_rank).saturating_sub(1),
            outer.len()
        )));
    }
    let rows = splits[0].len() - 1;
    let mut outputs = Vec::with_capacity(out_rank + 1);
    for (axis, &size) in outer.iter().enumerate().skip(1) {
        // Without elements there may be any number of rows.
        let count = elements(&outer[..axis]);
        if count > MAX_ROWS && indices.is_empty() {
            return Err(invalid(format!(
                "indices of shape {} have too many rows",
                indices.shape()
            )));
        }
        let mut ends = AccountedVec::filled(count.saturating_add(1), 0i64, cx.memory())?;
        let numbers = ends.iter_mut().enumerate();
        numbers.for_each(|(row, end)| *end = (row * size) as i64);
        outputs.push(integers(cx, "Tsplits", ends.iter().copied())?);
    }
    let mut ranges: AccountedVec<Range<usize>> =
        AccountedVec::filled(indices.len(), 0..0, cx.memory())?;
    for (i, (range, index)) in ranges.iter_mut().zip(cx.ints(ragged_rank + 1)?).enumerate() {
        let row = usize::try_from(index).ok().filter(|&row| row < rows);
        let row =
            row.ok_or_else(|| invalid(format!("indices[{i}] = {index} is not in [0, {rows})")))?;
        *range = row..row + 1;
    }
    for (level, ends) in splits.iter().enumerate() {
        // Row splits of the outermost dimension are those of one row, if a scalar names it.
        if level > 0 || !outer.is_empty() {
            outputs.push(moved_splits(cx, ends, &ranges)?);
        }
        let inside = ranges.iter_mut();
        inside.for_each(|range| *range = ends[range.start]..ends[range.end]);
    }
    let total = total_rows(&ranges)?;
    let mut places = AccountedVec::filled(total, 0, cx.memory())?;
    let all = ranges.iter().cloned().flatten();
    places.iter_mut().zip(all).for_each(|(to, row)| *to = row);
    let inner = &values.dims()[1..];
    let dims = [&[total], inner].concat();
    outputs.push(take_slices(cx, values, &places, elements(inner), &dims)?);
    Ok(outputs)
}

fn total_rows(ranges: &[Range<usize>]) -> Result<usize, KernelError> {
    let mut lengths = ranges.iter().map(Range::len);
    let total = lengths.try_fold(0usize, usize::checked_add);
    total.ok_or_else(|| invalid("the rows have more elements than can be counted"))
}

/// The row splits of these rows, one after the other.
fn moved_splits(
    cx: &TensorCx<'_>,
    ends: &[usize],
    ranges: &[Range<usize>],
) -> Result<Tensor, KernelError> {
    let count = total_rows(ranges)?;
    let mut all = AccountedVec::filled(count + 1, 0i64, cx.memory())?;
    let (mut at, mut end, mut stop) = (1, 0usize, cx.stop_check());
    for row in ranges.iter().cloned().flatten() {
        stop.tick()?;
        end += ends[row + 1] - ends[row];
        all[at] = end as i64;
        at += 1;
    }
    integers(cx, "Tsplits", all.iter().copied())
}

/// The gradient of each slice of values: the sum over the rows that took it.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, rank) = (g.graph(), g.inputs() - 2);
    let (values, indices) = (g.input(rank), g.input(rank + 1));
    let last = g.outputs() - 1;
    let dy = or_zeros(g.dy(last), g.output(last as u32));
    let ends = (1..rank).fold(g.input(0), |ends, i| gather_rows(g.input(i), ends));
    let flat = indices.reshape(int_vector(graph, DType::I32, &[-1]));
    let one = int_scalar(graph, flat.dtype(), 1);
    let range = graph.op("RaggedRange").input(gather_rows(ends, flat));
    let range = range.input(gather_rows(ends, flat + one));
    let range = range.input(int_scalar(graph, ends.dtype(), 1)).build();
    let node = graph
        .op("UnsortedSegmentSum")
        .input(dy)
        .input(range.output(1));
    let node = node.input(first_size(values, DType::I32)).output();
    let mut all: InputGradients<'g> = SmallVec::from_elem(None, rank);
    all.push(Some(node));
    all
}
