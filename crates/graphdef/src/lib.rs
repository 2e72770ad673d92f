//! TensorFlow's graphs: read from its files, and written to them.
//!
//! What a file holds becomes an ordinary graph ([`import()`]), and an ordinary graph becomes a file
//! ([`export()`]). Nothing else in Thalweg knows of protobuf.
//!
//! A file may come from anywhere: nothing in it can panic, and what it makes the importer allocate
//! is bounded by its size and by [`ImportOptions`].

pub mod attr;
pub mod describe;
pub mod dtype;
pub mod error;
pub mod events;
pub mod export;
pub mod file;
pub mod import;
// Made by prost, which formats as it likes.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "made by prost of what the .proto files say")]
pub mod messages;
pub mod meta;
pub mod names;
pub mod shape;
pub mod survey;
pub mod tensor;

pub use describe::{Description, describe};
pub use error::{ImportError, Problem, ValueError};
pub use export::{ExportError, ExportOptions, export};
pub use file::{File, FileError};
pub use import::{ImportOptions, Imported, import, import_and};
pub use messages::GraphDef;
pub use meta::import_meta_graph;
