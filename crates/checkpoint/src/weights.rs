//! Weights of any format: opened by the files at a path, saved by the file's extension.
//!
//! ```
//! use thalweg_checkpoint::{Weights, save_weights};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir().join(format!("thalweg-weights-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! // A checkpoint has no extension: dots are part of its prefix.
//! for name in ["w.npz", "w.safetensors", "model.ckpt-10"] {
//!     save_weights(folder.join(name), [("w", Tensor::scalar(2.0f32))])?;
//!     let weights = Weights::open(&folder.join(name))?;
//!     assert_eq!(weights.names(), ["w"]);
//!     assert_eq!(weights.tensor("w")?.to_scalar::<f32>()?, 2.0);
//! }
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thalweg_tensor::Tensor;

use crate::bundle::{BundleReader, BundleWriter, SliceSpec, index_path};
use crate::disk;
use crate::error::CheckpointError;
#[cfg(feature = "npz")]
use crate::npz::{NpzReader, NpzWriter};
use crate::object_graph;
#[cfg(feature = "safetensors")]
use crate::safetensors::{self, SafetensorsReader};
use crate::state::{self, PassedOver};
use crate::weight_info::WeightInfo;

/// The prefix of entries that are not weights: the state of random ops.
const INTERNAL_PREFIX: &str = "_thalweg/";
/// The file in a folder of sharded safetensors that lists the shards.
const SAFETENSORS_INDEX: &str = "model.safetensors.index.json";

/// An open file of weights, of any supported format.
pub struct Weights {
    path: PathBuf,
    source: OpenWeights,
    passed_over: Vec<PassedOver>,
}

enum OpenWeights {
    Bundle {
        reader: BundleReader,
        /// Keys by the variables' names, in an object-based checkpoint.
        keys: BTreeMap<String, String>,
    },
    /// A file of another format.
    #[cfg_attr(
        not(any(feature = "npz", feature = "safetensors")),
        allow(dead_code, reason = "each format is a feature")
    )]
    Arrays(Box<dyn Arrays>),
}

/// An open file of named arrays.
trait Arrays: Send + Sync {
    fn names(&self) -> Vec<&str>;
    fn info(&self, name: &str) -> Option<WeightInfo>;
    fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError>;
}

#[cfg(feature = "npz")]
impl Arrays for NpzReader {
    fn names(&self) -> Vec<&str> {
        self.names().collect()
    }

    fn info(&self, name: &str) -> Option<WeightInfo> {
        self.info(name)
    }

    fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        self.tensor(name)
    }
}

#[cfg(feature = "safetensors")]
impl Arrays for SafetensorsReader {
    fn names(&self) -> Vec<&str> {
        self.names().collect()
    }

    fn info(&self, name: &str) -> Option<WeightInfo> {
        self.info(name)
    }

    fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        self.tensor(name)
    }
}

#[cfg(feature = "npz")]
fn open_npz(path: &Path) -> Result<OpenWeights, CheckpointError> {
    Ok(OpenWeights::Arrays(Box::new(NpzReader::open(path)?)))
}

#[cfg(feature = "safetensors")]
fn open_safetensors(path: &Path) -> Result<OpenWeights, CheckpointError> {
    Ok(OpenWeights::Arrays(Box::new(SafetensorsReader::open(
        path,
    )?)))
}

#[cfg(not(feature = "npz"))]
fn open_npz(path: &Path) -> Result<OpenWeights, CheckpointError> {
    Err(without(path, ".npz"))
}

#[cfg(not(feature = "safetensors"))]
fn open_safetensors(path: &Path) -> Result<OpenWeights, CheckpointError> {
    Err(without(path, ".safetensors"))
}

