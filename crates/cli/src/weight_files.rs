//! Opens files of weights; tells which checkpoints of a folder cannot be used.

use std::path::Path;

use thalweg_checkpoint::Weights;

use crate::failure::Failure;
use crate::output;

/// Opens the weights at a path. Newer checkpoints of a folder that are passed over are told on standard error.
pub(crate) fn open_weights(path: &Path) -> Result<Weights, Failure> {
    let weights = Weights::open(path)?;
    for one in weights.passed_over() {
        output::error(format_args!("warning: {one}"));
    }
    Ok(weights)
}
