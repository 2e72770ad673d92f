//! The state file `DIR/checkpoint`, which lists a folder's checkpoints, and retention of
//! checkpoints.
//!
//! Source: TensorFlow's `python/training/checkpoint_management.py`.
//!
//! ```
//! use thalweg_checkpoint::{BundleWriter, state};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir().join(format!("thalweg-state-{}", std::process::id()));
//! let prefix = folder.join("model.ckpt-7");
//! let mut writer = BundleWriter::create(&prefix)?;
//! writer.add("w", &Tensor::scalar(1.0f32))?;
//! writer.finish()?;
//! let mut retention = state::Retention::open(&folder, state::RetentionOptions::default())?;
//! retention.saved(&prefix)?;
//!
//! assert_eq!(state::latest_checkpoint(&folder)?, Some(prefix));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

mod file;
mod newest;
mod retention;
mod text_format;

pub use file::CheckpointState;
pub(crate) use newest::newest_beside;
pub use newest::{
    FoundCheckpoint, PassedOver, find_latest, find_usable, latest_checkpoint, newest_usable,
};
pub use retention::{Retention, RetentionOptions, delete_checkpoint};

#[cfg(test)]
mod tests;
