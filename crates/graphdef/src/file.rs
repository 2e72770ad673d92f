//! Reading of TensorFlow's files: GraphDef, MetaGraphDef and SavedModel.
//!
//! ```
//! use thalweg_graphdef::file::{decode, encode, read};
//! use thalweg_graphdef::{File, FileError, GraphDef};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::temp_dir().join(format!("thalweg-{}.pb", std::process::id()));
//! std::fs::write(&path, encode(&GraphDef::default()))?;
//! assert_eq!(read(&path)?, File::Graph(GraphDef::default()));
//! std::fs::remove_file(&path)?;
//! assert!(matches!(read(&path), Err(FileError::Io { .. })));
//!
//! // Bytes of no valid message.
//! assert!(decode::<GraphDef>(b"no graph", "these bytes", "GraphDef").is_err());
//! # Ok(())
//! # }
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use thiserror::Error;

use crate::error::ImportError;
use crate::export::MAX_MESSAGE_BYTES;
use crate::messages::{GraphDef, MetaGraphDef, SavedModel};
use crate::sizes::{TooLarge, decoded_bytes};

/// The file in a SavedModel's folder that holds its message.
pub const SAVED_MODEL: &str = "saved_model.pb";

/// The content of a file of TensorFlow's.
#[derive(Clone, Debug, PartialEq)]
pub enum File {
    /// A graph.
    Graph(GraphDef),
    /// A graph with variables, collections and signatures.
    MetaGraph(Box<MetaGraphDef>),
    /// Several of those, distinguished by tags.
    SavedModel(SavedModel),
}

/// The reason why a file could not be read.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FileError {
    /// A system call failed.
    #[error("{}: {reason}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// A file that exceeds the limit of messages.
    #[error("{} has {bytes} bytes, and a message of protobuf has at most {MAX_MESSAGE_BYTES}", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A message that exceeds its memory limit.
    #[error("{} takes more than {limit} bytes of memory once it is decoded, which is more than it may take here", .path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A graph as text.
    #[error("{} is a graph as text, which is not read: write it as binary, with as_text=False", .path.display())]
    Text {
        /// The file.
        path: PathBuf,
    },
    /// Bytes that cannot be decoded.
    #[error(transparent)]
    Decode(#[from] ImportError),
}

/// Prints the message: a program that returns the error from `main` prints this.
impl std::fmt::Debug for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Reads a file of TensorFlow's: a folder is a SavedModel, `.meta` a MetaGraphDef, anything else a
/// GraphDef. Its content may take as much memory as the machine has free, if the system reports
/// that.
///
/// # Errors
/// See [`FileError`].
pub fn read(path: &Path) -> Result<File, FileError> {
    read_within(path, available())
}

/// The bytes of free memory; the largest number if the system does not report it.
fn available() -> u64 {
    let all = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = all.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}

