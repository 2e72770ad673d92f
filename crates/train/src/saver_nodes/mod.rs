//! SaverNodes: the nodes of TensorFlow's `tf.compat.v1.train.Saver`, which write the variables of a graph to a
//! checkpoint, and read them back.
//!
//! A program of TensorFlow finds them in an exported MetaGraph or SavedModel, and a sharded save runs them: each device
//! then writes its own variables.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{NewGraph, StateOps};
//! use thalweg_train::saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
//!
//! # fn main() -> Result<(), thalweg_train::saver_nodes::SaverNodesError> {
//! let g = Graph::new();
//! g.variable("w", [1.0f32, 2.0]);
//! let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
//! let saver = SaverNodes::add(&g, &saved, &SaverOptions::new())?;
//!
//! assert_eq!(saver.save.name(), "save/SaveV2");
//! assert_eq!(saver.restore.name(), "save/restore_all");
//! // Who runs the nodes feeds the prefix of the files here.
//! assert_eq!(saver.filename.name(), "save/Const:0");
//! # Ok(())
//! # }
//! ```

mod build;
mod error;
mod nodes;
mod options;
mod saved_variable;
#[cfg(test)]
mod tests;

pub use error::SaverNodesError;
pub use nodes::SaverNodes;
pub use options::SaverOptions;
pub use saved_variable::SavedVariable;
