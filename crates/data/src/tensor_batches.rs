//! Batches of a program's own tensors: shuffled ones without end, one ordered pass, and a split for validation.

use thalweg_tensor::{DType, Dims, Tensor, TensorError};

use crate::error::DataError;
use crate::shuffle::ShuffledOrder;

/// Shuffled batches without end of tensors that have a row for each example.
///
/// Each epoch serves every example once, in an order that depends on the seed, the epoch's number and the number of
/// examples alone: the same on every platform. An epoch that ends inside a batch is followed by the next one in the same
/// batch, so that every batch is full.
///
/// ```
/// use thalweg_data::{TensorBatches, split};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let x = Tensor::new(&[4, 2], &[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])?;
/// let y = Tensor::from([0i64, 1, 2, 3]);
/// let ([x, y], [held_x, _]) = split([x, y], 0.25, 7)?;
/// assert_eq!((x.dims(), held_x.dims()), (&[3, 2][..], &[1, 2][..]));
///
/// let mut batches = TensorBatches::new([x, y], 2, 7)?;
/// let [x, y] = batches.batch()?;
/// // The rows of an example stay together.
/// assert_eq!(x.to_vec::<f32>()?[0], y.to_vec::<i64>()?[0] as f32);
/// // A training that resumes here sees the same batches.
/// let position = batches.position();
/// let [next, _] = batches.batch()?;
/// batches.seek(position);
/// assert_eq!(batches.batch()?[0], next);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TensorBatches<const N: usize> {
    tensors: [Tensor; N],
    size: usize,
    order: ShuffledOrder,
}

impl<const N: usize> TensorBatches<N> {
    /// Batches of `size` examples, shuffled by `seed`.
    ///
    /// # Errors
    /// [`DataError::Rows`], [`DataError::ZeroBatch`], [`DataError::EmptySplit`], and [`DataError::TooManyExamples`] above
    /// 2^32 - 1 examples.
    pub fn new(tensors: [Tensor; N], size: usize, seed: u64) -> Result<Self, DataError> {
        if size == 0 {
            return Err(DataError::ZeroBatch);
        }
        let order = ShuffledOrder::new(examples(&tensors)?, seed)?;
        Ok(TensorBatches {
            tensors,
            size,
            order,
        })
    }

    /// The number of examples in each batch.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of complete epochs.
    pub fn epoch(&self) -> u64 {
        self.order.epoch()
    }

    /// Number of examples that have been served: the position of the next batch. A checkpoint keeps it, so that a
    /// training resumes with the same examples.
    pub fn position(&self) -> u64 {
        self.order.position()
    }

    /// Moves to a [position](TensorBatches::position), as if so many examples had been served.
    pub fn seek(&mut self, position: u64) {
        self.order.seek(position);
    }

    /// The next batch: of each tensor the rows of the same examples.
    ///
    /// # Errors
    /// [`DataError::Tensor`], where there is no memory for them.
    pub fn batch(&mut self) -> Result<[Tensor; N], DataError> {
        let mut at = reserved(self.size, 1).ok_or_else(|| TensorError::TooLarge {
            dtype: DType::I64,
            dims: [self.size][..].into(),
        })?;
        at.extend((0..self.size).map(|_| self.order.advance()));
        rows_of_all(&self.tensors, &at)
    }
}

/// All examples once, in their order, `size` at a time: the last chunk may be smaller.
///
/// ```
/// use thalweg_data::chunks;
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let sizes: Vec<usize> = chunks([Tensor::from([1, 2, 3])], 2)?
///     .map(|chunk| Ok(chunk?[0].len()))
///     .collect::<Result<_, thalweg_data::DataError>>()?;
/// assert_eq!(sizes, [2, 1]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`DataError::Rows`], [`DataError::ZeroBatch`]. Each chunk: [`DataError::Tensor`], where there is no memory for it.
pub fn chunks<const N: usize>(
    tensors: [Tensor; N],
    size: usize,
) -> Result<impl Iterator<Item = Result<[Tensor; N], DataError>>, DataError> {
    if size == 0 {
        return Err(DataError::ZeroBatch);
    }
    let count = examples(&tensors)?;
    let starts = (0..count).step_by(size);
    Ok(starts.map(move |start| {
        let at: Vec<usize> = (start..count.min(start.saturating_add(size))).collect();
        rows_of_all(&tensors, &at)
    }))
}

/// Examples for training, and the rest for validation: a random part of this size, from 0 to 1, rounded to examples.
/// The seed and the number of examples alone decide which.
///
/// # Errors
/// [`DataError::Rows`], [`DataError::EmptySplit`], [`DataError::TooManyExamples`], and [`DataError::Tensor`] where there
/// is no memory for the copies.
pub fn split<const N: usize>(
    tensors: [Tensor; N],
    validation: f64,
    seed: u64,
) -> Result<([Tensor; N], [Tensor; N]), DataError> {
    let count = examples(&tensors)?;
    let mut order = ShuffledOrder::new(count, seed)?;
    let at: Vec<usize> = (0..count).map(|_| order.advance()).collect();
    // A part that is no number is none.
    let held = (count as f64 * validation.clamp(0.0, 1.0)).round() as usize;
    let (training, validation) = at.split_at(count - held.min(count));
    Ok((
        rows_of_all(&tensors, training)?,
        rows_of_all(&tensors, validation)?,
    ))
}

/// The number of examples: the first dimension of all tensors.
pub(crate) fn examples(tensors: &[Tensor]) -> Result<usize, DataError> {
    let count = tensors.first().and_then(|t| t.dims().first());
    let fits = |t: &Tensor| t.dims().first() == count && !t.dtype().is_handle();
    match count {
        Some(&count) if tensors.iter().all(fits) => Ok(count),
        _ => Err(DataError::Rows {
            shapes: tensors.iter().map(|t| t.dims().to_vec()).collect(),
        }),
    }
}

