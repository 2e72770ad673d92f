//! `Split`: one part of a data set (training or test): images with a label each.

use std::path::Path;

use crate::error::DataError;
use crate::idx::Idx;

/// Number of classes: the digits 0 to 9.
pub const CLASSES: usize = 10;

/// Images with a label each, as bytes.
///
/// Every image has a label in `0..CLASSES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    images: Vec<u8>,
    labels: Vec<u8>,
    rows: usize,
    cols: usize,
}

impl Split {
    /// Combines images and labels.
    ///
    /// `images` has the shape `[labels.len(), rows, cols]`, row-major, 0 for paper and
    /// 255 for ink; image `i` has the label `labels[i]`.
    ///
    /// # Errors
    /// [`DataError::PixelCount`] when `images` is not a whole number of images,
    /// [`DataError::CountMismatch`] when that is not the number of labels,
    /// [`DataError::Label`] for the first label that is not in `0..CLASSES`.
    pub fn new(
        images: Vec<u8>,
        labels: Vec<u8>,
        rows: usize,
        cols: usize,
    ) -> Result<Self, DataError> {
        let pixels = rows.saturating_mul(cols);
        let found = images.len();
        let count = match found.checked_rem(pixels) {
            Some(0) => found / pixels,
            // If images have no pixels, labels give the count.
            None if found == 0 => labels.len(),
            _ => return Err(DataError::PixelCount { rows, cols, found }),
        };
        Self::checked(images, labels, [count, rows, cols])
    }

    /// Reads a file of images (IDX, 3 dimensions) and one of their labels (1 dimension).
    ///
    /// # Errors
    /// Errors of [`Idx::open`] for either file, [`DataError::CountMismatch`] and [`DataError::Label`].
    pub fn open(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Self, DataError> {
        let images = Idx::<3>::open(images)?;
        let labels = Idx::<1>::open(labels)?;
        Self::checked(images.data, labels.data, images.dims)
    }

    fn checked(
        images: Vec<u8>,
        labels: Vec<u8>,
        [count, rows, cols]: [usize; 3],
    ) -> Result<Self, DataError> {
        if count != labels.len() {
            return Err(DataError::CountMismatch {
                images: count,
                labels: labels.len(),
            });
        }
        let bad = labels.iter().position(|&l| usize::from(l) >= CLASSES);
        if let Some(index) = bad {
            let value = labels[index];
            return Err(DataError::Label {
                index,
                value,
                classes: CLASSES,
            });
        }
        Ok(Split {
            images,
            labels,
            rows,
            cols,
        })
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// `true` if there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The rows of an image.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns of an image.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The pixels of an image: `rows * cols`.
    pub fn pixels(&self) -> usize {
        // The product can overflow if there are no images.
        self.rows.saturating_mul(self.cols)
    }

    /// All images, `[len, rows, cols]`.
    pub fn images(&self) -> &[u8] {
        &self.images
    }

    /// All labels, `[len]`, each in `0..CLASSES`.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Image `index`, `[rows, cols]`; `None` past the end.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        let pixels = self.pixels();
        if index >= self.len() {
            return None;
        }
        self.images.get(index * pixels..(index + 1) * pixels)
    }
}
