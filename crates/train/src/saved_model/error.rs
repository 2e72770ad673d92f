//! What can be wrong with a SavedModel.

use std::path::PathBuf;

use thalweg_checkpoint::CheckpointError;
use thalweg_graph::GraphError;
use thalweg_graphdef::{ExportError, FileError, ImportError};
use thalweg_session::SessionError;
use thiserror::Error;

use crate::error::TrainError;
use crate::saver_nodes::SaverNodesError;

/// Why a SavedModel could not be written, read or used.
#[derive(Error)]
#[non_exhaustive]
pub enum SavedModelError {
    /// Something is in the folder already.
    #[error("{} is there and not empty: give a SavedModel a folder of its own", .folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds no file of a SavedModel, or one that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its graph cannot be imported, or there is none with the tags.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The graph cannot be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The values of its variables cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The graph does not take the nodes that save and restore.
    #[error(transparent)]
    Saver(#[from] SaverNodesError),
    /// A mistake in the graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// No session can run it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A step failed.
    #[error(transparent)]
    Step(#[from] TrainError),
    /// No signature of this name.
    #[error("{model} has no signature '{name}': it has {}", listed(.there))]
    NoSignature {
        /// The model.
        model: String,
        /// What was asked for.
        name: String,
        /// The signatures that there are.
        there: Vec<String>,
    },
    /// A signature that names something that the graph does not have.
    #[error(
        "{model}: signature '{signature}' has {tensor} as its '{name}', which is not in the graph"
    )]
    Signature {
        /// The model.
        model: String,
        /// The signature.
        signature: String,
        /// The input's or output's name in the signature.
        name: String,
        /// What stands for it.
        tensor: String,
    },
    /// Inputs that a signature does not take, or not all that it takes.
    #[error("{model}: signature '{signature}' takes {}, and was given {}", listed(.wanted), listed(.given))]
    Inputs {
        /// The model.
        model: String,
        /// The signature.
        signature: String,
        /// What it takes.
        wanted: Vec<String>,
        /// What it was given.
        given: Vec<String>,
    },
    /// What is to run when a model is loaded is not in its graph.
    #[error("{model} is to run '{node}' when it is loaded, which is not in the graph")]
    NoInit {
        /// The model.
        model: String,
        /// The node.
        node: String,
    },
}

fn listed(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// The sentence: it is what a program prints that returns the error from `main`.
impl std::fmt::Debug for SavedModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
