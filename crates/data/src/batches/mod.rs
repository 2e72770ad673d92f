//! Batches of a [`Split`]: shuffled ones without end, and one ordered pass.

use thalweg_tensor::{DType, Tensor};

use crate::error::DataError;
use crate::shuffle::ShuffledOrder;
use crate::split::{CLASSES, Split};

#[cfg(test)]
mod tests;

impl Split {
    /// Shuffled batches of `size` images without end; see [`Batches`].
    ///
    /// # Errors
    /// As [`Batches::new`].
    pub fn batches(&self, size: usize, seed: u64) -> Result<Batches<'_>, DataError> {
        Batches::new(self, size, seed)
    }

    /// All images and classes as tensors: `[len, rows * cols]` of 0..=1, and `[len]` as `i64`.
    ///
    /// # Errors
    /// [`DataError::Tensor`], where there is no memory for them.
    pub fn tensors(&self) -> Result<[Tensor; 2], DataError> {
        match self.chunks(self.len().max(1))?.next() {
            Some(all) => all.tensors(),
            None => Ok([
                Tensor::zeros(DType::F32, &[0, self.pixels()])?,
                Tensor::zeros(DType::I64, &[0])?,
            ]),
        }
    }

    /// All images once, in their order, `size` at a time; see [`Chunks`].
    ///
    /// # Errors
    /// As [`Chunks::new`].
    pub fn chunks(&self, size: usize) -> Result<Chunks<'_>, DataError> {
        Chunks::new(self, size)
    }
}

/// Shuffled batches without end, written into the caller's buffers.
///
/// Each epoch serves every image once, in an order that depends on the seed, the
/// epoch's number and the number of images alone: the same on every platform. An epoch
/// that ends inside a batch is followed by the next one in the same batch, as in
/// TensorFlow's MNIST tutorial, so that every batch is full. A batch larger than the
/// data set runs through as many epochs as it needs, and repeats images.
///
/// Only [`Batches::new`] allocates, four bytes an image, and [`Batches::tensors`], which gives new tensors.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    split: &'a Split,
    size: usize,
    order: ShuffledOrder,
}

impl<'a> Batches<'a> {
    /// Batches of `size` images of `split`, shuffled by `seed`.
    ///
    /// # Errors
    /// [`DataError::ZeroBatch`], [`DataError::EmptySplit`], and
    /// [`DataError::TooManyExamples`] above 2^32 - 1 images.
    pub fn new(split: &'a Split, size: usize, seed: u64) -> Result<Self, DataError> {
        if size == 0 {
            return Err(DataError::ZeroBatch);
        }
        Ok(Batches {
            split,
            size,
            order: ShuffledOrder::new(split.len(), seed)?,
        })
    }

    /// The number of images in each batch.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of complete epochs: each image has been served at least so often.
    pub fn epoch(&self) -> u64 {
        self.order.epoch()
    }

    /// Number of images that have been served: the position of the next batch. A checkpoint keeps it, so that a
    /// training resumes with the same images.
    pub fn position(&self) -> u64 {
        self.order.position()
    }

    /// Moves to a [position](Batches::position), as if so many images had been served.
    pub fn seek(&mut self, position: u64) {
        self.order.seek(position);
    }

    /// Writes the next batch: pixels scaled to 0..=1 into `images`
    /// (`[size, rows, cols]`), classes into `labels` (`[size]`).
    ///
    /// # Errors
    /// [`DataError::BufferLength`] when a slice is not exactly as long as that; then
    /// nothing is served.
    pub fn next_into(&mut self, images: &mut [f32], labels: &mut [i64]) -> Result<(), DataError> {
        let pixels = self.split.pixels();
        // No slice has a length that overflows: the check then fails, as it must.
        check_length("images", self.size.saturating_mul(pixels), images.len())?;
        check_length("labels", self.size, labels.len())?;
        for (row, label) in labels.iter_mut().enumerate() {
            let at = self.order.advance();
            scale(self.pixels_of(at), &mut images[row * pixels..][..pixels]);
            *label = i64::from(self.split.labels()[at]);
        }
        Ok(())
    }

    /// Like [`Batches::next_into`], with each label as a row of [`CLASSES`] numbers
    /// (`[size, CLASSES]`): 1 at the class, 0 elsewhere.
    ///
    /// # Errors
    /// As [`Batches::next_into`].
    pub fn next_one_hot_into(
        &mut self,
        images: &mut [f32],
        one_hot: &mut [f32],
    ) -> Result<(), DataError> {
        let pixels = self.split.pixels();
        check_length("images", self.size.saturating_mul(pixels), images.len())?;
        check_length(
            "one-hot labels",
            self.size.saturating_mul(CLASSES),
            one_hot.len(),
        )?;
        for (row, hot) in one_hot.chunks_exact_mut(CLASSES).enumerate() {
            let at = self.order.advance();
            scale(self.pixels_of(at), &mut images[row * pixels..][..pixels]);
            set_hot(hot, self.split.labels()[at]);
        }
        Ok(())
    }

