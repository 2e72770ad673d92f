//! TensorFlow's graphs: read from its files, and written to them.
//!
//! What a file holds becomes an ordinary graph ([`load`], [`import()`]), and an ordinary graph becomes a file
//! ([`export()`]). Nothing else in Thalweg knows of protobuf.
//!
//! A file may come from anywhere: nothing in it can panic, and what it makes the importer allocate
//! is bounded by its size and by [`ImportOptions`].
//!
//! A graph goes into the bytes of a file, and another graph comes out of them:
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::{ExportOptions, GraphDef, ImportOptions, export, file, import};
//! use thalweg_ops::{NewGraph, SourceOps};
//! use thalweg_session::{Feeding, Session};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Graph::new();
//! let _y = (g.placeholder("x", DType::F32, []) * 2.0).named("y");
//! let bytes = file::encode(&export(&g, &ExportOptions::default())?);
//!
//! let def: GraphDef = file::decode(&bytes, "y.pb", "GraphDef")?;
//! let g = Graph::new();
//! let model = import(&g, &def, &ImportOptions::default())?;
//! let (x, y) = (model.output("x").ok_or("no x")?, model.output("y").ok_or("no y")?);
//! let session = Session::new(&g)?;
//! assert_eq!(session.run::<f32>(y, [x.feed(3.0f32)])?, 6.0);
//! # Ok(())
//! # }
//! ```

pub mod attr;
pub mod describe;
pub mod dtype;
pub mod error;
pub mod export;
pub mod file;
pub mod freeze;
pub mod import;
mod load;
/// The messages of TensorFlow's files. Names and numbers are TensorFlow's.
///
/// ```
/// use thalweg_graphdef::file;
/// use thalweg_graphdef::messages::{GraphDef, NodeDef};
///
/// # fn main() -> Result<(), thalweg_graphdef::ImportError> {
/// let node = NodeDef { name: "nothing".into(), op: "NoOp".into(), ..NodeDef::default() };
/// let def = GraphDef { node: vec![node], ..GraphDef::default() };
/// let read: GraphDef = file::decode(&file::encode(&def), "a file", "GraphDef")?;
/// assert_eq!(read, def);
/// # Ok(())
/// # }
/// ```
// Made by prost, which formats as it likes.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "made by prost of what the .proto files say")]
pub mod messages;
pub mod meta;
pub mod names;
pub mod shape;
pub mod sizes;
pub mod survey;
pub mod tensor;

pub use describe::{Description, describe};
pub use error::{ImportError, Problem, ValueError};
pub use export::{ExportError, ExportOptions, export};
pub use file::{File, FileError};
pub use freeze::{FreezeError, freeze};
pub use import::{ImportOptions, Imported, import, import_and};
pub use load::{LoadError, load};
pub use messages::GraphDef;
pub use meta::{MetaOptions, export_meta_graph, import_meta_graph};