fn rows_of_all<const N: usize>(
    tensors: &[Tensor; N],
    at: &[usize],
) -> Result<[Tensor; N], DataError> {
    let mut all = tensors.clone();
    for tensor in &mut all {
        *tensor = rows(tensor, at)?;
    }
    Ok(all)
}

/// A row that the tensor has, without the first dimension.
pub(crate) fn row(tensor: &Tensor, at: usize) -> Result<Tensor, DataError> {
    Ok(rows(tensor, &[at])?.reshaped(&tensor.dims()[1..])?)
}

/// The rows of these numbers, each of which the tensor has.
fn rows(tensor: &Tensor, at: &[usize]) -> Result<Tensor, DataError> {
    let mut dims = Dims::from_slice(tensor.dims());
    dims[0] = at.len();
    let no_memory = || TensorError::TooLarge {
        dtype: tensor.dtype(),
        dims: dims[..].into(),
    };
    let count = tensor.dims()[0].max(1);
    if tensor.dtype() == DType::String {
        let all = tensor.as_strings()?;
        let width = all.len() / count;
        let mut rows: Vec<&[u8]> = reserved(at.len(), width).ok_or_else(no_memory)?;
        for &row in at {
            rows.extend(all.range(row * width..(row + 1) * width));
        }
        return Ok(Tensor::strings(&dims, &rows)?);
    }
    let all = tensor.bytes();
    let width = all.len() / count;
    let mut bytes: Vec<u8> = reserved(at.len(), width).ok_or_else(no_memory)?;
    for &row in at {
        bytes.extend_from_slice(&all[row * width..][..width]);
    }
    Ok(Tensor::from_bytes(tensor.dtype(), &dims, &bytes)?)
}

/// An empty vector with room for this many rows; `None` where there is no memory.
fn reserved<T>(rows: usize, width: usize) -> Option<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(rows.checked_mul(width)?).ok()?;
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: i64) -> [Tensor; 3] {
        let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
        let pairs: Vec<f32> = (0..2 * count).map(|i| i as f32).collect();
        let ids: Vec<i64> = (0..count).collect();
        let count = count as usize;
        [
            Tensor::new(&[count, 2], &pairs).unwrap(),
            Tensor::new(&[count], &ids).unwrap(),
            Tensor::strings(&[count], &names).unwrap(),
        ]
    }

    /// The examples of a batch, whose rows have to belong together.
    fn ids([pairs, ids, names]: &[Tensor; 3]) -> Vec<i64> {
        let ids = ids.to_vec::<i64>().unwrap();
        let pairs = pairs.to_vec::<f32>().unwrap();
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!(
                pairs[2 * i..][..2],
                [2.0 * id as f32, 2.0 * id as f32 + 1.0]
            );
            assert_eq!(&names.as_strings().unwrap()[i], format!("n{id}").as_bytes());
        }
        ids
    }

    #[test]
    fn each_epoch_has_every_example_once() {
        let mut batches = TensorBatches::new(table(7), 3, 1).unwrap();
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.extend(ids(&batches.batch().unwrap()));
        }
        assert_eq!((batches.epoch(), batches.position()), (3, 21));
        for epoch in seen.chunks_mut(7) {
            epoch.sort_unstable();
            assert!(epoch.iter().copied().eq(0..7));
        }
    }

    #[test]
    fn a_position_and_a_seed_decide_the_batch() {
        let mut first = TensorBatches::new(table(7), 3, 1).unwrap();
        let batches: Vec<Vec<i64>> = (0..6).map(|_| ids(&first.batch().unwrap())).collect();
        let mut again = TensorBatches::new(table(7), 3, 1).unwrap();
        again.seek(9);
        assert_eq!(ids(&again.batch().unwrap()), batches[3]);
        let mut other = TensorBatches::new(table(7), 3, 2).unwrap();
        let others: Vec<Vec<i64>> = (0..6).map(|_| ids(&other.batch().unwrap())).collect();
        assert_ne!(others, batches);
    }

    #[test]
    fn a_split_divides_the_examples() {
        for (part, held) in [(0.0, 0), (0.3, 3), (1.0, 10), (f64::NAN, 0), (7.0, 10)] {
            let (training, validation) = split(table(10), part, 4).unwrap();
            let (training, validation) = (ids(&training), ids(&validation));
            assert_eq!(validation.len(), held, "{part}");
            let mut all = [training, validation].concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..10));
        }
    }

    #[test]
    fn chunks_are_in_order() {
        let all: Vec<Vec<i64>> = chunks(table(5), 2)
            .unwrap()
            .map(|c| ids(&c.unwrap()))
            .collect();
        assert_eq!(all, [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(chunks(table(0), 2).unwrap().count(), 0);
    }

    #[test]
    fn tensors_that_are_no_examples_are_errors() {
        let wrong = TensorBatches::new([Tensor::from([1, 2]), Tensor::from([1])], 1, 0);
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "tensors of shapes [[2], [1]] are no examples: give tensors of numbers or strings whose first dimensions are equal"
        );
        assert!(TensorBatches::new([Tensor::scalar(1)], 1, 0).is_err());
        assert!(TensorBatches::<0>::new([], 1, 0).is_err());
        // A batch beyond memory.
        let mut huge = TensorBatches::new(table(3), usize::MAX, 0).unwrap();
        assert!(matches!(huge.batch(), Err(DataError::Tensor(_))));
        assert!(matches!(
            TensorBatches::new(table(3), 0, 0),
            Err(DataError::ZeroBatch)
        ));
        assert!(matches!(
            TensorBatches::new(table(0), 1, 0),
            Err(DataError::EmptySplit)
        ));
    }
}
