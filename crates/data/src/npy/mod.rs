//! NumPy's files: one array, `.npy`; several, `.npz`.
//!
//! Source: NumPy's `lib/format.py`.

use std::io::Write;
use std::path::Path;

use thalweg_checkpoint::disk::{AtomicFile, system};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Tensor};

use crate::error::DataError;
use crate::pipeline::{Pipeline, Stage};
use crate::positioned::PositionedFile;

mod header;
#[cfg(test)]
mod tests;

use header::Header;

/// An array in a `.npy` file, of which rows can be read one by one.
///
/// ```
/// use thalweg_data::{NpyFile, write_npy};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let path = std::env::temp_dir().join(format!("thalweg-{}.npy", std::process::id()));
/// write_npy(&path, &Tensor::new(&[2, 2], &[1i32, 2, 3, 4])?)?;
/// let file = NpyFile::open(&path)?;
/// assert_eq!((file.dims(), file.rows()), (&[2, 2][..], 2));
/// assert_eq!(file.row(1)?.to_vec::<i32>()?, [3, 4]);
/// # let _ = std::fs::remove_file(path);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NpyFile {
    file: PositionedFile,
    header: Header,
    /// Position of the first element.
    data: u64,
}

impl NpyFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`DataError::Io`]. [`DataError::Format`]: it is no array of numbers in the order of rows, or not as long as its
    /// header says.
    pub fn open(path: impl AsRef<Path>) -> Result<NpyFile, DataError> {
        NpyFile::read(PositionedFile::open(path.as_ref())?)
    }

    /// A file in memory; errors call it `name`.
    ///
    /// # Errors
    /// [`DataError::Format`], as [`NpyFile::open`].
    pub fn of_bytes(bytes: Vec<u8>, name: impl AsRef<Path>) -> Result<NpyFile, DataError> {
        NpyFile::read(PositionedFile::of_bytes(bytes, name.as_ref()))
    }

    fn read(file: PositionedFile) -> Result<NpyFile, DataError> {
        let (header, data) = Header::read(&file)?;
        let found = file.len() - data;
        let elements = checked_elements(&header.dims);
        let bytes = elements.and_then(|n| n.checked_mul(header.dtype.size()));
        if bytes.map(|n| n as u64) != Some(found) {
            let reason = format!(
                "an array of {} and dimensions {:?} does not have {found} bytes: get the file again",
                header.dtype, header.dims
            );
            return Err(file.error(data, reason));
        }
        Ok(NpyFile { file, header, data })
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.header.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.header.dims
    }

    /// Number of rows: the first dimension; 0 for a scalar.
    pub fn rows(&self) -> u64 {
        self.header.dims.first().map_or(0, |n| *n as u64)
    }

    /// The whole array.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::Tensor`].
    pub fn tensor(&self) -> Result<Tensor, DataError> {
        let bytes = self.file.bytes(self.data, self.file.len() - self.data)?;
        self.made(&self.header.dims, self.data, &bytes)
    }

    /// A row: a tensor without the first dimension. Several threads may read.
    ///
    /// # Errors
    /// [`DataError::Index`]: there is no such row; as [`NpyFile::tensor`].
    pub fn row(&self, row: u64) -> Result<Tensor, DataError> {
        let len = self.rows();
        if row >= len {
            return Err(DataError::Index { index: row, len });
        }
        let bytes = (self.file.len() - self.data) / len;
        let at = self.data + row * bytes;
        let bytes = self.file.bytes(at, bytes)?;
        self.made(&self.header.dims[1..], at, &bytes)
    }

    /// Consecutive rows, `first..first + count`, as one tensor. Several threads may read.
    ///
    /// # Errors
    /// [`DataError::Index`]: there is no such row; as [`NpyFile::tensor`].
    ///
    /// ```
    /// use thalweg_data::{NpyFile, write_npy};
    /// use thalweg_tensor::Tensor;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("block-{}.npy", std::process::id()));
    /// write_npy(&path, &Tensor::new(&[3, 2], &[1i32, 2, 3, 4, 5, 6])?)?;
    /// assert_eq!(NpyFile::open(&path)?.block(1, 2)?, Tensor::from([[3i32, 4], [5, 6]]));
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// ```
    pub fn block(&self, first: u64, count: u64) -> Result<Tensor, DataError> {
        let len = self.rows();
        let end = first.checked_add(count).filter(|end| *end <= len);
        let Some((_, columns)) = self.header.dims.split_first().filter(|_| end.is_some()) else {
            return Err(DataError::Index {
                index: first.saturating_add(count),
                len,
            });
        };
        let row = (self.file.len() - self.data) / len.max(1);
        let at = self.data + first * row;
        let bytes = self.file.bytes(at, count * row)?;
        let dims: Vec<usize> = [count as usize]
            .into_iter()
            .chain(columns.iter().copied())
            .collect();
        self.made(&dims, at, &bytes)
    }

    fn made(&self, dims: &[usize], at: u64, bytes: &[u8]) -> Result<Tensor, DataError> {
        let made = Tensor::from_bytes(self.header.dtype, dims, bytes);
        made.map_err(|e| self.file.error(at, e.to_string()))
    }
}

