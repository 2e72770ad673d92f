//! Sources in memory: FromVec, FromFn.

use super::iterator::Pipeline;
use super::stage::Stage;
use crate::error::DataError;

/// Elements of a vector. Built by [`from_vec`].
pub struct FromVec<T> {
    all: Vec<T>,
    next: usize,
}

/// The elements of a vector, as copies.
pub fn from_vec<T: Clone>(all: Vec<T>) -> Pipeline<FromVec<T>> {
    Pipeline::new(FromVec { all, next: 0 })
}

impl<T: Clone> Stage for FromVec<T> {
    type Item = T;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<T>, DataError> {
        let item = self.all.get(self.next).cloned();
        self.next += usize::from(item.is_some());
        Ok(item)
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let left = self.all.len() - self.next;
        let passed = usize::try_from(count).unwrap_or(usize::MAX).min(left);
        self.next += passed;
        Ok(passed as u64)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(Some(self.all.len() as u64))
    }
}

/// Elements of the iterators that a function makes. Built by [`from_fn`].
pub struct FromFn<F, I> {
    make: F,
    running: Option<I>,
}

/// The elements of an iterator. The function makes one for each epoch, whose number it is given.
///
/// ```
/// let numbers = thalweg_data::pipeline::from_fn(|epoch| (0..2).map(move |n| 10 * epoch + n));
/// let all: Result<Vec<u64>, _> = numbers.repeat(Some(2)).collect();
/// assert_eq!(all?, [0, 1, 10, 11]);
/// # Ok::<(), thalweg_data::DataError>(())
/// ```
pub fn from_fn<I: Iterator, F: FnMut(u64) -> I>(make: F) -> Pipeline<FromFn<F, I>> {
    Pipeline::new(FromFn {
        make,
        running: None,
    })
}

impl<I: Iterator, F: FnMut(u64) -> I> Stage for FromFn<F, I> {
    type Item = I::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.running = Some((self.make)(epoch));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<I::Item>, DataError> {
        Ok(self.running.as_mut().and_then(Iterator::next))
    }
}
