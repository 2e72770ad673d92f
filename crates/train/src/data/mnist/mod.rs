use std::path::{Path, PathBuf};

use thalweg_tensor::{DType, Tensor};

use super::{Batches, Chunks, DataError, Idx};

#[cfg(test)]
pub(super) mod tests;

/// How many classes there are: the digits 0 to 9.
pub const CLASSES: usize = 10;

/// The rows, and the columns, of an image of MNIST.
pub const SIDE: usize = 28;

/// MNIST, or a set in its form (a part of it, Fashion-MNIST): 28 x 28 images of ten classes.
#[derive(Clone, Debug)]
pub struct Mnist {
    /// What to train on.
    pub train: Split,
    /// What to test on.
    pub test: Split,
}

impl Mnist {
    /// Loads the four files in the folder `dir`.
    ///
    /// Each is looked for as `train-images-idx3-ubyte` and `train-images.idx3-ubyte`,
    /// then under the same names with `.gz`; the first that exists is read, and read
    /// as what its first bytes say it is.
    ///
    /// # Errors
    /// [`DataError::NotFound`] when one of the files is not there,
    /// [`DataError::ImageSize`] when the images are not 28 x 28; else as [`Split::open`].
    pub fn load(dir: impl AsRef<Path>) -> Result<Self, DataError> {
        let dir = dir.as_ref();
        Ok(Mnist {
            train: load_split(dir, "train")?,
            test: load_split(dir, "t10k")?,
        })
    }
}

fn load_split(dir: &Path, prefix: &str) -> Result<Split, DataError> {
    let images = find(dir, &format!("{prefix}-images"), "idx3-ubyte")?;
    let labels = find(dir, &format!("{prefix}-labels"), "idx1-ubyte")?;
    let split = Split::open(&images, &labels)?;
    let (expected, found) = ([SIDE, SIDE], [split.rows, split.cols]);
    if found != expected {
        return Err(DataError::ImageSize {
            path: images,
            expected,
            found,
        });
    }
    Ok(split)
}

fn find(dir: &Path, stem: &str, kind: &str) -> Result<PathBuf, DataError> {
    let names = [
        format!("{stem}-{kind}"),
        format!("{stem}.{kind}"),
        format!("{stem}-{kind}.gz"),
        format!("{stem}.{kind}.gz"),
    ];
    match names.iter().map(|n| dir.join(n)).find(|p| p.is_file()) {
        Some(path) => Ok(path),
        None => Err(DataError::NotFound {
            dir: dir.to_path_buf(),
            tried: names.into(),
        }),
    }
}

/// Images with a label each, as bytes.
///
/// Made only from parts that fit: there is a label in `0..CLASSES` for every image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    images: Vec<u8>,
    labels: Vec<u8>,
    rows: usize,
    cols: usize,
}

impl Split {
    /// Puts images and labels together.
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
            // Images without a pixel have no count of their own.
            None if found == 0 => labels.len(),
            _ => return Err(DataError::PixelCount { rows, cols, found }),
        };
        Self::checked(images, labels, [count, rows, cols])
    }

    /// Reads a file of images (IDX, 3 dimensions) and one of their labels (1 dimension).
    ///
    /// # Errors
    /// What [`Idx::open`] says of either file, [`DataError::CountMismatch`] and
    /// [`DataError::Label`].
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
            return Err(DataError::Label { index, value });
        }
        Ok(Split {
            images,
            labels,
            rows,
            cols,
        })
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
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
        // A product that overflows is possible where there is no image at all.
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
