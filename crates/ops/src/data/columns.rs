//! Values of features, gathered over the examples of a batch: dense, sparse and ragged tensors.

use thalweg_data::example::Feature;
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, Strings, Tensor};

/// Values of one dtype.
pub(super) enum Values<'a> {
    Strings(Vec<&'a [u8]>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

impl<'a> Values<'a> {
    /// No values of a dtype that features have.
    pub(super) fn new(dtype: DType) -> Result<Values<'a>, KernelError> {
        match dtype {
            DType::String => Ok(Values::Strings(Vec::new())),
            DType::F32 => Ok(Values::Floats(Vec::new())),
            DType::I64 => Ok(Values::Ints(Vec::new())),
            other => Err(KernelError::DType(other)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Values::Strings(all) => all.len(),
            Values::Floats(all) => all.len(),
            Values::Ints(all) => all.len(),
        }
    }

    pub(super) fn dtype(&self) -> DType {
        match self {
            Values::Strings(_) => DType::String,
            Values::Floats(_) => DType::F32,
            Values::Ints(_) => DType::I64,
        }
    }

    /// Adds the values of a feature, and returns how many there are.
    pub(super) fn add(
        &mut self,
        feature: &Feature<'a>,
        key: &str,
        example: usize,
    ) -> Result<usize, KernelError> {
        let before = self.len();
        match (&mut *self, feature) {
            (Values::Strings(all), Feature::Bytes(list)) => all.extend(list.clone()),
            (Values::Floats(all), Feature::Floats(list)) => all.extend(list.clone()),
            (Values::Ints(all), Feature::Ints(list)) => all.extend(list.clone()),
            (_, found) => {
                let found = match found {
                    Feature::Bytes(_) => DType::String,
                    Feature::Floats(_) => DType::F32,
                    Feature::Ints(_) => DType::I64,
                };
                return Err(KernelError::Invalid(format!(
                    "feature '{key}' of example {example} has values of {found}, and is parsed as {}: change its dtype",
                    self.dtype()
                )));
            }
        }
        Ok(self.len() - before)
    }

    /// Adds the values of a tensor.
    pub(super) fn add_tensor(&mut self, tensor: &'a Tensor) -> Result<(), KernelError> {
        match self {
            Values::Strings(all) => all.extend(tensor.as_strings()?),
            Values::Floats(all) => all.extend(tensor.as_slice::<f32>()?),
            Values::Ints(all) => all.extend(tensor.as_slice::<i64>()?),
        }
        Ok(())
    }

    /// Adds a value of a tensor of one element so many times.
    pub(super) fn add_repeated(
        &mut self,
        tensor: Option<&'a Tensor>,
        count: usize,
    ) -> Result<(), KernelError> {
        match self {
            Values::Strings(all) => {
                let value = tensor
                    .map(Tensor::as_strings)
                    .transpose()?
                    .and_then(Strings::first);
                all.extend(std::iter::repeat_n(value.unwrap_or_default(), count));
            }
            Values::Floats(all) => {
                let value = tensor.map(Tensor::to_scalar::<f32>).transpose()?;
                all.extend(std::iter::repeat_n(value.unwrap_or(0.0), count));
            }
            Values::Ints(all) => {
                let value = tensor.map(Tensor::to_scalar::<i64>).transpose()?;
                all.extend(std::iter::repeat_n(value.unwrap_or(0), count));
            }
        }
        Ok(())
    }

    pub(super) fn tensor(&self, cx: &TensorCx<'_>, dims: &[usize]) -> Result<Tensor, KernelError> {
        match self {
            Values::Strings(all) => cx.strings_of(dims, all),
            Values::Floats(all) => cx.tensor_of(dims, all),
            Values::Ints(all) => cx.tensor_of(dims, all),
        }
    }
}

/// A feature that every example of a batch has with the same shape.
pub(super) struct Dense<'a> {
    key: String,
    /// The sizes of an example's value; the first is `None` where examples differ in it.
    sizes: Vec<Option<usize>>,
    /// Number of elements of a row along the first size.
    row: usize,
    /// The value of an example that does not have the feature; the padding where examples differ in size.
    default: &'a Tensor,
    values: Values<'a>,
    /// Number of values of each example.
    lengths: Vec<usize>,
}