/// Writes a tensor of numbers or bools as a `.npy` file. The file appears as a whole.
///
/// # Errors
/// [`DataError::Format`]: NumPy does not have the dtype. [`DataError::Io`], [`DataError::Checkpoint`].
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), DataError> {
    let path = path.as_ref();
    let Some(header) = header::text(tensor.dtype(), tensor.dims()) else {
        let reason = format!("NumPy has no {}: cast the tensor", tensor.dtype());
        return Err(DataError::Format {
            path: path.to_owned(),
            offset: 0,
            reason,
        });
    };
    let mut file = AtomicFile::create(&system(), path)?;
    let wrote = file
        .write_all(&header)
        .and_then(|()| file.write_all(tensor.bytes()));
    wrote.map_err(|source| DataError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(file.finish()?)
}

/// Rows of arrays in files. Built by [`npy_rows`].
pub struct NpyRows<const N: usize> {
    files: [NpyFile; N],
    next: u64,
}

/// The rows of the arrays in `.npy` files: an element is row `i` of each. Rows are read when they are asked for.
///
/// # Errors
/// As [`NpyFile::open`]; [`DataError::Rows`]: the arrays have different numbers of rows, or empty rows.
pub fn npy_rows<const N: usize>(
    paths: [impl AsRef<Path>; N],
) -> Result<Pipeline<NpyRows<N>>, DataError> {
    let files = paths.map(NpyFile::open);
    let files: Vec<NpyFile> = files.into_iter().collect::<Result<_, _>>()?;
    let like = |file: &NpyFile| {
        let empty_rows = file.dims().iter().skip(1).any(|d| *d == 0);
        !file.dims().is_empty() && !empty_rows && file.rows() == files[0].rows()
    };
    let shapes = files.iter().map(|file| file.dims().to_vec()).collect();
    let alike = files.iter().all(like);
    match files.try_into() {
        Ok(files) if alike && N > 0 => Ok(Pipeline::new(NpyRows { files, next: 0 })),
        _ => Err(DataError::Rows { shapes }),
    }
}

impl<const N: usize> Stage for NpyRows<N> {
    type Item = [Tensor; N];

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<[Tensor; N]>, DataError> {
        if self.next == self.files[0].rows() {
            return Ok(None);
        }
        let rows = self.files.iter().map(|file| file.row(self.next));
        let rows: Vec<Tensor> = rows.collect::<Result<_, _>>()?;
        self.next += 1;
        Ok(rows.try_into().ok())
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = count.min(self.files[0].rows() - self.next);
        self.next += passed;
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(Some(self.files[0].rows()))
    }
}

/// The rows of arrays of a `.npz` file, which are read into memory.
///
/// # Errors
/// [`DataError::Checkpoint`]: the file or an array cannot be read. [`DataError::Rows`]: the arrays have different
/// numbers of rows.
#[cfg(feature = "npz")]
pub fn npz_rows<const N: usize>(
    path: impl AsRef<Path>,
    names: [&str; N],
) -> Result<Pipeline<crate::pipeline::FromTensors<N>>, DataError> {
    let file = thalweg_checkpoint::npz::NpzReader::open(path)?;
    let tensors = names.map(|name| file.tensor(name));
    let tensors: Vec<Tensor> = tensors.into_iter().collect::<Result<_, _>>()?;
    match tensors.try_into() {
        Ok(tensors) => crate::pipeline::from_tensors::<N>(tensors),
        // There are as many tensors as names.
        Err(_) => Err(DataError::Rows { shapes: Vec::new() }),
    }
}
