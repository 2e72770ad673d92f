//! Writing of a checkpoint, in the background thread.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use thalweg_checkpoint::state::Retention;
use thalweg_checkpoint::{BundleWriter, CheckpointError, MergeOptions, SliceSpec, bundle};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

/// Name, slice of the whole, and value.
pub(super) type Entry = (String, Option<SliceSpec>, Tensor);

/// A checkpoint to write.
pub(super) struct WriteJob {
    pub(super) prefix: PathBuf,
    pub(super) entries: Vec<Entry>,
    /// Parts that servers have written, which go into the checkpoint.
    pub(super) part: Option<PathBuf>,
    pub(super) retention: Arc<Mutex<Retention>>,
}

/// Writes a checkpoint, then the state file.
pub(super) fn run(job: &Mutex<Option<WriteJob>>) -> Result<(), CheckpointError> {
    let Some(job) = job.lock().unpoisoned().take() else {
        return Ok(());
    };
    // The parts of servers, and the one that is written here, become one checkpoint when the index is renamed.
    let own = match &job.part {
        Some(part) => part.with_file_name("own"),
        None => job.prefix.clone(),
    };
    let mut writer = BundleWriter::create(&own)?;
    for (name, slice, tensor) in job.entries {
        writer.add_part(&name, slice.as_ref(), &tensor)?;
    }
    writer.finish()?;
    if let Some(part) = job.part {
        bundle::merge(&[part, own], &job.prefix, MergeOptions::default())?;
    }
    let mut retention = job.retention.lock().unpoisoned();
    retention.saved(&job.prefix)
}
