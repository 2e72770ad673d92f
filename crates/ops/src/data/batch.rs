//! BatchDataset, BatchDatasetV2, ParallelBatchDataset, MapAndBatchDataset, UnbatchDataset.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{arg_of, bool_attr};
use thalweg_tensor::{DType, Shape, Tensor};

use super::dataset::{
    ARGUMENT_TYPES, ARGUMENTS, Captured, Cardinality, DATASET_OP, Dataset, DatasetValue, F, INPUT,
    METADATA, Row, RowBuffer, Rows, SHAPES, TYPES, flag, input, number, over, positive,
};
use super::functions::DETERMINISTIC;
use crate::flow::rows;

/// Up to `size` elements of a pass; fewer are none if the remainder is dropped.
pub(super) fn take_rows(
    before: &mut dyn Rows,
    cx: &TensorCx<'_>,
    size: usize,
    drop_remainder: bool,
) -> Result<Vec<Row>, KernelError> {
    let (mut kept, mut stop) = (RowBuffer::<Vec<Row>>::new(cx), cx.stop_check());
    while kept.all().len() < size {
        stop.tick()?;
        match before.next(cx)? {
            Some(row) => kept.add(row, Vec::push)?,
            None => break,
        }
    }
    let (mut all, _) = kept.into_parts();
    if drop_remainder && all.len() < size {
        all.clear();
    }
    Ok(all)
}

/// Passes over so many batches, and returns how many there were.
pub(super) fn pass_batches(
    before: &mut dyn Rows,
    cx: &TensorCx<'_>,
    size: usize,
    drop_remainder: bool,
    count: u64,
) -> Result<u64, KernelError> {
    let size = size as u64;
    let passed = before.pass(cx, count.saturating_mul(size))?;
    Ok(match drop_remainder {
        true => passed / size,
        false => passed.div_ceil(size),
    })
}

/// A function puts the same component of all elements into one tensor.
pub(super) fn by_component(
    all: Vec<Row>,
    mut join: impl FnMut(usize, Vec<Tensor>) -> Result<Tensor, KernelError>,
) -> Result<Option<Row>, KernelError> {
    let Some(components) = all.first().map(Vec::len) else {
        return Ok(None);
    };
    let mut columns: Vec<Vec<Tensor>> = (0..components)
        .map(|_| Vec::with_capacity(all.len()))
        .collect();
    for row in all {
        if row.len() != components {
            return Err(KernelError::Invalid(
                "elements of a batch must have as many components each".to_owned(),
            ));
        }
        columns
            .iter_mut()
            .zip(row)
            .for_each(|(column, tensor)| column.push(tensor));
    }
    let joined = columns
        .into_iter()
        .enumerate()
        .map(|(i, column)| join(i, column));
    joined.collect::<Result<Row, _>>().map(Some)
}

/// Elements along a new first dimension.
pub(super) fn stacked(cx: &TensorCx<'_>, all: Vec<Row>) -> Result<Option<Row>, KernelError> {
    by_component(all, |i, column| {
        let first = &column[0];
        let other = column
            .iter()
            .position(|t| (t.dtype(), t.dims()) != (first.dtype(), first.dims()));
        if let Some(at) = other {
            return Err(KernelError::Invalid(format!(
                "component {i} of the batch's element 0 is {}{}, and of element {at} {}{}: make them alike, or use \
                 padded_batch",
                first.dtype(),
                first.shape(),
                column[at].dtype(),
                column[at].shape()
            )));
        }
        rows::stacked(cx.memory(), first.dtype(), &column, &Shape::unknown())
    })
}

struct Batch {
    before: Arc<DatasetValue>,
    /// Function that maps each element before it is batched, if there is one.
    function: Option<Captured>,
    size: usize,
    drop_remainder: bool,
}

impl Dataset for Batch {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(BatchRows {
            before: self.before.dataset.rows(cx)?,
            function: self.function.clone(),
            size: self.size,
            drop_remainder: self.drop_remainder,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        batches(&*self.before.dataset, self.size, self.drop_remainder)
    }
}

/// Number of batches of a data set.
pub(super) fn batches(before: &dyn Dataset, size: usize, drop_remainder: bool) -> Cardinality {
    let size = size as u64;
    before.cardinality().map(|n| match drop_remainder {
        true => n / size,
        false => n.div_ceil(size),
    })
}

struct BatchRows {
    before: Box<dyn Rows>,
    function: Option<Captured>,
    size: usize,
    drop_remainder: bool,
}

impl Rows for BatchRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut all = take_rows(&mut *self.before, cx, self.size, self.drop_remainder)?;
        if let Some(function) = &self.function {
            let made = all.into_iter().map(|row| function.call(cx, row));
            all = made.collect::<Result<_, _>>()?;
        }
        stacked(cx, all)
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        pass_batches(&mut *self.before, cx, self.size, self.drop_remainder, count)
    }
}

