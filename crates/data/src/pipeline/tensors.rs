//! FromTensors: rows of tensors in memory.

use thalweg_tensor::Tensor;

use super::iterator::Pipeline;
use super::stage::Stage;
use crate::error::DataError;
use crate::tensor_batches::{examples, row};

/// Rows of tensors. Built by [`from_tensors`].
pub struct FromTensors<const N: usize> {
    tensors: [Tensor; N],
    rows: usize,
    next: usize,
}

/// The rows of tensors: an element is row `i` of each, without its first dimension.
///
/// ```
/// use thalweg_data::pipeline::from_tensors;
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let (x, y) = (Tensor::new(&[2, 3], &[0.5f32; 6])?, Tensor::from([7, 8]));
/// let mut rows = from_tensors([x, y])?;
/// let [x, y] = rows.next().expect("there are two")?;
/// assert_eq!((x.dims(), y.to_scalar::<i32>()?), (&[3][..], 7));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`DataError::Rows`]: the first dimensions differ, or there is none.
pub fn from_tensors<const N: usize>(
    tensors: [Tensor; N],
) -> Result<Pipeline<FromTensors<N>>, DataError> {
    Ok(Pipeline::new(FromTensors {
        rows: examples(&tensors)?,
        tensors,
        next: 0,
    }))
}

impl<const N: usize> Stage for FromTensors<N> {
    type Item = [Tensor; N];

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<[Tensor; N]>, DataError> {
        if self.next == self.rows {
            return Ok(None);
        }
        let mut item = self.tensors.clone();
        for tensor in &mut item {
            *tensor = row(tensor, self.next)?;
        }
        self.next += 1;
        Ok(Some(item))
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = count.min((self.rows - self.next) as u64);
        self.next += passed as usize;
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(Some(self.rows as u64))
    }
}
