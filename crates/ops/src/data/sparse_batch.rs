//! DenseToSparseBatchDataset.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_tensor::{DType, Tensor};

use super::batch::{batches, pass_batches, take_rows};
use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, Row, Rows, SHAPES, TYPES, input, number,
    over, positive,
};
use super::packed_tensors::packed;
use crate::flow::rows::joined;

/// Batches as sparse tensors, in which each element of a dense one is an entry.
struct SparseBatch {
    before: Arc<DatasetValue>,
    size: usize,
    /// The sizes of an element; `None` for the largest of the batch.
    row_shape: Arc<[Option<usize>]>,
}

impl Dataset for SparseBatch {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(SparseRows {
            before: self.before.dataset.rows(cx)?,
            size: self.size,
            row_shape: self.row_shape.clone(),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        batches(&*self.before.dataset, self.size, false)
    }
}

struct SparseRows {
    before: Box<dyn Rows>,
    size: usize,
    row_shape: Arc<[Option<usize>]>,
}

impl SparseRows {
    /// The dense shape of a batch of these elements.
    fn shape(&self, all: &[Tensor]) -> Result<Vec<i64>, KernelError> {
        let mut shape = vec![all.len() as i64];
        shape.extend(self.row_shape.iter().map(|size| size.unwrap_or(0) as i64));
        for (i, element) in all.iter().enumerate() {
            if element.dims().len() != self.row_shape.len() {
                return Err(KernelError::Invalid(format!(
                    "element {i} of the batch has shape {}, which is incompatible with the row shape: it has {} dimensions",
                    element.shape(),
                    self.row_shape.len()
                )));
            }
            let sides = self.row_shape.iter().zip(&mut shape[1..]);
            for ((most, side), &size) in sides.zip(element.dims()) {
                match most {
                    Some(most) if size > *most => {
                        return Err(KernelError::Invalid(format!(
                            "element {i} of the batch has shape {}, which is larger than the row shape: it has {most} at most in a dimension",
                            element.shape()
                        )));
                    }
                    Some(_) => {}
                    None => *side = (*side).max(size as i64),
                }
            }
        }
        Ok(shape)
    }

    /// The places of the elements' numbers: the element, and the place in it.
    fn indices(&self, cx: &TensorCx<'_>, all: &[Tensor]) -> Result<Tensor, KernelError> {
        let rank = self.row_shape.len() + 1;
        let count = all.iter().map(Tensor::len).fold(0, usize::saturating_add);
        let mut places = cx.zeros(DType::I64, &[count, rank])?;
        let to = places.as_mut_slice::<i64>()?;
        let (mut rows, mut stop) = (to.chunks_exact_mut(rank), cx.stop_check());
        for (number, element) in all.iter().enumerate() {
            let mut place = vec![0; element.dims().len()];
            for to in rows.by_ref().take(element.len()) {
                stop.tick()?;
                to[0] = number as i64;
                to[1..].copy_from_slice(&place);
                for (at, &size) in place.iter_mut().zip(element.dims()).rev() {
                    *at += 1;
                    if (*at as usize) < size {
                        break;
                    }
                    *at = 0;
                }
            }
        }
        Ok(places)
    }
}

impl Rows for SparseRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let rows = take_rows(&mut *self.before, cx, self.size, false)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let [element] = <[Tensor; 1]>::try_from(row).map_err(|row| {
                KernelError::Invalid(format!(
                    "an element has {} components: a sparse batch takes one",
                    row.len()
                ))
            })?;
            all.push(element);
        }
        let (shape, dtype) = (self.shape(&all)?, all[0].dtype());
        if let Some(other) = all.iter().find(|element| element.dtype() != dtype) {
            return Err(KernelError::Invalid(format!(
                "the elements of a batch must have one dtype, and have {dtype} and {}",
                other.dtype()
            )));
        }
        let count = all.iter().map(Tensor::len).sum();
        let parts = [
            self.indices(cx, &all)?,
            joined(cx.memory(), dtype, &all, &[count])?,
            cx.tensor_of(&[shape.len()], &shape)?,
        ];
        let parts = parts.map(|part| packed(vec![part]));
        let parts = parts
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?
            .into_iter();
        let memory = Some(cx.memory());
        Ok(Some(vec![Tensor::handles(
            DType::Variant,
            &[3],
            parts,
            memory,
        )?]))
    }

    fn pass(&mut self, cx: &TensorCx<'_>, count: u64) -> Result<u64, KernelError> {
        pass_batches(&mut *self.before, cx, self.size, false, count)
    }
}

/// Batches as sparse tensors.
pub(crate) static DENSE_TO_SPARSE_BATCH: Op = Op {
    def: OpDef {
        name: "DenseToSparseBatchDataset",
        summary: "The elements of a dataset, batch_size in a sparse tensor; they may have different shapes.",
        inputs: &[INPUT, number("batch_size"), number("row_shape")],
        attrs: &[TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let sizes = cx.ints(2)?.into_iter().map(|size| match size {
            -1 => Ok(None),
            _ => usize::try_from(size).map(Some).map_err(|_| {
                KernelError::Invalid(format!(
                    "Dimension {size} must be >= 0: row_shape has -1 for a size that is not known"
                ))
            }),
        });
        let batch = SparseBatch {
            before: before.clone(),
            size: positive(cx, 1, "batch_size")?,
            row_shape: sizes.collect::<Result<_, _>>()?,
        };
        over(&[&before], batch, &[])
    })],
};
