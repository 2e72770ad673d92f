//! MNIST, and data sets in its form.

use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::split::Split;

#[cfg(test)]
pub(super) mod tests;

/// Number of rows, and of columns, of an image of MNIST.
pub const SIDE: usize = 28;

/// MNIST, or a set in its form (a part of it, Fashion-MNIST): 28 x 28 images of ten classes.
#[derive(Clone, Debug)]
pub struct Mnist {
    /// The images to train on.
    pub train: Split,
    /// The images to test on.
    pub test: Split,
}

impl Mnist {
    /// Loads the four files in the folder `dir`.
    ///
    /// Each is searched as `train-images-idx3-ubyte` and `train-images.idx3-ubyte`, then under the same names with
    /// `.gz`. The first that exists is read; its first bytes, not its name, determine if it is gzipped.
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
    let (expected, found) = ([SIDE, SIDE], [split.rows(), split.cols()]);
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
