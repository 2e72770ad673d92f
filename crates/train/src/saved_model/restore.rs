//! Variables get the values of a checkpoint, or of a file of weights.

use std::path::Path;

use thalweg_checkpoint::{BundleReader, CheckpointError, SliceSpec, Weights};
use thalweg_graph::OutputId;
use thalweg_graphdef::messages::MetaGraphDef;
use thalweg_tensor::Tensor;
use thalweg_tensor::shape::elements;

use super::SavedModelError;
use super::keys::{Restored, wanted};
use crate::steps::Steps;
use crate::values;

/// The node by which TensorFlow's savers restore.
const RESTORE_ALL: &str = "save/restore_all";

/// Gives a session's variables the values of a checkpoint: those that the nodes of `restore` would give
/// them, or else those of the graph's declared variables, by their names.
///
/// A program of TensorFlow may save a variable under any name; only the nodes know it. The nodes are not
/// run: the session needs no right to read files.
pub(super) fn restore(
    session: &dyn Steps,
    checkpoint: &Path,
    restore: Option<&str>,
) -> Result<usize, SavedModelError> {
    let all = wanted(session.graph(), restore);
    if all.is_empty() {
        return Ok(0);
    }
    let reader = BundleReader::open(checkpoint)?;
    let values = all
        .iter()
        .map(|one| Ok((one.handle, of_bundle(&reader, one)?)));
    let values: Vec<(OutputId, Tensor)> = values.collect::<Result<_, CheckpointError>>()?;
    let count = values.len();
    values::assign(session, values)?;
    Ok(count)
}

fn of_bundle(reader: &BundleReader, one: &Restored) -> Result<Tensor, CheckpointError> {
    match &*one.slice {
        "" => reader.tensor(&one.key),
        text => SliceSpec::parse(text).and_then(|slice| reader.slice(&one.key, &slice)),
    }
}

/// What [`restore_weights`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredWeights {
    /// How many variables have values now.
    pub restored: usize,
    /// The names of those that the weights do not have, as the weights would call them.
    pub missing: Vec<String>,
}

/// Gives the variables of a session's graph, which was imported under its own names, the values that
/// weights have for them: of a checkpoint, a safetensors or an npz file. Others stay as they are: a file of
/// weights need not have what an optimizer keeps.
///
/// Which tensor is which variable's is told by the nodes that `meta` names, or those of `save/restore_all`,
/// or else by the variables' names. They are not run.
///
/// # Errors
/// [`SavedModelError::Checkpoint`]; [`SavedModelError::Step`] of a value that does not fit its variable.
///
/// ```
/// use thalweg_checkpoint::{Weights, save_weights};
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_tensor::Tensor;
/// use thalweg_train::saved_model::restore_weights;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let path = std::env::temp_dir().join(format!("thalweg-restored-{}.npz", std::process::id()));
/// save_weights(&path, [("w", Tensor::scalar(3.0f32))])?;
///
/// let g = Graph::new();
/// let w = g.variable("w", 0.0f32);
/// g.variable("w/Momentum", 0.0f32);
/// let session = Session::new(&g)?;
/// let done = restore_weights(&session, &Weights::open(&path)?, None)?;
/// assert_eq!((done.restored, done.missing), (1, vec!["w/Momentum".to_owned()]));
/// assert_eq!(session.run::<f32>(w, [])?, 3.0);
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
pub fn restore_weights(
    session: &dyn Steps,
    weights: &Weights,
    meta: Option<&MetaGraphDef>,
) -> Result<RestoredWeights, SavedModelError> {
    let node = meta.and_then(|m| m.saver_def.as_ref());
    let node = node.map_or(RESTORE_ALL, |s| &*s.restore_op_name);
    let mut done = RestoredWeights::default();
    let mut values = Vec::new();
    for one in wanted(session.graph(), Some(node)) {
        if weights.info(&one.key).is_none() {
            done.missing.push(one.key);
            continue;
        }
        let whole = weights.tensor(&one.key)?;
        let value = match &*one.slice {
            "" => whole,
            text => {
                let slice = SliceSpec::parse(text)?;
                cut(&whole, &slice).ok_or_else(|| CheckpointError::Slice {
                    slice: text.to_owned(),
                    what: format!(
                        " of {} in {}, which is {}{}",
                        one.key,
                        weights.path().display(),
                        whole.dtype(),
                        whole.shape()
                    ),
                })?
            }
        };
        values.push((one.handle, value));
    }
    done.restored = values.len();
    values::assign(session, values)?;
    Ok(done)
}

/// A part of a tensor; nothing of another one than the slice is of, or of strings.
fn cut(whole: &Tensor, slice: &SliceSpec) -> Option<Tensor> {
    let size = whole.dtype().size();
    if whole.dims() != slice.full_dims() || size == 0 {
        return None;
    }
    let dims = slice.dims();
    let starts = slice
        .extents()
        .iter()
        .map(|e| e.map_or(0, |(start, _)| start));
    let starts: Vec<usize> = starts.collect();
    let mut bytes = Vec::with_capacity(elements(&dims).checked_mul(size)?);
    // Rows of the last dimension lie side by side.
    let width = dims.last().copied().unwrap_or(1).checked_mul(size)?;
    let rows = elements(&dims[..dims.len().saturating_sub(1)]);
    for row in 0..rows {
        let mut rest = row;
        let (mut at, mut stride) = (0, 1);
        for axis in (0..dims.len()).rev() {
            let last = axis + 1 == dims.len();
            let own = if last { 0 } else { rest % dims[axis] };
            if !last {
                rest /= dims[axis];
            }
            at += (starts[axis] + own) * stride;
            stride *= whole.dims()[axis];
        }
        bytes.extend_from_slice(whole.bytes().get(at * size..)?.get(..width)?);
    }
    Tensor::from_bytes(whole.dtype(), &dims, &bytes).ok()
}