/// The op's kernel: the size is input 1, and the flag the one at index `flag_at`, where there is one.
fn batch(cx: &TensorCx<'_>, flag_at: Option<usize>) -> Result<Vec<Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let batch = Batch {
        before: before.clone(),
        function: None,
        size: positive(cx, 1, "batch_size")?,
        drop_remainder: flag_at.map_or(Ok(false), |i| flag(cx, i))?,
    };
    over(&[&before], batch, &[])
}

/// The rows of elements.
struct Unbatch(Arc<DatasetValue>);

impl Dataset for Unbatch {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(UnbatchRows {
            before: self.0.dataset.rows(cx)?,
            batch: Row::new(),
            next: 0,
        }))
    }
}

struct UnbatchRows {
    before: Box<dyn Rows>,
    batch: Row,
    next: usize,
}

impl Rows for UnbatchRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut stop = cx.stop_check();
        while self.batch.first().is_none_or(|t| self.next == t.dims()[0]) {
            stop.tick()?;
            let Some(batch) = self.before.next(cx)? else {
                return Ok(None);
            };
            let count = batch.first().and_then(|t| t.dims().first().copied());
            if batch
                .iter()
                .any(|t| t.dims().first().copied() != count || count.is_none())
            {
                return Err(KernelError::Invalid(
                    "unbatch needs components of one number of rows, and none that is a scalar"
                        .to_owned(),
                ));
            }
            (self.batch, self.next) = (batch, 0);
        }
        let row = |t: &Tensor| {
            let size = t.len() / t.dims()[0];
            rows::slice_elements(cx.memory(), t, self.next * size, &t.dims()[1..])
        };
        let row = self.batch.iter().map(row).collect::<Result<_, _>>()?;
        self.next += 1;
        Ok(Some(row))
    }
}

/// Batches.
pub(crate) static BATCH: Op = Op {
    def: OpDef {
        name: "BatchDataset",
        summary: "The elements of a dataset, batch_size in one; the last one may be smaller.",
        inputs: &[INPUT, number("batch_size")],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| batch(cx, None))],
};

/// As [`BATCH`], and the last one may be dropped.
pub(crate) static BATCH_V2: Op = Op {
    def: OpDef {
        name: "BatchDatasetV2",
        summary: "The elements of a dataset, batch_size in one; a smaller last one is kept or dropped.",
        inputs: &[
            INPUT,
            number("batch_size"),
            arg_of("drop_remainder", DType::Bool),
        ],
        attrs: &[bool_attr("parallel_copy", false), TYPES, SHAPES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| batch(cx, Some(2)))],
};

/// As [`BATCH_V2`].
pub(crate) static PARALLEL_BATCH: Op = Op {
    def: OpDef {
        name: "ParallelBatchDataset",
        summary: "The elements of a dataset, batch_size in one; a smaller last one is kept or dropped.",
        inputs: &[
            INPUT,
            number("batch_size"),
            number("num_parallel_calls"),
            arg_of("drop_remainder", DType::Bool),
        ],
        attrs: &[
            bool_attr("parallel_copy", false),
            TYPES,
            SHAPES,
            DETERMINISTIC,
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| batch(cx, Some(3)))],
};

/// Batches of what a function makes.
pub(crate) static MAP_AND_BATCH: Op = Op {
    def: OpDef {
        name: "MapAndBatchDataset",
        summary: "What a function makes of each element of a dataset, batch_size in one.",
        inputs: &[
            INPUT,
            ARGUMENTS,
            number("batch_size"),
            number("num_parallel_calls"),
            arg_of("drop_remainder", DType::Bool),
        ],
        attrs: &[
            F,
            ARGUMENT_TYPES,
            TYPES,
            SHAPES,
            bool_attr("preserve_cardinality", false),
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let function = Captured::of_arguments(cx, "f", 3)?;
        let held = function.values.clone();
        let first = cx.inputs().saturating_sub(3);
        let batch = Batch {
            before: before.clone(),
            function: Some(function),
            size: positive(cx, first, "batch_size")?,
            drop_remainder: flag(cx, first + 2)?,
        };
        over(&[&before], batch, &held)
    })],
};

/// Rows of elements.
pub(crate) static UNBATCH: Op = Op {
    def: OpDef {
        name: "UnbatchDataset",
        summary: "The rows of the elements of a dataset.",
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        over(&[&before.clone()], Unbatch(before), &[])
    })],
};
