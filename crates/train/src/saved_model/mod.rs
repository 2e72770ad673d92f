//! SavedModels: folders with a graph, its signatures, and the values of its variables.
//!
//! It is TensorFlow's format for exported models: `tf.saved_model.load`, TensorFlow Serving and converters read models
//! that [`save_model`] writes. [`SavedModel::load`] reads those of TensorFlow.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{NewGraph, SourceOps, StateOps};
//! use thalweg_session::Session;
//! use thalweg_tensor::{DType, Tensor};
//! use thalweg_train::saved_model::{DEFAULT_SIGNATURE, ModelOptions, SavedModel, save_model};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir().join(format!("thalweg-model-{}", std::process::id()));
//! let g = Graph::new();
//! let x = g.placeholder("x", DType::F32, []);
//! let y = (x * g.variable("w", 3.0f32).value()).named("y");
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! let options = ModelOptions::new().signature(DEFAULT_SIGNATURE, [("in", x)], [("out", y)]);
//! save_model(&session, &folder, &options)?;
//!
//! let model = SavedModel::load(&folder)?;
//! let outputs = model.run(DEFAULT_SIGNATURE, &[("in", Tensor::scalar(5.0f32))])?;
//! assert_eq!(outputs["out"], Tensor::scalar(15.0f32));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

mod assets;
mod declare;
mod error;
mod format;
mod keys;
mod load;
mod model;
mod restore;
mod signature;
#[cfg(test)]
mod tests;
mod write;

pub use assets::with_assets;
pub use error::SavedModelError;
pub use format::{DEFAULT_SIGNATURE, SERVE, VARIABLES};
pub use load::{restore_meta_graph, restore_model};
pub use model::{LoadOptions, SavedModel};
pub use restore::{RestoredWeights, restore_weights};
pub use signature::{Signature, signatures};
pub use write::{ModelOptions, save_model};
