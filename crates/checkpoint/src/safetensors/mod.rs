//! Safetensors files, and folders of them with a `model.safetensors.index.json`.
//!
//! Source: the format's description in huggingface/safetensors. Files are written byte for byte as
//! that crate writes them.
//!
//! ```
//! use thalweg_checkpoint::{disk, safetensors};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::temp_dir().join(format!("thalweg-{}.safetensors", std::process::id()));
//! let weights = [("w".to_owned(), Tensor::vector(&[1.0f32, 2.0]))];
//! safetensors::write(&disk::system(), &path, &weights)?;
//! let file = safetensors::SafetensorsReader::open(&path)?;
//! assert_eq!(file.tensor("w")?, weights[0].1);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::safetensors::tensor::{Dtype, Metadata, TensorInfo};
use thalweg_tensor::{Buffer, DType, Tensor, TensorError};

use crate::disk::{self, AtomicFile, Disk};
use crate::error::CheckpointError;
use crate::weight_info::WeightInfo;

/// The most bytes that a header may have. Source: the format's description.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The name of the index, which maps each tensor to a file of the folder.
pub const INDEX: &str = "model.safetensors.index.json";

/// An open safetensors file, or all the files of an index.
///
/// The format has no checksums: a byte that changed on the disk is not detected.
///
/// ```
/// use thalweg_checkpoint::safetensors::SafetensorsReader;
///
/// let error = SafetensorsReader::open("/nowhere/model.safetensors").unwrap_err();
/// assert!(error.to_string().starts_with("/nowhere/model.safetensors cannot be read"));
/// ```
pub struct SafetensorsReader {
    path: PathBuf,
    parts: Vec<Part>,
    /// The part that holds each tensor, by its number.
    names: BTreeMap<String, usize>,
}

struct Part {
    path: PathBuf,
    file: disk::ReadFile,
    metadata: Metadata,
    /// The offset of the data.
    start: u64,
}

impl std::fmt::Debug for SafetensorsReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafetensorsReader")
            .field("path", &self.path)
            .field("tensors", &self.names.len())
            .finish_non_exhaustive()
    }
}

impl SafetensorsReader {
    /// Opens a file, or the files that an index (`model.safetensors.index.json`) names.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; [`CheckpointError::Corrupt`] if it is not such a file, or is
    /// truncated.
    pub fn open(path: impl AsRef<Path>) -> Result<SafetensorsReader, CheckpointError> {
        let path = path.as_ref();
        if path.extension().is_some_and(|e| e == "json") {
            return Self::open_index(path);
        }
        let part = Part::open(path)?;
        let names = part.metadata.offset_keys();
        Ok(SafetensorsReader {
            path: path.to_owned(),
            names: names.into_iter().map(|name| (name, 0)).collect(),
            parts: vec![part],
        })
    }

    fn open_index(path: &Path) -> Result<SafetensorsReader, CheckpointError> {
        let broken = |what: &str| CheckpointError::corrupt(path, what);
        let index: serde_json::Value =
            serde_json::from_slice(&disk::read_whole(&disk::SystemDisk, path)?)
                .map_err(|e| broken(&format!("is no JSON: {e}")))?;
        let map = index.get("weight_map").and_then(|map| map.as_object());
        let map =
            map.ok_or_else(|| broken("has no weight_map, which says where each tensor is"))?;
        let mut reader = SafetensorsReader {
            path: path.to_owned(),
            parts: Vec::new(),
            names: BTreeMap::new(),
        };
        let mut numbers = BTreeMap::new();
        for (name, file) in map {
            let file = file.as_str().filter(|f| is_name(f)).ok_or_else(|| {
                let what = "is not in a file beside the index, and others are not opened";
                CheckpointError::corrupt_entry(path, name, what)
            })?;
            let number = match numbers.get(file) {
                Some(&number) => number,
                None => {
                    let part = Part::open(&disk::folder_of(path).join(file))?;
                    reader.parts.push(part);
                    numbers.insert(file, reader.parts.len() - 1);
                    reader.parts.len() - 1
                }
            };
            let part = &reader.parts[number];
            if part.metadata.info(name).is_none() {
                let what = format!("is not in {file}, where the index says it is");
                return Err(CheckpointError::corrupt_entry(path, name, what));
            }
            reader.names.insert(name.clone(), number);
        }
        Ok(reader)
    }

    /// The names of the tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    fn find(&self, name: &str) -> Option<(&Part, &TensorInfo)> {
        let part = self.parts.get(*self.names.get(name)?)?;
        Some((part, part.metadata.info(name)?))
    }

    /// The description of a tensor; `None` if there is none of this name.
    pub fn info(&self, name: &str) -> Option<WeightInfo> {
        let (_, info) = self.find(name)?;
        let dtype = dtype_of(info.dtype);
        Some(WeightInfo {
            name: name.to_owned(),
            dtype,
            dtype_name: dtype.map_or_else(|| info.dtype.to_string(), |d| d.to_string()),
            dims: info.shape.clone(),
            bytes: (info.data_offsets.1 - info.data_offsets.0) as u64,
        })
    }

    /// A tensor, read into its own memory.
    ///
    /// # Errors
    /// [`CheckpointError::NoEntry`], [`CheckpointError::Unsupported`] for a dtype that this engine does not
    /// have, [`CheckpointError::Io`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        let (part, info) = self.find(name).ok_or_else(|| CheckpointError::NoEntry {
            name: name.to_owned(),
            file: self.path.clone(),
            hint: format!(", which has {} others", self.names.len()),
        })?;
        let dtype = dtype_of(info.dtype).ok_or_else(|| {
            let what = format!("is of {}, which no tensor of this engine holds", info.dtype);
            CheckpointError::unsupported(&part.path, Some(name), what)
        })?;
        let failed = |e| CheckpointError::tensor(&part.path, name, e);
        let (begin, end) = info.data_offsets;
        let mut buffer = Buffer::try_zeroed(end - begin).ok_or_else(|| {
            let dims = info.shape.as_slice().into();
            failed(TensorError::TooLarge { dtype, dims })
        })?;
        let at = part.start + begin as u64;
        disk::read_exact_at(&part.file, buffer.bytes_mut(), at)
            .map_err(|e| CheckpointError::io(&part.path, "read", &e))?;
        Tensor::from_buffer(dtype, &info.shape, Arc::new(buffer)).map_err(failed)
    }
}

