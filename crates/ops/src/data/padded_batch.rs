//! PaddedBatchDataset, PaddedBatchDatasetV2.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, arg_of, args_of, bool_attr, count_attr, types_attr};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Memory, StringTensorBuilder, Tensor, dispatch};

use super::batch::{batches, by_component, take_rows};
use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, Rows, SHAPES, flag,
    input, number, over, positive,
};

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
        let size = self.size as u64;
        let passed = self.before.pass(cx, count.saturating_mul(size))?;
        Ok(match self.drop_remainder {
            true => passed / size,
            false => passed.div_ceil(size),
        })
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
        let size = checked_elements(&inner).ok_or_else(too_large)?;
        checked_elements(&dims).ok_or_else(too_large)?;
        if self.value.dtype() == DType::String {
            let value = &self.value.as_strings()?[0];
            let mut all = StringTensorBuilder::new(&dims, Some(memory))?;
            for tensor in column {
                let from = tensor.as_strings()?;
                let mut next = from.iter();
                for place in Places::new(tensor.dims(), &inner) {
                    let string = if place { next.next() } else { None };
                    all.push(string.unwrap_or(value))?;
                }
            }
            return Ok(all.finish()?);
        }
        let mut all = Tensor::zeros_in(self.value.dtype(), &dims, memory)?;
        dispatch!(self.value.dtype(), PLAIN, T => {
            let value = self.value.to_scalar::<T>()?;
            let to = all.as_mut_slice::<T>()?;
            for (to, tensor) in to.chunks_mut(size.max(1)).zip(column) {
                let mut next = tensor.as_slice::<T>()?.iter();
                for (to, place) in to.iter_mut().zip(Places::new(tensor.dims(), &inner)) {
                    let element = if place { next.next() } else { None };
                    *to = *element.unwrap_or(&value);
                }
            }
        }, else return Err(KernelError::DType(self.value.dtype())));
        Ok(all)
    }
}

/// For each element of a padded tensor in row-major order: `true` if it is one of the tensor within, whose elements
/// come in the same order.
struct Places<'a> {
    inner: &'a [usize],
    outer: &'a [usize],
    index: Vec<usize>,
    left: usize,
}

impl<'a> Places<'a> {
    fn new(inner: &'a [usize], outer: &'a [usize]) -> Places<'a> {
        Places {
            inner,
            outer,
            index: vec![0; outer.len()],
            left: checked_elements(outer).unwrap_or(0),
        }
    }
}

impl Iterator for Places<'_> {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        let within = self.index.iter().zip(self.inner).all(|(i, size)| i < size);
        for (i, size) in self.index.iter_mut().zip(self.outer).rev() {
            *i += 1;
            if *i < *size {
                break;
            }
            *i = 0;
        }
        Some(within)
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
