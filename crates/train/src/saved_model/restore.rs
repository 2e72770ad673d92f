//! Restoring of variables from a checkpoint, or from a file of weights.

use std::collections::BTreeSet;
use std::path::Path;

use thalweg_checkpoint::{BundleReader, CheckpointError, SliceSpec, Weights};
use thalweg_graph::{Graph, OutputId};
use thalweg_graphdef::messages::MetaGraphDef;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::Tensor;

use super::declare::{declare, trainable_keys};
use super::error::SavedModelError;
use super::keys::{RestoredTable, RestoredVariable, restored_tables, restored_variables};
use crate::steps::Steps;
use crate::values;

/// Node by which TensorFlow's savers restore.
const RESTORE_ALL: &str = "save/restore_all";

/// Assigns the values of a checkpoint to a session's variables: those that the nodes of `restore` would assign, or else
/// those of the graph's declared variables, by their names.
///
/// A program of TensorFlow may save a variable under any name, which only the nodes know. They are not run: the session
/// needs no right to read files. All of these variables are declared then. Lookup tables that the nodes fill get their
/// entries.
pub(super) fn restore(
    session: &dyn Steps,
    checkpoint: &Path,
    meta: &MetaGraphDef,
) -> Result<usize, SavedModelError> {
    let node = meta.saver_def.as_ref().map(|s| &*s.restore_op_name);
    let mut all = restored_variables(session.graph(), node);
    let reader = BundleReader::open(checkpoint)?;
    add_named(session.graph(), &reader, &mut all)?;
    fill_tables(session, &reader, &restored_tables(session.graph(), node))?;
    if all.is_empty() {
        return Ok(0);
    }
    declare(session.graph(), &all, &trainable_keys(&reader, meta)?);
    let values = all
        .iter()
        .map(|one| Ok((one.handle, read_value(&reader, one)?)));
    let values: Vec<(OutputId, Tensor)> = values.collect::<Result<_, CheckpointError>>()?;
    let count = values.len();
    values::assign(session, values)?;
    Ok(count)
}

/// Adds the variables that the graph uses and that no node restores, if the checkpoint has objects of their names.
///
/// The restore nodes of a model that `tf.saved_model.save` wrote of a Keras 3 model assign copies of its variables.
fn add_named(
    graph: &Graph,
    reader: &BundleReader,
    all: &mut Vec<RestoredVariable>,
) -> Result<(), CheckpointError> {
    let Some(names) = reader.by_variable_name()? else {
        return Ok(());
    };
    let data = graph.snapshot();
    let restored: BTreeSet<OutputId> = all.iter().map(|one| one.handle).collect();
    let used = values::used_handles(&data).into_iter();
    for handle in used.filter(|handle| !restored.contains(handle)) {
        if let Some(key) = names.key(values::stored_name(data.node(handle.node)).1) {
            all.push(RestoredVariable {
                key: key.to_owned(),
                slice: String::new(),
                handle,
            });
        }
    }
    Ok(())
}

/// Fills lookup tables with the entries of a checkpoint.
fn fill_tables(
    session: &dyn Steps,
    reader: &BundleReader,
    tables: &[RestoredTable],
) -> Result<(), SavedModelError> {
    for table in tables {
        let feed = |(input, key): &(OutputId, String)| Ok((*input, reader.tensor(key)?));
        let feeds: Vec<(OutputId, Tensor)> = table
            .inputs
            .iter()
            .map(feed)
            .collect::<Result<_, CheckpointError>>()?;
        session.run_step(&[Fetch::Run(table.import)], &feeds, &RunOptions::new())?;
    }
    Ok(())
}

fn read_value(reader: &BundleReader, one: &RestoredVariable) -> Result<Tensor, CheckpointError> {
    let slice = SliceSpec::parse_or_whole(&one.slice)?;
    reader.part(&one.key, slice.as_ref())
}

/// Result of [`restore_weights`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredWeights {
    /// Number of variables that were assigned.
    pub restored: usize,
    /// Keys of the variables that the weights do not have.
    pub missing: Vec<String>,
}

/// Assigns weights to the variables of a session's graph, which was imported under its own names: those of a
/// checkpoint, a safetensors or an npz file. Other variables stay unchanged: a file of weights need not have the slots
/// of an optimizer.
///
/// The nodes that `meta` names, or those of `save/restore_all`, or else the variables' names, map tensors to variables.
/// The nodes are not run.
///
/// # Errors
/// [`SavedModelError::Checkpoint`]; [`SavedModelError::Step`] if a value does not fit its variable.
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
    for one in restored_variables(session.graph(), Some(node)) {
        if weights.info(&one.key).is_none() {
            done.missing.push(one.key);
            continue;
        }
        let slice = SliceSpec::parse_or_whole(&one.slice)?;
        let value = weights.part(&one.key, slice.as_ref())?;
        values.push((one.handle, value));
    }
    done.restored = values.len();
    values::assign(session, values)?;
    Ok(done)
}
