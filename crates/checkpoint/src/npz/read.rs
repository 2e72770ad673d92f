//! Reader of `.npz` files.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_tensor::{Buffer, Tensor, TensorError};
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::array::{self, ArrayHeader, ElementKind};
use crate::disk;
use crate::error::CheckpointError;
use crate::weight_info::WeightInfo;

/// The longest header of an array, in bytes: those of plain arrays have about a hundred.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// The largest expansion of DEFLATE, in bytes for each compressed byte.
const MAX_EXPANSION: u64 = 1032;

/// An open `.npz` file: one of NumPy's `savez` or `savez_compressed`, or of [`super::NpzWriter`].
///
/// ```
/// use thalweg_checkpoint::npz::NpzReader;
///
/// let error = NpzReader::open("/nowhere/weights.npz").unwrap_err();
/// assert!(error.to_string().starts_with("/nowhere/weights.npz cannot be read"));
/// ```
pub struct NpzReader {
    path: PathBuf,
    archive: ZipArchive<SharedCursor>,
    arrays: BTreeMap<String, (usize, ArrayHeader, u64)>,
}

impl std::fmt::Debug for NpzReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NpzReader")
            .field("path", &self.path)
            .field("arrays", &self.arrays.len())
            .finish_non_exhaustive()
    }
}

impl NpzReader {
    /// Opens a file and reads the headers of its arrays.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; [`CheckpointError::Corrupt`] if it is not a zip file of arrays, or
    /// is truncated.
    pub fn open(path: impl AsRef<Path>) -> Result<NpzReader, CheckpointError> {
        let path = path.as_ref();
        let (file, length) = disk::open(&disk::SystemDisk, path)
            .map_err(|e| CheckpointError::io(path, "read", &e))?;
        let file = SharedCursor {
            file: Arc::new(file),
            at: 0,
            length,
        };
        let mut archive = ZipArchive::new(file).map_err(|e| {
            let what = format!("is no whole .npz file: {e}");
            CheckpointError::corrupt(path, what)
        })?;
        let mut arrays = BTreeMap::new();
        for number in 0..archive.len() {
            let mut file = member(path, &mut archive, number)?;
            let Some(name) = file.name().strip_suffix(".npy").map(str::to_owned) else {
                continue;
            };
            check_size(path, &name, &file, length)?;
            let (header, head) = header(path, &name, &mut file)?;
            let bytes = file.size().saturating_sub(head);
            if header.kind.is_some() && header.bytes().map(|b| b as u64) != Some(bytes) {
                let what = "has another number of bytes than its header says";
                return Err(CheckpointError::corrupt_entry(path, name, what));
            }
            drop(file);
            arrays.insert(name, (number, header, bytes));
        }
        Ok(NpzReader {
            path: path.to_owned(),
            archive,
            arrays,
        })
    }

    /// The names of the arrays, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    /// The description of an array; `None` if there is none of this name.
    pub fn info(&self, name: &str) -> Option<WeightInfo> {
        let (_, header, bytes) = self.arrays.get(name)?;
        let dtype = header.kind.map(ElementKind::dtype);
        Some(WeightInfo {
            name: name.to_owned(),
            dtype,
            dtype_name: dtype.map_or_else(|| header.descr.clone(), |d| d.to_string()),
            dims: header.dims.clone(),
            bytes: *bytes,
        })
    }

