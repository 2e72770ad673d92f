//! Operators of groups: Group, Batch.

use thalweg_tensor::{DType, Tensor};

use super::Stage;
use crate::error::DataError;

/// The last elements, if they do not fill a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// They are a smaller group.
    Keep,
    /// They are left out.
    Drop,
}

impl Remainder {
    /// Number of groups of so many elements.
    fn groups(self, elements: u64, size: u64) -> u64 {
        let size = size.max(1);
        match self {
            Remainder::Keep => elements.div_ceil(size),
            Remainder::Drop => elements / size,
        }
    }
}

/// Vectors of elements.
pub struct Group<S> {
    before: S,
    size: usize,
    remainder: Remainder,
}

impl<S> Group<S> {
    pub(super) fn new(before: S, size: usize, remainder: Remainder) -> Group<S> {
        Group {
            before,
            size,
            remainder,
        }
    }
}

impl<S: Stage> Stage for Group<S> {
    type Item = Vec<S::Item>;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        match self.size {
            0 => Err(DataError::ZeroBatch),
            _ => self.before.start(epoch),
        }
    }

    fn next(&mut self) -> Result<Option<Vec<S::Item>>, DataError> {
        let mut all = Vec::new();
        while all.len() < self.size {
            match self.before.next()? {
                Some(item) => all.push(item),
                None => break,
            }
        }
        let whole = all.len() == self.size;
        let kept = whole || (self.remainder == Remainder::Keep && !all.is_empty());
        Ok(kept.then_some(all))
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let size = self.size as u64;
        let passed = self.before.pass(count.saturating_mul(size))?;
        Ok(self.remainder.groups(passed, size))
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let size = self.size as u64;
        Ok(self
            .before
            .length()?
            .map(|n| self.remainder.groups(n, size)))
    }
}

/// Batches of tensors.
pub struct Batch<S, const N: usize> {
    group: Group<S>,
    /// Number of the batch, for errors.
    number: u64,
}

impl<S, const N: usize> Batch<S, N> {
    pub(super) fn new(before: S, size: usize, remainder: Remainder) -> Batch<S, N> {
        Batch {
            group: Group::new(before, size, remainder),
            number: 0,
        }
    }
}

impl<S: Stage<Item = [Tensor; N]>, const N: usize> Stage for Batch<S, N> {
    type Item = [Tensor; N];

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.number = 0;
        self.group.start(epoch)
    }

    fn next(&mut self) -> Result<Option<[Tensor; N]>, DataError> {
        let Some(rows) = self.group.next()? else {
            return Ok(None);
        };
        self.number += 1;
        let mut columns = Vec::with_capacity(N);
        for at in 0..N {
            let column: Vec<&Tensor> = rows.iter().map(|row| &row[at]).collect();
            let wrong = |reason| DataError::Batch {
                batch: self.number - 1,
                tensor: at,
                reason,
            };
            columns.push(stack(&column).map_err(wrong)?);
        }
        Ok(columns.try_into().ok())
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.group.pass(count)?;
        self.number += passed;
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.group.length()
    }
}

/// Tensors of one dtype and shape along a new first dimension.
fn stack(rows: &[&Tensor]) -> Result<Tensor, String> {
    let first = rows[0];
    let other = rows
        .iter()
        .find(|t| (t.dtype(), t.dims()) != (first.dtype(), first.dims()));
    if let Some(other) = other {
        return Err(format!(
            "elements are of {}{} and of {}{}: make them alike, or use Pipeline::group",
            first.dtype(),
            first.shape(),
            other.dtype(),
            other.shape()
        ));
    }
    let dims = [&[rows.len()], first.dims()].concat();
    let made = match first.dtype() {
        DType::String => {
            let mut all: Vec<&[u8]> = Vec::new();
            for row in rows {
                all.extend(row.as_strings().map_err(|e| e.to_string())?);
            }
            Tensor::strings(&dims, &all)
        }
        dtype if dtype.is_handle() => return Err(format!("{dtype} is no element of a batch")),
        dtype => {
            let bytes: Vec<&[u8]> = rows.iter().map(|row| row.bytes()).collect();
            Tensor::from_bytes(dtype, &dims, &bytes.concat())
        }
    };
    made.map_err(|e| e.to_string())
}