/// The error of a format that this build does not have.
#[cfg(not(all(feature = "npz", feature = "safetensors")))]
fn without(path: &Path, format: &str) -> CheckpointError {
    let text = format!(
        "is a {format} file, and the program is built without them: add the feature `weights`"
    );
    CheckpointError::unsupported(path, None, text)
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weights")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl Weights {
    /// Opens the weights at a path: a checkpoint's prefix or its index, a folder with checkpoints
    /// (the newest one is opened) or with `model.safetensors.index.json`, a `.safetensors`, a
    /// `.npz`, or such an index.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`] if the path is none of these, and the errors of the formats.
    pub fn open(path: impl AsRef<Path>) -> Result<Weights, CheckpointError> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let source = if name.ends_with(".safetensors") || name.ends_with(".index.json") {
            open_safetensors(path)?
        } else if name.ends_with(".npz") {
            open_npz(path)?
        } else if let Some(prefix) = name.strip_suffix(".index").filter(|_| path.is_file()) {
            Self::bundle(&path.with_file_name(prefix))?
        } else if index_path(path).exists() || path.is_file() {
            Self::bundle(path)?
        } else {
            return Err(missing(path));
        };
        Ok(Weights {
            path: path.to_owned(),
            source,
            passed_over: Vec::new(),
        })
    }

    fn open_folder(folder: &Path) -> Result<Weights, CheckpointError> {
        let index = folder.join(SAFETENSORS_INDEX);
        let mut found = state::find_latest(folder)?;
        if found.newest.is_none() && !index.exists() {
            found = state::find_usable(folder, &[]);
        }
        let source = match found.newest {
            Some(prefix) => Self::bundle(&prefix)?,
            None if index.exists() => open_safetensors(&index)?,
            None => return Err(missing(folder)),
        };
        Ok(Weights {
            path: folder.to_owned(),
            source,
            passed_over: found.passed_over,
        })
    }

    /// The newer checkpoints of the opened folder that cannot be used, the newest first.
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.passed_over
    }

    fn bundle(prefix: &Path) -> Result<OpenWeights, CheckpointError> {
        let reader = BundleReader::open(prefix)?;
        let keys = object_graph::variable_keys(&reader)?;
        let keys = keys.map_or(BTreeMap::new(), |(keys, _)| keys);
        Ok(OpenWeights::Bundle { reader, keys })
    }

    /// The opened path: for a folder, the checkpoint that was found there.
    pub fn path(&self) -> &Path {
        match &self.source {
            OpenWeights::Bundle { reader, .. } => reader.prefix(),
            _ => &self.path,
        }
    }

    /// The names of the tensors, in order, without a training's own entries (`_thalweg/...`): in a
    /// checkpoint of TensorFlow 2's objects, their keys.
    pub fn names(&self) -> Vec<&str> {
        match &self.source {
            OpenWeights::Bundle { reader, .. } => {
                let is_weight =
                    |n: &&str| *n != object_graph::KEY && !n.starts_with(INTERNAL_PREFIX);
                reader.names().filter(is_weight).collect()
            }
            OpenWeights::Arrays(reader) => reader.names(),
        }
    }

    /// The description of a tensor; `None` if there is none of this name. In a checkpoint of
    /// TensorFlow 2's objects a name is a key or a variable's name.
    pub fn info(&self, name: &str) -> Option<WeightInfo> {
        match &self.source {
            OpenWeights::Bundle { reader, keys } => {
                let info = reader.info(key_of(reader, keys, name))?;
                Some(WeightInfo {
                    name: name.to_owned(),
                    dtype: info.dtype.known(),
                    dtype_name: info.dtype.to_string(),
                    dims: info.dims,
                    bytes: info.bytes,
                })
            }
            OpenWeights::Arrays(reader) => reader.info(name),
        }
    }

    /// A tensor.
    ///
    /// # Errors
    /// Those of the format; [`CheckpointError::NoEntry`] if there is none of this name.
    pub fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        match &self.source {
            OpenWeights::Bundle { reader, keys } => reader.tensor(key_of(reader, keys, name)),
            OpenWeights::Arrays(reader) => reader.tensor(name),
        }
    }

    /// A tensor, or a slice of it if `slice` is given.
    ///
    /// # Errors
    /// As [`Weights::tensor`]; [`CheckpointError::Slice`] if the tensor has other dimensions than
    /// the slice is of.
    pub fn part(&self, name: &str, slice: Option<&SliceSpec>) -> Result<Tensor, CheckpointError> {
        let Some(slice) = slice else {
            return self.tensor(name);
        };
        if let OpenWeights::Bundle { reader, keys } = &self.source {
            return reader.slice(key_of(reader, keys, name), slice);
        }
        let whole = self.tensor(name)?;
        slice.cut(&whole).ok_or_else(|| CheckpointError::Slice {
            slice: slice.to_string(),
            what: format!(
                " of {name} in {}, which is {}{}",
                self.path.display(),
                whole.dtype(),
                whole.shape()
            ),
        })
    }
}

fn key_of<'a>(reader: &BundleReader, keys: &'a BTreeMap<String, String>, name: &'a str) -> &'a str {
    match reader.contains(name) {
        true => name,
        false => keys.get(name).map_or(name, String::as_str),
    }
}

fn missing(path: &Path) -> CheckpointError {
    let advice = match path.is_dir() {
        true => {
            "the folder has no state file named checkpoint, no index of one, and no model.safetensors.index.json; give a file or a prefix"
        }
        false => {
            "give a checkpoint's prefix as model.ckpt-1000, a folder of checkpoints, a .safetensors or an .npz file"
        }
    };
    CheckpointError::Missing {
        path: path.to_owned(),
        kind: "file of weights",
        advice: advice.to_owned(),
    }
}

/// Extensions of other formats, which are not part of a checkpoint's prefix.
const OTHER_EXTENSIONS: [&str; 14] = [
    "h5", "hdf5", "keras", "pb", "pbtxt", "npy", "pt", "pth", "bin", "onnx", "tflite", "pkl",
    "json", "index",
];

/// Saves tensors in the format of the path's extension: `.safetensors`, `.npz`, or else a
/// checkpoint of this prefix. An existing file is replaced when the new one is complete.
///
/// # Errors
/// Those of the formats; [`CheckpointError::Unsupported`] for the extension of another format.
pub fn save_weights<N: Into<String>>(
    path: impl AsRef<Path>,
    weights: impl IntoIterator<Item = (N, Tensor)>,
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let disk = &disk::system();
    let weights = weights
        .into_iter()
        .map(|(name, tensor)| (name.into(), tensor));
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    match &*extension.to_ascii_lowercase() {
        #[cfg(feature = "safetensors")]
        "safetensors" => safetensors::write(disk, path, &weights.collect::<Vec<_>>()),
        #[cfg(not(feature = "safetensors"))]
        "safetensors" => Err(without(path, ".safetensors")),
        #[cfg(not(feature = "npz"))]
        "npz" => Err(without(path, ".npz")),
        #[cfg(feature = "npz")]
        "npz" => {
            let mut writer = NpzWriter::create(disk, path)?;
            for (name, tensor) in weights {
                writer.add(&name, &tensor)?;
            }
            writer.finish()
        }
        other if OTHER_EXTENSIONS.contains(&other) => Err(CheckpointError::unsupported(
            path,
            None,
            format!(
                "cannot be written: .{other} is none of .safetensors, .npz, or a checkpoint's prefix as model.ckpt-1000"
            ),
        )),
        _ => {
            let mut writer = BundleWriter::create_on(disk, path)?;
            for (name, tensor) in weights {
                writer.add(&name, &tensor)?;
            }
            writer.finish()
        }
    }
}
