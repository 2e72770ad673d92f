//! Atomic writes: a temporary name beside the target, `fsync`, rename, `fsync` of the folder.
//!
//! All writes of this crate go through a [`Disk`], so that a test can stop a save at each
//! operation.
//!
//! ```
//! use std::io::Write;
//! use thalweg_checkpoint::disk::{self, AtomicFile};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::temp_dir().join(format!("thalweg-disk-{}.txt", std::process::id()));
//! let mut file = AtomicFile::create(&disk::system(), &path)?;
//! file.write_all(b"whole")?;
//! assert!(!path.exists());
//! file.finish()?;
//! assert_eq!(std::fs::read(&path)?, b"whole");
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

mod atomic;
#[cfg(unix)]
mod folder;
mod limited;
#[cfg(fuzzing)]
pub mod memory;
mod read;
mod stale;
mod system;
mod traits;

pub(crate) use atomic::sync_folder_of;
pub use atomic::{AtomicFile, write};
#[cfg(unix)]
pub use folder::FolderDisk;
pub use limited::SizeLimitedFile;
#[cfg(any(feature = "npz", feature = "safetensors"))]
pub(crate) use read::read_exact_at;
pub(crate) use read::{ReadFile, exists, open, read_whole, read_with_crc};
pub use stale::remove_stale;
pub(crate) use system::folder_of;
pub use system::{SystemDisk, system};
pub use traits::{Disk, DiskFile};
