//! Files of weights: TensorFlow's checkpoints, safetensors, npz.
//!
//! - [`bundle`]: checkpoints of TensorFlow 1 and 2, written and read; [`object_graph`]: names in
//!   those of TensorFlow 2's objects.
//! - [`state`]: the checkpoints of a folder, and their retention.
//! - [`safetensors`], [`npz`]: other formats; [`Weights`] opens any of them.
//! - [`disk`]: atomic writes of files.
//!
//! Files are untrusted: every value in a file is checked before use. A torn or crafted file is an
//! error, and takes no more memory than a multiple of its length: a small one, except for a
//! compressed `.npz`.
//!
//! ```
//! use thalweg_checkpoint::{Weights, save_weights};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir().join(format!("thalweg-crate-{}", std::process::id()));
//! let prefix = folder.join("model.ckpt-100");
//! save_weights(&prefix, [("dense/kernel", Tensor::from([[1.0f32, 2.0]]))])?;
//! let weights = Weights::open(&prefix)?;
//! assert_eq!(weights.tensor("dense/kernel")?.dims(), [1, 2]);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

pub mod bundle;
pub mod crc;
pub mod disk;
mod error;
#[cfg(feature = "npz")]
pub mod npz;
pub mod object_graph;
mod open;
#[cfg(feature = "safetensors")]
pub mod safetensors;
pub mod state;
mod table;
mod weight_info;
mod weights;

pub use bundle::{
    BundleReader, BundleWriter, EntryInfo, EntryType, FirstReader, MergeOptions, SliceSpec,
};
pub use error::CheckpointError;
pub use object_graph::VariableNames;
pub use weight_info::WeightInfo;
pub use weights::{Weights, save_weights};
