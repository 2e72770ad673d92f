//! What the background thread does.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_checkpoint::state::Retention;
use thalweg_checkpoint::{BundleWriter, CheckpointError, SliceSpec};
use thalweg_tensor::Tensor;

/// A name, the slice that the value is, and the value.
pub(super) type Entry = (String, Option<SliceSpec>, Tensor);

/// A checkpoint that is to be written.
pub(super) struct Job {
    pub(super) prefix: PathBuf,
    pub(super) entries: Vec<Entry>,
    pub(super) retention: Arc<Mutex<Retention>>,
}

/// Writes a checkpoint, then the state file.
pub(super) fn run(job: &Mutex<Option<Job>>) -> Result<(), CheckpointError> {
    let Some(job) = job.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return Ok(());
    };
    let mut writer = BundleWriter::create(&job.prefix)?;
    for (name, slice, tensor) in job.entries {
        match slice {
            None => writer.add(&name, &tensor)?,
            Some(slice) => writer.add_slice(&name, &slice, &tensor)?,
        }
    }
    writer.finish()?;
    let mut retention = job.retention.lock().unwrap_or_else(PoisonError::into_inner);
    retention.saved(&job.prefix)
}
