//! Builder of string tensors, which counts their bytes against a memory.

use std::sync::Arc;

use super::error::TensorError;
use super::storage::{STRING_OVERHEAD, StringStorage};
use super::string_list::Strings;
use super::value::{Data, Tensor};
use crate::buffer::Memory;
use crate::dtype::DType;
use crate::reservation::Reservation;
use crate::shape::{Dims, checked_elements};

/// Builder of a tensor of byte strings, one string after the other.
///
/// Each byte counts against the memory before it is allocated, and the allocation is fallible: so the strings of an
/// untrusted graph cannot end the process. The bytes of all strings lie in one buffer, which doubles when it is full, or
/// grows by less where the memory does not allow that.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_tensor::{Memory, StringTensorBuilder};
///
/// let memory = Arc::new(Memory::new(Some(200)));
/// let mut words = StringTensorBuilder::new(&[2], Some(&memory))?;
/// words.push(b"one")?;
/// // A string may come in pieces.
/// words.extend(b"tw")?;
/// words.extend(b"o")?;
/// words.end();
/// let words = words.finish()?;
/// assert_eq!(words.as_strings()?[1][..], *b"two");
/// assert_eq!(memory.used(), words.byte_size());
///
/// let mut long = StringTensorBuilder::new(&[], Some(&memory))?;
/// assert!(long.push(&[0; 200]).is_err());
/// # Ok::<(), thalweg_tensor::TensorError>(())
/// ```
pub struct StringTensorBuilder {
    dims: Dims,
    count: usize,
    /// The bytes of all strings, that of the unfinished one last.
    bytes: Vec<u8>,
    /// The ends of the finished strings.
    ends: Vec<usize>,
    taken: Reservation,
}

impl StringTensorBuilder {
    /// Begins a tensor with these dimensions and no strings yet; they count against `memory`.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is no memory for so many strings.
    pub fn new(
        dims: &[usize],
        memory: Option<&Arc<Memory>>,
    ) -> Result<StringTensorBuilder, TensorError> {
        let mut tensor = StringTensorBuilder {
            dims: dims.into(),
            count: checked_elements(dims).unwrap_or(usize::MAX),
            bytes: Vec::new(),
            ends: Vec::new(),
            taken: Reservation::of(memory),
        };
        let bytes = tensor.count.checked_mul(STRING_OVERHEAD);
        let may = bytes.is_some_and(|bytes| tensor.taken.grow(bytes))
            && tensor.ends.try_reserve_exact(tensor.count).is_ok();
        match may {
            true => Ok(tensor),
            false => Err(tensor.too_large()),
        }
    }

    fn too_large(&self) -> TensorError {
        TensorError::TooLarge {
            dtype: DType::String,
            dims: self.dims.clone(),
        }
    }

    /// The number of finished strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// `true` if no string is finished.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes so far of the unfinished string.
    pub fn open(&self) -> &[u8] {
        &self.bytes[self.ends.last().copied().unwrap_or(0)..]
    }

    /// Reserves memory for `bytes` more of the unfinished string.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is none.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), TensorError> {
        let had = self.bytes.capacity();
        let needed = self.bytes.len().checked_add(bytes);
        let needed = needed.filter(|&n| n <= isize::MAX as usize);
        let missing = needed.ok_or_else(|| self.too_large())?.saturating_sub(had);
        if missing == 0 {
            return Ok(());
        }
        if !self.taken.grow(missing) {
            return Err(self.too_large());
        }
        if self.bytes.try_reserve_exact(bytes).is_err() {
            self.taken.shrink(missing);
            return Err(self.too_large());
        }
        Ok(())
    }

    /// Reserves memory for `bytes` more: for as many as there are, or half of that and so on, as the limit allows. So a buffer
    /// that is close to its limit is not copied for each string.
    #[cold]
    fn grow(&mut self, bytes: usize) -> Result<(), TensorError> {
        let mut amply = self.bytes.len();
        while amply > bytes {
            if self.reserve(amply).is_ok() {
                return Ok(());
            }
            amply /= 2;
        }
        self.reserve(bytes)
    }

    /// Adds bytes to the unfinished string.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is no memory for them.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), TensorError> {
        if bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.grow(bytes.len())?;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Finishes the string; it is empty if nothing was added.
    #[inline]
    pub fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Adds a whole string.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is no memory for it.
    #[inline]
    pub fn push(&mut self, string: &[u8]) -> Result<(), TensorError> {
        self.extend(string)?;
        self.end();
        Ok(())
    }

    /// Adds whole strings.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is no memory for them.
    pub fn push_all(&mut self, strings: Strings<'_>) -> Result<(), TensorError> {
        let start = self.bytes.len();
        self.extend(strings.bytes())?;
        self.ends.extend(strings.ends().map(|end| start + end));
        Ok(())
    }

    /// Returns the tensor.
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are fewer strings than its dimensions require, or more.
    pub fn finish(mut self) -> Result<Tensor, TensorError> {
        if self.ends.len() != self.count {
            return Err(TensorError::Length {
                expected: self.count,
                found: self.ends.len(),
                dims: self.dims,
            });
        }
        self.taken.shrink(self.bytes.capacity() - self.bytes.len());
        let strings = StringStorage {
            bytes: self.bytes.into_boxed_slice(),
            ends: self.ends.into_boxed_slice(),
            _taken: self.taken,
        };
        Ok(Tensor {
            dtype: DType::String,
            dims: self.dims,
            data: Data::Strings(Arc::new(strings)),
        })
    }
}

