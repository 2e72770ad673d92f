//! TensorDataset, TensorSliceDataset, RangeDataset.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, args_of, bool_attr, types_attr};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use super::dataset::{
    Cardinality, DATASET_OP, Dataset, METADATA, Row, Rows, SHAPES, TYPES, number, source,
};
use crate::flow::rows::slice_elements;

fn components(cx: &TensorCx<'_>) -> Result<Row, KernelError> {
    (0..cx.inputs()).map(|i| cx.held(i)).collect()
}

/// One element.
struct Single(Row);

impl Dataset for Single {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SingleRows(Some(self.0.clone()))))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(1)
    }
}

struct SingleRows(Option<Row>);

impl Rows for SingleRows {
    fn next(&mut self, _: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        Ok(self.0.take())
    }
}

/// The rows of tensors along their first dimension.
struct Slices {
    components: Arc<[Tensor]>,
    count: usize,
}

impl Slices {
    fn new(components: Row) -> Result<Slices, KernelError> {
        let mut count = None;
        for (i, component) in components.iter().enumerate() {
            let Some(&rows) = component.dims().first() else {
                return Err(KernelError::Invalid(format!(
                    "component {i} is a scalar, which has no rows: give it a dimension, or use TensorDataset"
                )));
            };
            let expected = *count.get_or_insert(rows);
            if rows != expected {
                return Err(KernelError::Invalid(format!(
                    "component {i} has {}, and those before it have {expected}: slices need as many of each",
                    counted(rows, "row")
                )));
            }
        }
        Ok(Slices {
            components: components.into(),
            count: count.unwrap_or(0),
        })
    }
}

impl Dataset for Slices {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SliceRows {
            components: self.components.clone(),
            next: 0,
            count: self.count,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.count as u64)
    }
}

struct SliceRows {
    components: Arc<[Tensor]>,
    next: usize,
    count: usize,
}

impl Rows for SliceRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        if self.next == self.count {
            return Ok(None);
        }
        let row = |component: &Tensor| {
            let dims = &component.dims()[1..];
            let size = component.len() / self.count;
            slice_elements(cx.memory(), component, self.next * size, dims)
        };
        let row = self.components.iter().map(row).collect::<Result<_, _>>()?;
        self.next += 1;
        Ok(Some(row))
    }

    fn pass(&mut self, _: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        let passed = count.min((self.count - self.next) as u64);
        self.next += passed as usize;
        Ok(passed)
    }
}

/// The integers from `start` by `step` before `stop`.
#[derive(Clone, Copy)]
struct Range {
    next: i64,
    step: i64,
    left: u64,
    dtype: DType,
}

impl Range {
    fn new(cx: &TensorCx<'_>) -> Result<Range, KernelError> {
        let (start, stop, step) = (cx.int(0)?, cx.int(1)?, cx.int(2)?);
        let dtype = cx.attrs().types("output_types").first().copied();
        let dtype = dtype.unwrap_or(DType::I64);
        let distance = match step {
            0 => return Err(KernelError::Invalid("step must not be 0".to_owned())),
            1.. => i128::from(stop) - i128::from(start),
            _ => i128::from(start) - i128::from(stop),
        };
        // At most 2^64 - 1: the distance of two i64.
        let left = distance.max(0) as u128;
        let left = left.div_ceil(u128::from(step.unsigned_abs())) as u64;
        Ok(Range {
            next: start,
            step,
            left,
            dtype,
        })
    }
}

impl Dataset for Range {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(*self))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.left)
    }
}

impl Rows for Range {
    fn next(&mut self, _: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        if self.left == 0 {
            return Ok(None);
        }
        let value = self.next;
        let value = match self.dtype {
            DType::I64 => Tensor::scalar(value),
            DType::I32 => Tensor::scalar(value as i32),
            DType::I16 => Tensor::scalar(value as i16),
            DType::I8 => Tensor::scalar(value as i8),
            DType::U8 => Tensor::scalar(value as u8),
            DType::U16 => Tensor::scalar(value as u16),
            DType::U32 => Tensor::scalar(value as u32),
            DType::U64 => Tensor::scalar(value as u64),
            DType::F32 => Tensor::scalar(value as f32),
            DType::F64 => Tensor::scalar(value as f64),
            other => return Err(KernelError::DType(other)),
        };
        self.left -= 1;
        self.next = self.next.wrapping_add(self.step);
        Ok(Some(vec![value]))
    }

    fn pass(&mut self, _: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        let passed = count.min(self.left);
        self.left -= passed;
        self.next = self
            .next
            .wrapping_add(self.step.wrapping_mul(passed as i64));
        Ok(passed)
    }
}

const COMPONENT_TYPES: AttrDef = types_attr("Toutput_types");

/// A data set of one element.
pub(crate) static TENSOR: Op = Op {
    def: OpDef {
        name: "TensorDataset",
        summary: "A dataset of one element, which has these components.",
        inputs: &[args_of("components", "Toutput_types")],
        attrs: &[COMPONENT_TYPES, SHAPES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let components = components(cx)?;
        source(Single(components.clone()), &components)
    })],
};

/// A data set of rows.
pub(crate) static TENSOR_SLICE: Op = Op {
    def: OpDef {
        name: "TensorSliceDataset",
        summary: "A dataset of the rows of its components.",
        inputs: &[args_of("components", "Toutput_types")],
        attrs: &[
            COMPONENT_TYPES,
            SHAPES,
            bool_attr("is_files", false),
            METADATA,
            bool_attr("replicate_on_split", false),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let components = components(cx)?;
        source(Slices::new(components.clone())?, &components)
    })],
};

/// A data set of integers.
pub(crate) static RANGE: Op = Op {
    def: OpDef {
        name: "RangeDataset",
        summary: "A dataset of the numbers from start by step before stop.",
        inputs: &[number("start"), number("stop"), number("step")],
        attrs: &[
            TYPES,
            SHAPES,
            METADATA,
            bool_attr("replicate_on_split", false),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| source(Range::new(cx)?, &[]))],
};
