//! `load`: imports a file into a graph in one call.

use std::path::Path;

use thalweg_graph::Graph;
use thiserror::Error;

use crate::error::ImportError;
use crate::file::{self, File, FileError};
use crate::import::{ImportOptions, Imported, import};
use crate::meta::import_meta_graph;

/// The reason why a file's graph could not be loaded.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It holds no graph that can be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Prints the message: a program that returns the error from `main` prints this.
impl std::fmt::Debug for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Adds the graph of a file to `graph`: of a GraphDef, of a MetaGraphDef (`.meta`), or of the
/// folder of a SavedModel, which has only one graph, or one that is tagged "serve".
///
/// Nodes keep their names. [`import()`] takes options and gives them a prefix.
///
/// # Errors
/// See [`LoadError`]; nothing is added then.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_graphdef::{ExportOptions, LoadError, export, file, load};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let path = std::env::temp_dir().join(format!("thalweg-load-{}.pb", std::process::id()));
/// let g = Graph::new();
/// let _y = (g.placeholder("x", DType::F32, []) * 2.0).named("y");
/// std::fs::write(&path, file::encode(&export(&g, &ExportOptions::new())?))?;
///
/// let g = Graph::new();
/// let model = load(&g, &path)?;
/// assert_eq!(model.output("y").ok_or("no y")?.name(), "y:0");
///
/// std::fs::remove_file(&path)?;
/// assert!(matches!(load(&Graph::new(), &path), Err(LoadError::File(_))));
/// # Ok(())
/// # }
/// ```
pub fn load(graph: &Graph, path: impl AsRef<Path>) -> Result<Imported<'_>, LoadError> {
    let path = path.as_ref();
    let origin = path.display().to_string();
    let options = ImportOptions::new().origin(origin.clone());
    let imported = match file::read(path)? {
        File::Graph(def) => import(graph, &def, &options),
        File::MetaGraph(meta) => import_meta_graph(graph, &meta, &options),
        File::SavedModel(model) => import_meta_graph(graph, model.pick(&[], &origin)?, &options),
    };
    Ok(imported?)
}
