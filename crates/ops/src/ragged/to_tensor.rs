//! RaggedTensorToTensor.

use smallvec::SmallVec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, InputGradients, arg, attr, count_attr, type_attr};
use thalweg_graph::{Attr, AttrKind, GradCx, Infer, InferError, OpDef};
use thalweg_tensor::shape::{checked_elements, elements};
use thalweg_tensor::{DType, Shape, Tensor};

use super::row_splits::{invalid, row_splits};
use crate::array::ArrayOps;
use crate::flow::rows::joined;
use crate::math::broadcast::sum_to;
use crate::support::broadcast_index::BroadcastIndex;
use crate::support::gradient_nodes::{first_size, int_scalar, int_vector, shape_of};
use crate::support::shape_inputs::{invalid_value, partial_shape};
use crate::support::tensors::{AccountedVec, take_slices};

/// A ragged tensor as a dense one.
pub(crate) static TO_TENSOR: Op = Op {
    def: OpDef {
        name: "RaggedTensorToTensor",
        summary: "A ragged tensor as a dense one: rows are padded with a default value, or cut.",
        inputs: &[
            arg("shape", "Tshape"),
            arg("values", "T"),
            arg("default_value", "T"),
            arg("row_partition_tensors", "Tindex").list("num_row_partition_tensors"),
        ],
        outputs: &[arg("result", "T")],
        attrs: &[
            type_attr("T", DType::ELEMENTS),
            type_attr("Tindex", DType::INDICES),
            type_attr("Tshape", DType::INDICES),
            count_attr("num_row_partition_tensors"),
            attr("row_partition_types", AttrKind::Strs),
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(to_tensor)],
};

const FIRST_DIM_SIZE: &[u8] = b"FIRST_DIM_SIZE";

/// Number of dimensions of the result, given that of the values and the types of partitions.
fn rank(values: usize, types: &[Vec<u8>]) -> usize {
    let first = types.first().is_some_and(|kind| kind == FIRST_DIM_SIZE);
    values + types.len() - usize::from(first)
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let types = cx.attrs().strs("row_partition_types");
    let values = cx.shape(1).dims();
    let rank = values.map(|dims| rank(dims.len(), types));
    let mut shape = rank.map_or(Shape::unknown(), Shape::of_rank);
    if let (Some(values), Some(rank)) = (values, rank) {
        let inner = values.get(1..).unwrap_or_default();
        let ragged = rank.saturating_sub(inner.len());
        shape = Shape::partial(vec![None; ragged].into_iter().chain(inner.iter().copied()));
    }
    if let Some(asked) = cx.elements(0).filter(|_| cx.shape(0).rank() == Some(1)) {
        let asked = partial_shape(&asked);
        shape = shape.merge(&asked).ok_or_else(|| {
            invalid_value(
                0,
                format!(
                    "rt_input.shape and shape={asked} are incompatible: rt_input.shape is {shape}"
                ),
            )
        })?;
    }
    cx.set(0, shape);
    Ok(())
}

/// The rows at a level, as ranges of the rows inside.
enum Partition {
    /// Ends of the rows, from 0.
    Splits(Vec<usize>),
    /// The row of each inner row, ascending.
    RowIds(Vec<i64>),
}

impl Partition {
    fn of(cx: &TensorCx<'_>, i: usize, kind: &[u8]) -> Result<Partition, KernelError> {
        match kind {
            b"ROW_SPLITS" => Ok(Partition::Splits(row_splits(cx, i)?)),
            b"VALUE_ROWIDS" => {
                let ids = cx.ints(i)?;
                match ids.is_sorted() && ids.first().is_none_or(|&first| first >= 0) {
                    true => Ok(Partition::RowIds(ids)),
                    false => Err(invalid("value_rowids must ascend from 0 or more")),
                }
            }
            other => Err(invalid(format!(
                "Cannot handle type {}",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// Length of the longest row.
    fn width(&self) -> usize {
        match self {
            Partition::Splits(ends) => {
                let lengths = ends.windows(2).map(|ends| ends[1] - ends[0]);
                lengths.max().unwrap_or(0)
            }
            Partition::RowIds(ids) => {
                let runs = ids.chunk_by(|a, b| a == b);
                runs.map(<[i64]>::len).max().unwrap_or(0)
            }
        }
    }

    /// The place in the result of each inner row, given those of the rows; `None` for those that are cut.
    fn places(
        &self,
        cx: &TensorCx<'_>,
        rows: &[Option<usize>],
        width: usize,
    ) -> Result<AccountedVec<Option<usize>>, KernelError> {
        let inner = match self {
            Partition::Splits(ends) => ends[ends.len() - 1],
            Partition::RowIds(ids) => ids.len(),
        };
        let mut places = AccountedVec::filled(inner, None, cx.memory())?;
        let place = |row: usize, at: usize| {
            let start = rows.get(row).copied().flatten()?;
            (at < width).then_some(start * width + at)
        };
        match self {
            Partition::Splits(ends) => {
                for (row, ends) in ends.windows(2).enumerate() {
                    let own = places[ends[0]..ends[1]].iter_mut().enumerate();
                    own.for_each(|(at, to)| *to = place(row, at));
                }
            }
            Partition::RowIds(ids) => {
                let mut start = 0;
                for run in ids.chunk_by(|a, b| a == b) {
                    let row = run[0] as usize;
                    if row >= rows.len() {
                        return Err(invalid(format!(
                            "Got next_value_rowid={row} which is not less than {}",
                            rows.len()
                        )));
                    }
                    let own = places[start..start + run.len()].iter_mut().enumerate();
                    own.for_each(|(at, to)| *to = place(row, at));
                    start += run.len();
                }
            }
        }
        Ok(places)
    }
}

/// The sizes that the node asks for; `None` for those of the ragged tensor.
fn asked_dims(cx: &TensorCx<'_>, rank: usize) -> Result<Vec<Option<usize>>, KernelError> {
    let asked = cx.ints(0)?;
    match (cx.tensor(0)?.dims(), &asked[..]) {
        ([], [-1]) => return Ok(vec![None; rank]),
        ([], _) => {
            return Err(invalid(
                "The only valid scalar shape tensor is the fully unknown shape specified as -1.",
            ));
        }
        ([length], _) if *length == rank => {}
        (found, _) => {
            return Err(invalid(format!(
                "rt_input.shape and shape={asked:?} are incompatible: rt_input.rank = {rank} but shape.rank = {}",
                found.first().unwrap_or(&0)
            )));
        }
    }
    let size = |size: i64| match size {
        -1 => Ok(None),
        size => usize::try_from(size).map(Some).map_err(|_| {
            invalid(format!(
                "a size of the shape is {size}: give -1, or 0 or more"
            ))
        }),
    };
    asked.into_iter().map(size).collect()
}

fn to_tensor(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let types = cx.attrs().strs("row_partition_types");
    let values = cx.tensor(1)?;
    if types.len() + 3 != cx.inputs() {
        return Err(invalid(format!(
            "there are {} row partitions of {} types",
            cx.inputs() - 3,
            types.len()
        )));
    }
    let [count, inner @ ..] = values.dims() else {
        return Err(invalid(
            "the values of a ragged tensor must not be a scalar",
        ));
    };
    let has_size = types[0] == FIRST_DIM_SIZE;
    let levels = usize::from(has_size)..types.len();
    let partitions = levels.map(|level| Partition::of(cx, level + 3, &types[level]));
    let partitions: Vec<Partition> = partitions.collect::<Result<_, _>>()?;
    let rows = match partitions.first() {
        _ if has_size => usize::try_from(cx.int(3)?).ok(),
        Some(Partition::Splits(ends)) => Some(ends.len() - 1),
        _ => None,
    };
    let rows = rows.ok_or_else(|| {
        invalid("the first row partition must be FIRST_DIM_SIZE with a size, or ROW_SPLITS")
    })?;
    let rank = rank(values.dims().len(), types);
    let asked = asked_dims(cx, rank)?;
    let widths = partitions.iter().map(Partition::width);
    let own = [rows]
        .into_iter()
        .chain(widths)
        .chain(inner.iter().copied());
    let dims: Vec<usize> = own
        .zip(&asked)
        .map(|(own, asked)| asked.unwrap_or(own))
        .collect();
    let ragged = partitions.len() + 1;
    if dims[ragged..] != *inner {
        return Err(invalid(format!(
            "rt_input.shape and shape={asked:?} are incompatible: the inner dimensions of rt_input are {inner:?}"
        )));
    }
    if checked_elements(&dims).is_none_or(|n| n > isize::MAX as usize) {
        return Err(invalid(format!("a tensor of shape {dims:?} is too large")));
    }
    if elements(&dims) == 0 {
        return Ok(vec![joined(cx.memory(), values.dtype(), &[], &dims)?]);
    }
    let mut places = AccountedVec::filled(rows, None, cx.memory())?;
    for (row, place) in places.iter_mut().enumerate().take(dims[0]) {
        *place = Some(row);
    }
    for (partition, &width) in partitions.iter().zip(&dims[1..]) {
        places = partition.places(cx, &places, width)?;
    }
    if places.len() > *count {
        return Err(invalid(format!(
            "Invalid row split size: the row partitions have {} rows, and there are {count} values",
            places.len()
        )));
    }
    // The row of the values for each place; the default is behind them.
    let all = with_default(cx, values, inner)?;
    let mut sources = AccountedVec::filled(elements(&dims[..ragged]), *count, cx.memory())?;
    for (row, place) in places.iter().enumerate() {
        if let Some(place) = *place {
            sources[place] = row;
        }
    }
    Ok(vec![take_slices(
        cx,
        &all,
        &sources,
        elements(inner),
        &dims,
    )?])
}

/// The values, and a slice of the default value after them.
fn with_default(
    cx: &TensorCx<'_>,
    values: &Tensor,
    inner: &[usize],
) -> Result<Tensor, KernelError> {
    let default = cx.tensor(2)?;
    let own = default.dims();
    let fits = own.len() <= inner.len()
        && own
            .iter()
            .rev()
            .zip(inner.iter().rev())
            .all(|(own, size)| own == size || *own == 1);
    if !fits {
        return Err(invalid(format!(
            "default_value.shape={} and rt_input.flat_values.shape={} are incompatible",
            default.shape(),
            values.shape()
        )));
    }
    // Numbers of the default's elements, broadcast to a slice.
    let index = BroadcastIndex::new(&default.shape(), inner);
    let mut places = AccountedVec::filled(elements(inner), 0, cx.memory())?;
    let numbers = places.iter_mut().enumerate();
    numbers.for_each(|(element, place)| *place = index.index(element));
    let slice = take_slices(cx, default, &places, 1, inner)?;
    let dims = [&[values.dims()[0] + 1], inner].concat();
    joined(cx.memory(), values.dtype(), &[values.clone(), slice], &dims)
}

/// The gradients of the places of values; those of all other places belong to the default value.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, values, default, dy) = (g.graph(), g.input(1), g.input(2), g.grad());
    let types = g.attrs().strs("row_partition_types").to_vec();
    let ragged = rank(1, &types) as i64;
    let int = |value| int_scalar(graph, DType::I64, value);
    let vector = |values: &[i64]| int_vector(graph, DType::I32, values);
    let count = first_size(values, DType::I64);
    let numbers = graph.op("Range").input(int(0)).input(count).input(int(1));
    let outer = shape_of(dy, DType::I64).slice(vector(&[0]), vector(&[ragged]));
    let node = graph.op("RaggedTensorToTensor").input(outer);
    let node = node.input(numbers.output()).input(int(-1));
    let node = node.inputs((3..g.inputs()).map(|i| g.input(i)));
    let node = node.attr("num_row_partition_tensors", (g.inputs() - 3) as i64);
    let places = node.attr("row_partition_types", Attr::Strs(types)).output();
    let places = places.reshape(vector(&[-1]));
    // One slice for each place.
    let inner = shape_of(values, DType::I64).slice(vector(&[1]), vector(&[-1]));
    let slices = graph
        .op("ConcatV2")
        .input(shape_of(places, DType::I64))
        .input(inner);
    let slices = dy.reshape(slices.input(int_scalar(graph, DType::I32, 0)).output());
    let sum = |ids, count| {
        let node = graph.op("UnsortedSegmentSum").input(slices).input(ids);
        node.input(count).output()
    };
    let of_values = sum(places, count);
    let padding = sum(int(-1) - places, int(1));
    let of_default = match default.shape().rank() {
        Some(0) => {
            let node = graph.op("Sum").input(padding.reshape(vector(&[-1])));
            node.input(vector(&[0])).output()
        }
        _ => sum_to(padding, default, padding),
    };
    let mut all: InputGradients<'g> = SmallVec::new();
    all.extend([None, Some(of_values), Some(of_default)]);
    all
}
