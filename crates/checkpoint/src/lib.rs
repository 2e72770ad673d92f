//! Files of weights: TensorFlow's checkpoints, safetensors, npz.
//!
//! ```
//! use thalweg_checkpoint::crc;
//!
//! assert_eq!(crc::masked(b"123456789"), 0xc78a_b0e5);
//! ```

pub mod bundle;
pub mod crc;
pub mod disk;
mod error;
pub mod state;
mod table;

pub use bundle::{BundleReader, BundleWriter, EntryInfo, EntryType, MergeOptions, SliceSpec};
pub use error::CheckpointError;
