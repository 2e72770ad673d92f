//! PaddedBatch: batches of tensors of several shapes.

use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, Tensor, TensorError};

use super::Stage;
use crate::error::DataError;

/// Shape and value to which a tensor of a batch is padded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Padding {
    /// The dimensions of an element in the batch; `None` for the largest of the batch. With an empty list, all are.
    pub dims: Vec<Option<usize>>,
    /// A scalar for the elements that are added; zero, or an empty string, if it is `None`.
    pub value: Option<Tensor>,
}

/// Batches of tensors, padded at the end of their dimensions.
pub struct PaddedBatch<G, const N: usize> {
    groups: G,
    padding: [Padding; N],
    /// Number of the batch, for errors.
    number: u64,
}

impl<G, const N: usize> PaddedBatch<G, N> {
    pub(super) fn new(groups: G, padding: [Padding; N]) -> PaddedBatch<G, N> {
        PaddedBatch {
            groups,
            padding,
            number: 0,
        }
    }
}

impl<G: Stage<Item = Vec<[Tensor; N]>>, const N: usize> Stage for PaddedBatch<G, N> {
    type Item = [Tensor; N];

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.number = 0;
        self.groups.start(epoch)
    }

    fn next(&mut self) -> Result<Option<[Tensor; N]>, DataError> {
        let Some(rows) = self.groups.next()? else {
            return Ok(None);
        };
        self.number += 1;
        let mut columns = Vec::with_capacity(N);
        for (at, padding) in self.padding.iter().enumerate() {
            let column: Vec<&Tensor> = rows.iter().map(|row| &row[at]).collect();
            let wrong = |reason| DataError::Batch {
                batch: self.number - 1,
                tensor: at,
                reason,
            };
            columns.push(padding.stack(&column).map_err(wrong)?);
        }
        Ok(columns.try_into().ok())
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.groups.pass(count)?;
        self.number += passed;
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.groups.length()
    }
}

impl Padding {
    /// Tensors along a new first dimension.
    fn stack(&self, rows: &[&Tensor]) -> Result<Tensor, String> {
        let first = rows.first().ok_or("the batch is empty")?;
        let dtype = first.dtype();
        if dtype.is_handle() {
            return Err(format!("{dtype} is no element of a batch"));
        }
        let dims = self.dims_of(rows)?;
        let mut whole = vec![rows.len()];
        whole.extend_from_slice(&dims);
        let too_large = || {
            let shape = Shape::known(&whole);
            format!("there is no memory for a batch of {dtype}{shape}")
        };
        let count = checked_elements(&whole).ok_or_else(too_large)?;
        let value = self.value(dtype)?;
        let made = if dtype == DType::String {
            let value = value.as_strings().map_err(|e| e.to_string())?;
            let mut all: Vec<&[u8]> = vec![value.first().unwrap_or_default(); count];
            for (row, to) in rows
                .iter()
                .zip(all.chunks_exact_mut((count / rows.len()).max(1)))
            {
                let strings = row.as_strings().map_err(|e| e.to_string())?;
                each_run(row.dims(), &dims, |from, at, length| {
                    let strings = strings.range(from..from + length);
                    to[at..at + length]
                        .iter_mut()
                        .zip(strings)
                        .for_each(|(to, s)| *to = s);
                });
            }
            Tensor::strings(&whole, &all)
        } else {
            let size = dtype.size();
            let bytes = count.checked_mul(size).ok_or_else(too_large)?;
            let mut all = Vec::new();
            all.try_reserve_exact(bytes).map_err(|_| too_large())?;
            match self.value {
                None => all.resize(bytes, 0),
                Some(_) => (0..count).for_each(|_| all.extend_from_slice(value.bytes())),
            }
            let row_bytes = bytes / rows.len();
            for (row, to) in rows.iter().zip(all.chunks_exact_mut(row_bytes.max(1))) {
                each_run(row.dims(), &dims, |from, at, length| {
                    let from = &row.bytes()[from * size..][..length * size];
                    to[at * size..][..length * size].copy_from_slice(from);
                });
            }
            Tensor::from_bytes(dtype, &whole, &all)
        };
        made.map_err(|e: TensorError| e.to_string())
    }

    /// The dimensions to which these tensors are padded.
    fn dims_of(&self, rows: &[&Tensor]) -> Result<Vec<usize>, String> {
        let rank = rows[0].dims().len();
        let mut most = vec![0; rank];
        for row in rows {
            if (row.dtype(), row.dims().len()) != (rows[0].dtype(), rank) {
                return Err(format!(
                    "elements are of {}{} and of {}{}: give them one dtype and number of dimensions",
                    rows[0].dtype(),
                    rows[0].shape(),
                    row.dtype(),
                    row.shape()
                ));
            }
            let dims = row.dims().iter();
            most.iter_mut()
                .zip(dims)
                .for_each(|(m, d)| *m = (*m).max(*d));
        }
        if self.dims.is_empty() {
            return Ok(most);
        }
        let known = self.dims.iter().zip(&most);
        if self.dims.len() != rank || known.clone().any(|(d, m)| d.is_some_and(|d| d < *m)) {
            let to = Shape::partial(self.dims.iter().copied());
            let from = Shape::known(&most);
            return Err(format!("elements of up to {from} cannot be padded to {to}"));
        }
        Ok(known.map(|(d, m)| d.unwrap_or(*m)).collect())
    }

    /// The value of the elements that are added.
    fn value(&self, dtype: DType) -> Result<Tensor, String> {
        match &self.value {
            None => Tensor::zeros(dtype, &[]).map_err(|e| e.to_string()),
            Some(value) if value.dtype() == dtype && value.dims().is_empty() => Ok(value.clone()),
            Some(value) => Err(format!(
                "the padding is of {}{}: give a scalar of {dtype}",
                value.dtype(),
                value.shape()
            )),
        }
    }
}

/// Calls a function with each run of elements along the last dimension: its position in a tensor of `dims`, that in a
/// tensor of the larger `to`, and its length.
fn each_run(dims: &[usize], to: &[usize], mut run: impl FnMut(usize, usize, usize)) {
    let Some((&length, outer)) = dims.split_last() else {
        run(0, 0, 1);
        return;
    };
    let runs: usize = outer.iter().product();
    for number in (0..runs).filter(|_| length > 0) {
        let (mut rest, mut at, mut scale) = (number, 0, to[outer.len()]);
        for (dim, to) in outer.iter().zip(to).rev() {
            at += rest % dim * scale;
            rest /= dim;
            scale *= to;
        }
        run(number * length, at, length);
    }
}
