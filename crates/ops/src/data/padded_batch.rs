//! PaddedBatchDataset, PaddedBatchDatasetV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, arg_of, args_of, bool_attr, count_attr, types_attr};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Memory, Tensor};

use super::batch::{batches, by_component, pass_batches, take_rows};
use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, Rows, SHAPES, flag,
    input, number, over, positive,
};
use crate::flow::rows::joined;
use crate::support::padding::padded;

/// The padding of one component.
struct Padding {
    /// The size of each dimension; `None` for the largest of the batch.
    sizes: Vec<Option<usize>>,
    value: Tensor,
}

struct PaddedBatch {
    before: Arc<DatasetValue>,
    size: usize,
    paddings: Arc<[Padding]>,
    drop_remainder: bool,
}

impl Dataset for PaddedBatch {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(PaddedRows {
            before: self.before.dataset.rows(cx)?,
            size: self.size,
            paddings: self.paddings.clone(),
            drop_remainder: self.drop_remainder,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        batches(&*self.before.dataset, self.size, self.drop_remainder)
    }
}

struct PaddedRows {
    before: Box<dyn Rows>,
    size: usize,
    paddings: Arc<[Padding]>,
    drop_remainder: bool,
}

impl Rows for PaddedRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let all = take_rows(&mut *self.before, cx, self.size, self.drop_remainder)?;
        by_component(all, |i, column| {
            let padding = self.paddings.get(i).ok_or_else(|| {
                KernelError::Invalid(format!(
                    "component {i} has no padded shape: give one for each component"
                ))
            })?;
            padding.batch(cx.memory(), i, &column)
        })
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        pass_batches(&mut *self.before, cx, self.size, self.drop_remainder, count)
    }
}

impl Padding {
    /// The dimensions of each padded element of component `i`.
    fn dims(&self, i: usize, column: &[Tensor]) -> Result<Vec<usize>, KernelError> {
        let mut dims: Vec<usize> = self.sizes.iter().map(|size| size.unwrap_or(0)).collect();
        for (at, tensor) in column.iter().enumerate() {
            if tensor.dims().len() != dims.len() || tensor.dtype() != self.value.dtype() {
                return Err(KernelError::Invalid(format!(
                    "component {i} of element {at} is {}{}, and its padded shape has {} dimensions of {}",
                    tensor.dtype(),
                    tensor.shape(),
                    dims.len(),
                    self.value.dtype()
                )));
            }
            for (d, &size) in tensor.dims().iter().enumerate() {
                match self.sizes[d] {
                    Some(most) if size > most => {
                        return Err(KernelError::Invalid(format!(
                            "component {i} of element {at} has size {size} in dimension {d}, which is more than its \
                             padded size {most}"
                        )));
                    }
                    Some(_) => {}
                    None => dims[d] = dims[d].max(size),
                }
            }
        }
        Ok(dims)
    }

    fn batch(
        &self,
        memory: &Arc<Memory>,
        i: usize,
        column: &[Tensor],
    ) -> Result<Tensor, KernelError> {
        let inner = self.dims(i, column)?;
        let dims = [&[column.len()], &inner[..]].concat();
        let too_large =
            || KernelError::Invalid(format!("a batch of shape {dims:?} has too many elements"));
        checked_elements(&dims).ok_or_else(too_large)?;
        let items = column
            .iter()
            .map(|t| padded(memory, t, &inner, Some(&self.value)));
        let items = items.collect::<Result<Row, _>>()?;
        joined(memory, self.value.dtype(), &items, &dims)
    }
}

/// The op's kernel.
fn padded_batch(cx: &TensorCx<'_>, has_flag: bool) -> Result<Vec<Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let count = cx.attrs().types("Toutput_types").len();
    let mut paddings = Vec::with_capacity(count);
    for i in 0..count {
        let sizes = cx.ints(2 + i)?.into_iter().map(|d| match d {
            -1 => Ok(None),
            _ => usize::try_from(d).map(Some).map_err(|_| {
                KernelError::Invalid(format!(
                    "the padded shape of component {i} has {d}: use -1 for an unknown size"
                ))
            }),
        });
        let value = cx.held(2 + count + i)?;
        if !value.dims().is_empty() {
            return Err(KernelError::Invalid(format!(
                "the padding value of component {i} must be a scalar, and has shape {}",
                value.shape()
            )));
        }
        paddings.push(Padding {
            sizes: sizes.collect::<Result<_, _>>()?,
            value,
        });
    }
    let held: Row = paddings.iter().map(|p| p.value.clone()).collect();
    let batch = PaddedBatch {
        before: before.clone(),
        size: positive(cx, 1, "batch_size")?,
        paddings: paddings.into(),
        drop_remainder: has_flag && flag(cx, cx.inputs() - 1)?,
    };
    over(&[&before], batch, &held)
}

const PADDED_SHAPES: Arg = number("padded_shapes").list("N");
const PADDING_VALUES: Arg = args_of("padding_values", "Toutput_types");
const COMPONENT_TYPES: AttrDef = types_attr("Toutput_types");

/// Batches of elements of different shapes.
pub(crate) static PADDED_BATCH: Op = Op {
    def: OpDef {
        name: "PaddedBatchDataset",
        summary: "The elements of a dataset, padded to one shape, batch_size in one.",
        inputs: &[INPUT, number("batch_size"), PADDED_SHAPES, PADDING_VALUES],
        attrs: &[COMPONENT_TYPES, SHAPES, count_attr("N"), METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| padded_batch(cx, false))],
};

/// As [`PADDED_BATCH`], and the last one may be dropped.
pub(crate) static PADDED_BATCH_V2: Op = Op {
    def: OpDef {
        name: "PaddedBatchDatasetV2",
        summary: "The elements of a dataset, padded to one shape, batch_size in one; a smaller last one is kept or dropped.",
        inputs: &[
            INPUT,
            number("batch_size"),
            PADDED_SHAPES,
            PADDING_VALUES,
            arg_of("drop_remainder", DType::Bool),
        ],
        attrs: &[
            bool_attr("parallel_copy", false),
            COMPONENT_TYPES,
            SHAPES,
            count_attr("N"),
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| padded_batch(cx, true))],
};
