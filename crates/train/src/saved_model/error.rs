//! Errors of SavedModels.

use std::path::PathBuf;

use thalweg_checkpoint::CheckpointError;
use thalweg_graph::GraphError;
use thalweg_graphdef::{ExportError, FileError, ImportError};
use thalweg_session::SessionError;
use thiserror::Error;

use crate::error::TrainError;
use crate::saver_nodes::SaverNodesError;

/// Error of writing, reading or using a SavedModel.
#[derive(Error)]
#[non_exhaustive]
pub enum SavedModelError {
    /// The folder is not empty.
    #[error("{} is there and not empty: give a SavedModel a folder of its own", .folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds no file of a SavedModel, or one that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The graph cannot be imported, or there is none with the tags.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The graph cannot be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The values of its variables cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The nodes that save and restore cannot be added.
    #[error(transparent)]
    Saver(#[from] SaverNodesError),
    /// A mistake in the graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// No session can run the graph.
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
        /// The requested signature.
        name: String,
        /// The signatures of the model.
        there: Vec<String>,
    },
    /// A signature names an output that the graph does not have.
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
        /// The output that it names.
        tensor: String,
    },
    /// The inputs are not those of the signature.
    #[error("{model}: signature '{signature}' takes {}, and was given {}", listed(.expected), listed(.given))]
    Inputs {
        /// The model.
        model: String,
        /// The signature.
        signature: String,
        /// Inputs of the signature.
        expected: Vec<String>,
        /// Inputs of the call.
        given: Vec<String>,
    },
    /// The node to run when the model is loaded is not in its graph.
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

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for SavedModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