    /// An array as a tensor.
    ///
    /// # Errors
    /// [`CheckpointError::NoEntry`]; [`CheckpointError::Unsupported`] for a dtype that this engine
    /// does not have; [`CheckpointError::Corrupt`] if the file's checksum does not match;
    /// [`CheckpointError::Io`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        let (number, header, size) =
            self.arrays
                .get(name)
                .ok_or_else(|| CheckpointError::NoEntry {
                    name: name.to_owned(),
                    file: self.path.clone(),
                    hint: format!(", which has {} others", self.arrays.len()),
                })?;
        let path = self.path.as_path();
        let kind = header.kind.ok_or_else(|| {
            let what = format!(
                "is of NumPy's {}, which no tensor of this engine holds",
                header.descr
            );
            CheckpointError::unsupported(path, Some(name), what)
        })?;
        let failed = |e| CheckpointError::tensor(path, name, e);
        let room = usize::try_from(*size).ok().and_then(Buffer::try_zeroed);
        let too_large = || TensorError::TooLarge {
            dtype: kind.dtype(),
            dims: header.dims.as_slice().into(),
        };
        let mut buffer = room.ok_or_else(|| failed(too_large()))?;
        // A clone shares the file and has its own offset.
        let mut archive = self.archive.clone();
        let mut file = member(path, &mut archive, *number)?;
        self::header(path, name, &mut file)?;
        let read = file.read_exact(buffer.bytes_mut()).and_then(|()| {
            // The checksum is compared at the end of the file.
            file.read(&mut [0])
        });
        match read {
            Ok(0) => {}
            Ok(_) => {
                let what = "has more bytes than its header says";
                return Err(CheckpointError::corrupt_entry(path, name, what));
            }
            Err(e) => {
                return Err(CheckpointError::corrupt_entry(
                    path,
                    name,
                    format!("is damaged: {e}"),
                ));
            }
        }
        if header.fortran && header.dims.len() > 1 {
            let room = Buffer::try_zeroed(buffer.len());
            let mut turned = room.ok_or_else(|| failed(too_large()))?;
            array::row_major(
                buffer.bytes(),
                &header.dims,
                kind.size(),
                turned.bytes_mut(),
            );
            buffer = turned;
        }
        match kind {
            ElementKind::Plain(dtype) => {
                Tensor::from_buffer(dtype, &header.dims, Arc::new(buffer)).map_err(failed)
            }
            _ => array::strings(path, name, header, kind, buffer.bytes()),
        }
    }
}

fn member<'a>(
    path: &Path,
    archive: &'a mut ZipArchive<SharedCursor>,
    number: usize,
) -> Result<ZipFile<'a>, CheckpointError> {
    archive.by_index(number).map_err(|e| {
        let what = format!(
            "has an array, its {}th, that cannot be read: {e}",
            number + 1
        );
        CheckpointError::corrupt(path, what)
    })
}

/// Refuses sizes that a file of this length cannot hold: memory is allocated by the header.
fn check_size(
    path: &Path,
    name: &str,
    file: &ZipFile<'_>,
    length: u64,
) -> Result<(), CheckpointError> {
    let packed = file.compressed_size();
    let most = match file.compression() {
        CompressionMethod::Stored => packed,
        CompressionMethod::Deflated => packed.saturating_mul(MAX_EXPANSION),
        other => {
            let what = format!("is compressed by {other}: NumPy writes stored or deflated arrays");
            return Err(CheckpointError::unsupported(path, Some(name), what));
        }
    };
    match packed <= length && file.size() <= most {
        true => Ok(()),
        false => {
            let what = "has fewer bytes than the file says: it was cut";
            Err(CheckpointError::corrupt_entry(path, name, what))
        }
    }
}

/// The header of an array, and its length in bytes.
fn header(
    path: &Path,
    name: &str,
    file: &mut ZipFile<'_>,
) -> Result<(ArrayHeader, u64), CheckpointError> {
    let broken = || CheckpointError::corrupt_entry(path, name, "is no .npy array");
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(|_| broken())?;
    if start[..6] != *b"\x93NUMPY" {
        return Err(broken());
    }
    // The first version has a length of two bytes, later ones of four.
    let wide = if start[6] > 1 { 4 } else { 2 };
    let mut length = [0; 4];
    file.read_exact(&mut length[..wide]).map_err(|_| broken())?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER_BYTES {
        return Err(broken());
    }
    let mut text = vec![0; length];
    file.read_exact(&mut text).map_err(|_| broken())?;
    let text = String::from_utf8_lossy(&text);
    let header = ArrayHeader::parse(&text).ok_or_else(broken)?;
    Ok((header, (8 + wide + length) as u64))
}

/// A shared file with its own offset.
#[derive(Clone)]
struct SharedCursor {
    file: Arc<disk::ReadFile>,
    at: u64,
    length: u64,
}

impl Read for SharedCursor {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.at);
        let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        disk::read_exact_at(&self.file, &mut bytes[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for SharedCursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = place.ok_or_else(|| io::Error::other("a place before the file's beginning"))?;
        Ok(self.at)
    }
}
