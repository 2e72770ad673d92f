//! `BundleReader::open`: opens a checkpoint; an error of damaged files names the newest usable
//! checkpoint of the folder.

use std::path::Path;

use crate::bundle::{BundleReader, with_newest};
use crate::disk::{Disk, SystemDisk};
use crate::error::CheckpointError;
use crate::state::newest_beside;

impl BundleReader {
    /// Opens the checkpoint of this prefix, as `run/model.ckpt-1000`.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`] if there is none; [`CheckpointError::Corrupt`] if its index is
    /// damaged or a data file is shorter than the index requires, with the newest checkpoint of the
    /// folder that can be used instead; [`CheckpointError::Unsupported`] for one of a big-endian
    /// machine, and for TensorFlow's first format.
    pub fn open(prefix: impl AsRef<Path>) -> Result<BundleReader, CheckpointError> {
        Self::open_on(&SystemDisk, prefix.as_ref())
    }

    /// As [`BundleReader::open`], on this disk.
    ///
    /// # Errors
    /// As [`BundleReader::open`].
    pub fn open_on(disk: &dyn Disk, prefix: &Path) -> Result<BundleReader, CheckpointError> {
        let opened = Self::open_alone(disk, prefix);
        let mut reader = opened.map_err(|e| with_newest(e, prefix, newest_beside))?;
        reader.find_newest = newest_beside;
        Ok(reader)
    }
}