impl Tensor {
    /// A tensor of byte strings.
    ///
    /// # Errors
    /// [`TensorError::Length`] if their number does not match `dims`, [`TensorError::TooLarge`] if
    /// the system has no memory for them.
    pub fn strings<S: AsRef<[u8]>>(dims: &[usize], elements: &[S]) -> Result<Tensor, TensorError> {
        Self::strings_in(dims, elements.iter(), None)
    }

    /// As [`Tensor::strings`], in `memory` if given.
    ///
    /// # Errors
    /// As [`Tensor::strings`], also if the memory's limit does not allow it.
    pub fn strings_in<S: AsRef<[u8]>>(
        dims: &[usize],
        elements: impl ExactSizeIterator<Item = S>,
        memory: Option<&Arc<Memory>>,
    ) -> Result<Tensor, TensorError> {
        let (expected, found) = (checked_elements(dims).unwrap_or(usize::MAX), elements.len());
        if expected != found {
            return Err(TensorError::Length {
                dims: dims.into(),
                expected,
                found,
            });
        }
        let mut all = StringTensorBuilder::new(dims, memory)?;
        for element in elements {
            all.push(element.as_ref())?;
        }
        all.finish()
    }

    /// This many empty strings.
    pub(super) fn empty_strings(
        dims: &[usize],
        memory: Option<&Arc<Memory>>,
    ) -> Result<Tensor, TensorError> {
        let mut all = StringTensorBuilder::new(dims, memory)?;
        for _ in 0..all.count {
            all.end();
        }
        all.finish()
    }

    /// The bytes that the elements take: for strings, their bytes and the overhead of each. The
    /// content of a resource or a variant is not counted, nor the handle of a scalar.
    ///
    /// ```
    /// use thalweg_tensor::Tensor;
    ///
    /// assert_eq!(Tensor::from([1.0f32, 2.0]).byte_size(), 8);
    /// assert_eq!(Tensor::from("sixteen bytes ..").byte_size(), 24);
    /// ```
    pub fn byte_size(&self) -> usize {
        match &self.data {
            Data::Bytes(b) => b.len(),
            Data::Strings(s) => s.size(),
            Data::Handles(h) => h.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_count_against_their_memory_until_they_are_dropped() {
        let memory = Arc::new(Memory::new(Some(1000)));
        let words = Tensor::strings_in(&[2], ["one", "three"].iter(), Some(&memory)).unwrap();
        assert_eq!(
            (words.byte_size(), memory.used()),
            (8 + 2 * STRING_OVERHEAD, 8 + 2 * STRING_OVERHEAD)
        );
        let shared = words.clone();
        drop(words);
        assert_eq!(memory.used(), 8 + 2 * STRING_OVERHEAD);
        drop(shared);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn strings_beyond_the_limit_are_an_error_and_leave_nothing_taken() {
        let memory = Arc::new(Memory::new(Some(1000)));
        let refused = |made: Result<(), TensorError>| {
            assert!(
                matches!(made, Err(TensorError::TooLarge { .. })),
                "{made:?}"
            );
            assert_eq!(memory.used(), 0);
        };
        let one = |bytes: usize| {
            Tensor::strings_in(&[], [vec![b'x'; bytes]].iter(), Some(&memory)).map(drop)
        };
        assert_eq!(one(1000 - STRING_OVERHEAD), Ok(()));
        refused(one(1001 - STRING_OVERHEAD));
        refused(StringTensorBuilder::new(&[1 << 20], Some(&memory)).map(drop));
        refused(StringTensorBuilder::new(&[usize::MAX, 2], Some(&memory)).map(drop));
        refused(Tensor::zeros_in(DType::String, &[126], &memory).map(drop));
        let grown = || {
            let mut tensor = StringTensorBuilder::new(&[], Some(&memory))?;
            loop {
                tensor.extend(b"seven..")?;
            }
        };
        refused(grown());
    }

    #[test]
    fn a_buffer_close_to_its_limit_is_copied_few_times() {
        let memory = Arc::new(Memory::new(Some(100_000)));
        let mut tensor = StringTensorBuilder::new(&[1000], Some(&memory)).unwrap();
        let (mut copies, mut last) = (0, tensor.bytes.capacity());
        while tensor.push(b"seven..").is_ok() {
            copies += usize::from(tensor.bytes.capacity() != last);
            last = tensor.bytes.capacity();
        }
        assert!(tensor.bytes.len() > 90_000, "{}", tensor.bytes.len());
        assert!(copies < 40, "{copies}");
    }

    #[test]
    fn a_string_grows_to_the_limit_and_no_further() {
        let memory = Arc::new(Memory::new(Some(STRING_OVERHEAD + 700)));
        let mut tensor = StringTensorBuilder::new(&[], Some(&memory)).unwrap();
        while tensor.extend(b"seven..").is_ok() {}
        assert!(tensor.open().len() >= 350, "{}", tensor.open().len());
        tensor.end();
        let tensor = tensor.finish().unwrap();
        assert_eq!(memory.used(), tensor.byte_size());
    }

    #[test]
    fn strings_that_the_system_has_no_memory_for_are_an_error() {
        let huge = StringTensorBuilder::new(&[usize::MAX / 64], None);
        assert!(matches!(huge.map(drop), Err(TensorError::TooLarge { .. })));
        let mut long = StringTensorBuilder::new(&[], None).unwrap();
        for bytes in [usize::MAX, isize::MAX as usize] {
            assert!(long.reserve(bytes).is_err());
        }
    }
}