/// As [`read`], for an untrusted file: its content takes at most `limit` bytes of memory once it is
/// decoded. A small file may need any amount.
///
/// # Errors
/// As [`read`], and [`FileError::Memory`].
///
/// ```
/// use thalweg_graphdef::messages::{GraphDef, NodeDef};
/// use thalweg_graphdef::{FileError, file};
///
/// let def = GraphDef { node: vec![NodeDef::default(); 1000], ..GraphDef::default() };
/// let path = std::env::temp_dir().join(format!("thalweg-within-{}.pb", std::process::id()));
/// std::fs::write(&path, file::encode(&def))?;
/// assert!(file::read_within(&path, 1 << 20).is_ok());
/// assert!(matches!(file::read_within(&path, 1 << 10), Err(FileError::Memory { .. })));
/// std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_within(path: &Path, limit: u64) -> Result<File, FileError> {
    if path.is_dir() {
        return read_within(&path.join(SAVED_MODEL), limit);
    }
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    if matches!(extension, "pbtxt" | "txt" | "prototxt") {
        return Err(FileError::Text {
            path: path.to_owned(),
        });
    }
    let io = |error: std::io::Error| FileError::Io {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let bytes = fs::metadata(path).map_err(io)?.len();
    if bytes > MAX_MESSAGE_BYTES as u64 {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            bytes,
        });
    }
    let bytes = fs::read(path).map_err(io)?;
    let origin = path.display().to_string();
    let fits = |decoded: Result<u64, TooLarge>| match decoded {
        Ok(_) => Ok(()),
        Err(TooLarge { limit }) => Err(FileError::Memory {
            path: path.to_owned(),
            limit,
        }),
    };
    Ok(if path.file_name().is_some_and(|n| n == SAVED_MODEL) {
        fits(decoded_bytes::<SavedModel>(&bytes, limit))?;
        File::SavedModel(decode(&bytes, &origin, "SavedModel")?)
    } else if extension == "meta" {
        fits(decoded_bytes::<MetaGraphDef>(&bytes, limit))?;
        File::MetaGraph(Box::new(decode(&bytes, &origin, "MetaGraphDef")?))
    } else {
        fits(decoded_bytes::<GraphDef>(&bytes, limit))?;
        File::Graph(decode(&bytes, &origin, "GraphDef")?)
    })
}

/// Decodes bytes as a message of this name.
///
/// # Errors
/// [`ImportError::Decode`].
pub fn decode<M: Message + Default>(
    bytes: &[u8],
    origin: &str,
    message: &'static str,
) -> Result<M, ImportError> {
    M::decode(bytes).map_err(|error| ImportError::Decode {
        origin: origin.to_owned(),
        message,
        reason: error.to_string(),
    })
}

/// Encodes a message as the bytes of a file.
pub fn encode(message: &impl Message) -> Vec<u8> {
    message.encode_to_vec()
}

impl SavedModel {
    /// As [`SavedModel::pick`], and returns the graph without a copy.
    ///
    /// # Errors
    /// As [`SavedModel::pick`].
    pub fn take(mut self, tags: &[String], origin: &str) -> Result<MetaGraphDef, ImportError> {
        let picked = std::ptr::from_ref(self.pick(tags, origin)?);
        let at = self
            .meta_graphs
            .iter()
            .position(|m| std::ptr::eq(m, picked));
        Ok(self.meta_graphs.swap_remove(at.unwrap_or_default()))
    }

    /// The only graph that has all of these tags; with no tags, the only one, or else the one that
    /// is tagged `serve`.
    ///
    /// # Errors
    /// [`ImportError::Meta`], with the existing tags.
    pub fn pick(&self, tags: &[String], origin: &str) -> Result<&MetaGraphDef, ImportError> {
        let of = |graph: &'_ MetaGraphDef| -> Vec<String> {
            graph
                .meta_info_def
                .iter()
                .flat_map(|i| i.tags.clone())
                .collect()
        };
        let serve = ["serve".to_owned()];
        let tags = match (tags, &self.meta_graphs[..]) {
            ([], [only]) => return Ok(only),
            ([], _) => &serve[..],
            _ => tags,
        };
        let has = |graph: &&MetaGraphDef| tags.iter().all(|t| of(graph).contains(t));
        let mut found = self.meta_graphs.iter().filter(has);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (first, _) => {
                let there: Vec<String> = self
                    .meta_graphs
                    .iter()
                    .map(|g| format!("[{}]", of(g).join(", ")))
                    .collect();
                let how_many = if first.is_none() {
                    "no graph"
                } else {
                    "several graphs"
                };
                let what = format!(
                    "{how_many} with tags [{}]: there are graphs with {}",
                    tags.join(", "),
                    match there.is_empty() {
                        true => "none at all".to_owned(),
                        false => there.join(", "),
                    }
                );
                Err(ImportError::Meta {
                    origin: origin.to_owned(),
                    what,
                })
            }
        }
    }
}