/// `true` for a bare file name, without a path.
fn is_name(text: &str) -> bool {
    Path::new(text).file_name().is_some_and(|name| name == text)
}

impl Part {
    fn open(path: &Path) -> Result<Part, CheckpointError> {
        let (file, length) = disk::open(&disk::SystemDisk, path)
            .map_err(|e| CheckpointError::io(path, "read", &e))?;
        let broken = |what: String| CheckpointError::corrupt(path, what);
        let no_header = || broken("is no safetensors file, or was cut in its header".to_owned());
        let mut start = [0; 8];
        let read = |bytes: &mut [u8], at| {
            disk::read_exact_at(&file, bytes, at).map_err(|e| CheckpointError::io(path, "read", &e))
        };
        let behind = length.checked_sub(8).ok_or_else(no_header)?;
        read(&mut start, 0)?;
        let header = u64::from_le_bytes(start);
        if header > behind || header > MAX_HEADER_BYTES {
            return Err(no_header());
        }
        let mut bytes = vec![0; usize::try_from(header).map_err(|_| no_header())?];
        read(&mut bytes, 8)?;
        if bytes.first() != Some(&b'{') {
            return Err(no_header());
        }
        let metadata: Metadata = serde_json::from_slice(&bytes)
            .map_err(|e| broken(format!("has a header that is wrong: {e}")))?;
        let data = metadata.data_len() as u64;
        if data != behind - header {
            return Err(broken(format!(
                "has {} bytes of data, and its header tells of {data}: it was not written to its end, or cut",
                behind - header
            )));
        }
        Ok(Part {
            path: path.to_owned(),
            file,
            metadata,
            start: 8 + header,
        })
    }
}

const DTYPES: [(DType, Dtype); 14] = [
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::C64, Dtype::C64),
    (DType::Bool, Dtype::BOOL),
];

fn dtype_of(dtype: Dtype) -> Option<DType> {
    let found = DTYPES.iter().find(|(_, theirs)| *theirs == dtype);
    found.map(|(ours, _)| *ours)
}

/// Writes a file of these tensors. It appears as a whole.
///
/// # Errors
/// [`CheckpointError::Duplicate`]; [`CheckpointError::Unsupported`] for strings, which the format
/// does not have, and for runtime objects; [`CheckpointError::Io`].
pub fn write(
    disk: &Arc<dyn Disk>,
    path: &Path,
    weights: &[(String, Tensor)],
) -> Result<(), CheckpointError> {
    let mut all = Vec::with_capacity(weights.len());
    for (name, tensor) in weights {
        let dtype = DTYPES.iter().find(|(ours, _)| *ours == tensor.dtype());
        let (_, dtype) = dtype.ok_or_else(|| {
            let what = format!(
                "cannot be written: safetensors has no {}; save a checkpoint or an .npz",
                tensor.dtype()
            );
            CheckpointError::unsupported(path, Some(name), what)
        })?;
        all.push((*dtype, name, tensor));
    }
    // The format's order: large elements first, so that all are aligned.
    all.sort_by(|(a, name, _), (b, other, _)| b.cmp(a).then(name.cmp(other)));
    let mut names: Vec<_> = all.iter().map(|(_, name, _)| *name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(CheckpointError::Duplicate {
            name: twice[0].clone(),
            file: path.to_owned(),
        });
    }
    let mut end = 0;
    let infos = all.iter().map(|(dtype, name, tensor)| {
        let begin = end;
        end += tensor.bytes().len();
        let info = TensorInfo {
            dtype: *dtype,
            shape: tensor.dims().to_vec(),
            data_offsets: (begin, end),
        };
        ((*name).clone(), info)
    });
    let failed =
        |e: String| CheckpointError::unsupported(path, None, format!("cannot be written: {e}"));
    let metadata = Metadata::new(None, infos.collect()).map_err(|e| failed(e.to_string()))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|e| failed(e.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');

    let mut file = AtomicFile::create(disk, path)?;
    let mut wrote = file.write_all(&(header.len() as u64).to_le_bytes());
    wrote = wrote.and_then(|()| file.write_all(&header));
    for (_, _, tensor) in &all {
        wrote = wrote.and_then(|()| file.write_all(tensor.bytes()));
    }
    wrote.map_err(|e| CheckpointError::io(path, "written", &e))?;
    file.finish()?;
    disk::sync_folder_of(disk, path)
}

#[cfg(test)]
mod tests;