impl<'a> Dense<'a> {
    pub(super) fn new(
        key: String,
        dtype: DType,
        shape: &Shape,
        default: &'a Tensor,
    ) -> Result<Dense<'a>, KernelError> {
        let wrong = || {
            KernelError::Invalid(format!(
                "the shape {shape} of dense feature '{key}' must be known, but for its first size"
            ))
        };
        let sizes: Vec<Option<usize>> = shape.dims().ok_or_else(wrong)?.to_vec();
        let rest: Option<Vec<usize>> = sizes.iter().skip(1).copied().collect();
        let row = checked_elements(&rest.ok_or_else(wrong)?).ok_or_else(wrong)?;
        Ok(Dense {
            row,
            values: Values::new(dtype)?,
            lengths: Vec::new(),
            key,
            sizes,
            default,
        })
    }

    fn varies(&self) -> bool {
        matches!(self.sizes[..], [None, ..])
    }

    /// Adds the feature of the next example.
    pub(super) fn add(&mut self, feature: Option<&Feature<'a>>) -> Result<(), KernelError> {
        let example = self.lengths.len();
        let count = self
            .row
            .saturating_mul(self.sizes.first().copied().flatten().unwrap_or(1));
        let length = match feature {
            Some(feature) => self.values.add(feature, &self.key, example)?,
            None if self.varies() => 0,
            None if !self.default.is_empty() => {
                self.values.add_tensor(self.default)?;
                self.default.len()
            }
            None => {
                return Err(KernelError::Invalid(format!(
                    "example {example} does not have feature '{}': give it a default value, or parse it as sparse",
                    self.key
                )));
            }
        };
        let fits = match self.varies() {
            true => length.is_multiple_of(self.row.max(1)),
            false => length == count,
        };
        if !fits {
            return Err(KernelError::Invalid(format!(
                "feature '{}' of example {example} has {length} values, and its shape needs {}{count}",
                self.key,
                if self.varies() { "a multiple of " } else { "" }
            )));
        }
        self.lengths.push(length);
        Ok(())
    }

    /// The batch, or the value of the only example.
    pub(super) fn finish(self, cx: &TensorCx<'_>, batched: bool) -> Result<Tensor, KernelError> {
        let first = match self.varies() {
            true => Some(self.lengths.iter().max().copied().unwrap_or(0) / self.row.max(1)),
            false => self.sizes.first().copied().flatten(),
        };
        let sizes = first
            .into_iter()
            .chain(self.sizes.iter().skip(1).copied().flatten());
        let batch = batched.then_some(self.lengths.len());
        let dims: Vec<usize> = batch.into_iter().chain(sizes).collect();
        if !self.varies() {
            return self.values.tensor(cx, &dims);
        }
        let all = checked_elements(&dims).ok_or_else(|| {
            KernelError::Invalid(format!(
                "feature '{}' of this batch would have the shape {dims:?}",
                self.key
            ))
        })?;
        let _held = crate::support::tensors::reserved(
            all.saturating_mul(size_of::<i64>()),
            Some(cx.memory()),
        )?;
        let longest = self.lengths.iter().max().copied().unwrap_or(0);
        let padding = (!self.default.is_empty()).then_some(self.default);
        let mut padded = Values::new(self.values.dtype())?;
        let mut at = 0;
        for &length in &self.lengths {
            padded.add_part(&self.values, at..at + length);
            padded.add_repeated(padding, longest - length)?;
            at += length;
        }
        padded.tensor(cx, &dims)
    }
}

impl<'a> Values<'a> {
    /// Adds a range of other values of the dtype.
    pub(super) fn add_part(&mut self, other: &Values<'a>, range: std::ops::Range<usize>) {
        match (self, other) {
            (Values::Strings(all), Values::Strings(other)) => all.extend_from_slice(&other[range]),
            (Values::Floats(all), Values::Floats(other)) => all.extend_from_slice(&other[range]),
            (Values::Ints(all), Values::Ints(other)) => all.extend_from_slice(&other[range]),
            _ => {}
        }
    }
}

/// A feature of which examples have different numbers of values.
pub(super) struct Varying<'a> {
    key: String,
    values: Values<'a>,
    lengths: Vec<usize>,
}

impl<'a> Varying<'a> {
    pub(super) fn new(key: String, dtype: DType) -> Result<Varying<'a>, KernelError> {
        Ok(Varying {
            key,
            values: Values::new(dtype)?,
            lengths: Vec::new(),
        })
    }

    /// Adds the feature of the next example.
    pub(super) fn add(&mut self, feature: Option<&Feature<'a>>) -> Result<(), KernelError> {
        let example = self.lengths.len();
        let length = match feature {
            Some(feature) => self.values.add(feature, &self.key, example)?,
            None => 0,
        };
        self.lengths.push(length);
        Ok(())
    }

    /// The indices, the values and the shape of a sparse tensor.
    pub(super) fn sparse(
        &self,
        cx: &TensorCx<'_>,
        batched: bool,
    ) -> Result<[Tensor; 3], KernelError> {
        let mut indices = Vec::with_capacity(self.values.len() * (1 + usize::from(batched)));
        for (example, &length) in self.lengths.iter().enumerate() {
            for at in 0..length {
                indices.extend(batched.then_some(example as i64));
                indices.push(at as i64);
            }
        }
        let longest = self.lengths.iter().max().copied().unwrap_or(0) as i64;
        let batch = batched.then_some(self.lengths.len() as i64);
        let shape: Vec<i64> = batch.into_iter().chain([longest]).collect();
        Ok([
            cx.tensor_of(&[self.values.len(), shape.len()], &indices)?,
            self.values.tensor(cx, &[self.values.len()])?,
            cx.tensor_of(&[shape.len()], &shape)?,
        ])
    }

    /// The values and the row splits of a ragged tensor; there are no splits without a batch.
    pub(super) fn ragged(
        &self,
        cx: &TensorCx<'_>,
        splits: DType,
        batched: bool,
    ) -> Result<[Tensor; 2], KernelError> {
        let splits = match batched {
            true => row_splits(cx, &self.key, splits, &self.lengths)?,
            false => cx.zeros(splits, &[0])?,
        };
        Ok([self.values.tensor(cx, &[self.values.len()])?, splits])
    }
}

/// The row splits of rows of these lengths.
pub(super) fn row_splits(
    cx: &TensorCx<'_>,
    key: &str,
    dtype: DType,
    lengths: &[usize],
) -> Result<Tensor, KernelError> {
    let ends = lengths.iter().scan(0i64, |end, &length| {
        *end += length as i64;
        Some(*end)
    });
    let ends: Vec<i64> = std::iter::once(0).chain(ends).collect();
    if dtype != DType::I32 {
        return cx.tensor_of(&[ends.len()], &ends);
    }
    let narrow: Result<Vec<i32>, _> = ends.iter().map(|&end| i32::try_from(end)).collect();
    let narrow = narrow.map_err(|_| {
        KernelError::Invalid(format!(
            "feature '{key}' has more values than an i32 counts: ask for i64 as its splits"
        ))
    })?;
    cx.tensor_of(&[narrow.len()], &narrow)
}