    /// The next batch as tensors: images `[size, rows * cols]` of 0..=1, and classes `[size]` as `i64`.
    ///
    /// # Errors
    /// [`DataError::Tensor`], where there is no memory for them.
    pub fn tensors(&mut self) -> Result<[Tensor; 2], DataError> {
        let mut images = Tensor::zeros(DType::F32, &[self.size, self.split.pixels()])?;
        let mut labels = Tensor::zeros(DType::I64, &[self.size])?;
        self.next_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        Ok([images, labels])
    }

    fn pixels_of(&self, at: usize) -> &'a [u8] {
        let pixels = self.split.pixels();
        &self.split.images()[at * pixels..][..pixels]
    }
}

/// All images of a split once, in their order; the last chunk may be smaller.
///
/// An iterator of [`Chunk`]; it allocates nothing.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    split: &'a Split,
    size: usize,
    next: usize,
}

impl<'a> Chunks<'a> {
    /// Chunks of `size` images of `split`; none when it is empty.
    ///
    /// # Errors
    /// [`DataError::ZeroBatch`].
    pub fn new(split: &'a Split, size: usize) -> Result<Self, DataError> {
        if size == 0 {
            return Err(DataError::ZeroBatch);
        }
        Ok(Chunks {
            split,
            size,
            next: 0,
        })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (start, pixels) = (self.next, self.split.pixels());
        let count = self.size.min(self.split.len() - start);
        if count == 0 {
            return None;
        }
        self.next += count;
        Some(Chunk {
            images: &self.split.images()[start * pixels..self.next * pixels],
            labels: &self.split.labels()[start..self.next],
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.split.len() - self.next).div_ceil(self.size);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Chunks<'_> {}

/// Consecutive images of a [`Split`], with their labels.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The images, `[len, rows, cols]`, as bytes.
    pub images: &'a [u8],
    /// The labels, `[len]`.
    pub labels: &'a [u8],
}

impl Chunk<'_> {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// `true` if it has no images; [`Chunks`] yields no such chunk.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Writes the pixels, scaled to 0..=1, into `images` (`[len, rows, cols]`).
    ///
    /// # Errors
    /// [`DataError::BufferLength`] when the slice is not exactly as long as that.
    pub fn images_into(&self, images: &mut [f32]) -> Result<(), DataError> {
        check_length("images", self.images.len(), images.len())?;
        scale(self.images, images);
        Ok(())
    }

    /// The images and classes as tensors: `[len, rows * cols]` of 0..=1, and `[len]` as `i64`.
    ///
    /// # Errors
    /// [`DataError::Tensor`], where there is no memory for them.
    pub fn tensors(&self) -> Result<[Tensor; 2], DataError> {
        let pixels = self.images.len() / self.len().max(1);
        let mut images = Tensor::zeros(DType::F32, &[self.len(), pixels])?;
        let mut labels = Tensor::zeros(DType::I64, &[self.len()])?;
        self.images_into(images.as_mut_slice()?)?;
        self.labels_into(labels.as_mut_slice()?)?;
        Ok([images, labels])
    }

    /// Writes the classes into `labels` (`[len]`).
    ///
    /// # Errors
    /// [`DataError::BufferLength`] when the slice is not exactly as long as that.
    pub fn labels_into(&self, labels: &mut [i64]) -> Result<(), DataError> {
        check_length("labels", self.len(), labels.len())?;
        for (to, &label) in labels.iter_mut().zip(self.labels) {
            *to = i64::from(label);
        }
        Ok(())
    }

    /// Writes each class as a row of [`CLASSES`] numbers (`[len, CLASSES]`): 1 at the
    /// class, 0 elsewhere.
    ///
    /// # Errors
    /// [`DataError::BufferLength`] when the slice is not exactly as long as that.
    pub fn one_hot_into(&self, one_hot: &mut [f32]) -> Result<(), DataError> {
        check_length("one-hot labels", self.len() * CLASSES, one_hot.len())?;
        for (hot, &label) in one_hot.chunks_exact_mut(CLASSES).zip(self.labels) {
            set_hot(hot, label);
        }
        Ok(())
    }
}

fn check_length(what: &'static str, expected: usize, found: usize) -> Result<(), DataError> {
    if expected == found {
        return Ok(());
    }
    Err(DataError::BufferLength {
        what,
        expected,
        found,
    })
}

/// Scales bytes to 0..=1. The factor is rounded once and multiplied with, as in TensorFlow's MNIST tutorial: 255 still
/// gives 1, and the last bits are those of the tutorial's inputs.
fn scale(from: &[u8], to: &mut [f32]) {
    for (to, &byte) in to.iter_mut().zip(from) {
        *to = f32::from(byte) * (1.0 / 255.0);
    }
}

fn set_hot(hot: &mut [f32], label: u8) {
    hot.fill(0.0);
    hot[usize::from(label)] = 1.0;
}
