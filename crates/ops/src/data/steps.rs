//! Values of the steps of sequences, gathered over the examples of a batch: dense, sparse and ragged tensors.

use thalweg_data::example::FeatureList;
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, Tensor};

use super::columns::{Values, row_splits};

/// A feature of each step of a sequence.
pub(super) struct Steps<'a> {
    key: String,
    values: Values<'a>,
    /// Number of values of each step of each example.
    lengths: Vec<usize>,
    /// Number of steps of each example.
    steps: Vec<usize>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(key: String, dtype: DType) -> Result<Steps<'a>, KernelError> {
        Ok(Steps {
            key,
            values: Values::new(dtype)?,
            lengths: Vec::new(),
            steps: Vec::new(),
        })
    }

    /// Adds the steps of the next example. A step without a list of values has none.
    pub(super) fn add(&mut self, list: Option<FeatureList<'a>>) -> Result<(), KernelError> {
        let (example, before) = (self.steps.len(), self.lengths.len());
        for step in list.into_iter().flatten() {
            let length = match step {
                Some(feature) => self.values.add(&feature, &self.key, example)?,
                None => 0,
            };
            self.lengths.push(length);
        }
        self.steps.push(self.lengths.len() - before);
        Ok(())
    }

    fn most_steps(&self) -> usize {
        self.steps.iter().max().copied().unwrap_or(0)
    }

    /// The indices, the values and the shape of a sparse tensor.
    pub(super) fn sparse(
        &self,
        cx: &TensorCx<'_>,
        batched: bool,
    ) -> Result<[Tensor; 3], KernelError> {
        let rank = 2 + usize::from(batched);
        let mut indices = Vec::with_capacity(self.values.len() * rank);
        let mut lengths = self.lengths.iter();
        for (example, &steps) in self.steps.iter().enumerate() {
            for (step, &length) in lengths.by_ref().take(steps).enumerate() {
                for at in 0..length {
                    indices.extend(batched.then_some(example as i64));
                    indices.extend([step as i64, at as i64]);
                }
            }
        }
        let longest = self.lengths.iter().max().copied().unwrap_or(0);
        let batch = batched.then_some(self.steps.len() as i64);
        let sizes = [self.most_steps() as i64, longest as i64];
        let shape: Vec<i64> = batch.into_iter().chain(sizes).collect();
        Ok([
            cx.tensor_of(&[self.values.len(), rank], &indices)?,
            self.values.tensor(cx, &[self.values.len()])?,
            cx.tensor_of(&[rank], &shape)?,
        ])
    }

    /// The values of a ragged tensor, its row splits over examples and those over steps. Without a batch, there are no
    /// splits over examples.
    pub(super) fn ragged(
        &self,
        cx: &TensorCx<'_>,
        splits: DType,
        batched: bool,
    ) -> Result<[Tensor; 3], KernelError> {
        Ok([
            self.values.tensor(cx, &[self.values.len()])?,
            match batched {
                true => row_splits(cx, &self.key, splits, &self.steps)?,
                false => cx.zeros(splits, &[0])?,
            },
            row_splits(cx, &self.key, splits, &self.lengths)?,
        ])
    }

    /// Steps of one shape, padded at the end with zeros or empty strings to the longest sequence; the number of steps
    /// of each example.
    pub(super) fn dense(
        &self,
        cx: &TensorCx<'_>,
        shape: &Shape,
        batched: bool,
    ) -> Result<[Tensor; 2], KernelError> {
        let wrong = || {
            KernelError::Invalid(format!(
                "the shape {shape} of a step of feature '{}' must be known",
                self.key
            ))
        };
        let dims = shape.to_dims().ok_or_else(wrong)?;
        let row = checked_elements(&dims).ok_or_else(wrong)?;
        if let Some(step) = self.lengths.iter().position(|&length| length != row) {
            return Err(KernelError::Invalid(format!(
                "a step of feature '{}' has {} values, and its shape {shape} needs {row}: parse it as sparse or ragged \
                 if steps differ",
                self.key, self.lengths[step]
            )));
        }
        let most = self.most_steps();
        let batch = batched.then_some(self.steps.len());
        let all: Vec<usize> = batch
            .into_iter()
            .chain([most])
            .chain(dims.iter().copied())
            .collect();
        let elements = checked_elements(&all).ok_or_else(|| {
            KernelError::Invalid(format!(
                "feature '{}' of this batch would have the shape {all:?}",
                self.key
            ))
        })?;
        let _held = crate::support::tensors::reserved(
            elements.saturating_mul(size_of::<&[u8]>()),
            Some(cx.memory()),
        )?;
        let mut padded = Values::new(self.values.dtype())?;
        let mut at = 0;
        for &steps in &self.steps {
            padded.add_part(&self.values, at..at + steps * row);
            padded.add_repeated(None, (most - steps) * row)?;
            at += steps * row;
        }
        let lengths: Vec<i64> = self.steps.iter().map(|&steps| steps as i64).collect();
        Ok([
            padded.tensor(cx, &all)?,
            cx.tensor_of(batch.as_slice(), &lengths)?,
        ])
    }
}
