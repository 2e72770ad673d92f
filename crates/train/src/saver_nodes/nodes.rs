//! SaverNodes: adds the nodes of a saver to a graph.

use std::collections::BTreeSet;

use thalweg_graph::{DeviceScope, Graph, GraphData, Operation, Output};
use thalweg_graphdef::messages::{SaverDef, saver_def::CheckpointFormatVersion};

use super::build;
use super::error::SaverNodesError;
use super::options::SaverOptions;
use super::saved_variable::SavedVariable;

/// Nodes of a saver.
#[derive(Clone, Copy, Debug)]
pub struct SaverNodes<'g> {
    /// Prefix of the checkpoint's files, a scalar string to feed; `model` if it is not fed.
    pub filename: Output<'g>,
    /// Node that writes the checkpoint: `SaveV2`, or `MergeV2Checkpoints` of a sharded saver.
    pub save: Operation<'g>,
    /// The prefix again, after the checkpoint is written.
    pub save_tensor: Output<'g>,
    /// Node that runs after all variables have the values of the checkpoint.
    pub restore: Operation<'g>,
    /// `true` if each device writes its own files.
    pub sharded: bool,
}

impl<'g> SaverNodes<'g> {
    /// Adds the nodes that write these variables to a checkpoint, and those that read them.
    ///
    /// Names and structure are those of TensorFlow's `BaseSaverBuilder` (`python/training/saver.py`). A variable that
    /// is colocated with another is saved on the other's device.
    ///
    /// # Errors
    /// See [`SaverNodesError`]; nothing is added then.
    pub fn add(
        graph: &'g Graph,
        saved: &[SavedVariable],
        options: &SaverOptions,
    ) -> Result<SaverNodes<'g>, SaverNodesError> {
        check(&graph.snapshot(), saved)?;
        let made = graph.atomically(|copy| {
            let known = copy.errors().len();
            let scope = free_scope(&copy.snapshot(), &options.scope);
            let build = || copy.name_scope(&scope, || build::build(copy, saved, options));
            // Scopes of the caller do not apply: variables are saved on their devices.
            let made = copy.device(DeviceScope::None, build)?;
            match copy.errors().into_iter().nth(known) {
                Some(error) => Err(SaverNodesError::Graph(error)),
                None => Ok(made),
            }
        })?;
        Ok(SaverNodes {
            filename: graph.output(made.filename),
            save: graph.operation(made.save),
            save_tensor: graph.output(made.save_tensor),
            restore: graph.operation(made.restore),
            sharded: options.sharded,
        })
    }

    /// The message by which a program of TensorFlow finds the nodes, with the defaults of `tf.compat.v1.train.Saver`: 5
    /// checkpoints are kept, and one each 10,000 hours.
    pub fn to_def(&self) -> SaverDef {
        SaverDef {
            filename_tensor_name: self.filename.name(),
            save_tensor_name: self.save_tensor.name(),
            restore_op_name: self.restore.name(),
            max_to_keep: 5,
            sharded: self.sharded,
            keep_checkpoint_every_n_hours: 10_000.0,
            version: CheckpointFormatVersion::V2.into(),
        }
    }
}

/// Finds an unused scope at the root with this name, or with a number after it.
fn free_scope(data: &GraphData, wanted: &str) -> String {
    let skip = wanted.len();
    let scope_of = |name: &str| name[skip..].find('/').map(|at| skip + at);
    let names = data.nodes().map(|(_, n)| n.name.as_str());
    let used: BTreeSet<&str> = names
        .filter(|name| name.starts_with(wanted))
        .flat_map(|name| [name, &name[..scope_of(name).unwrap_or(name.len())]])
        .collect();
    let mut free = (0..=used.len()).map(|i| match i {
        0 => wanted.to_owned(),
        _ => format!("{wanted}_{i}"),
    });
    let free = free.find(|name| !used.contains(&**name));
    format!("{}/", free.unwrap_or_else(|| wanted.to_owned()))
}

fn check(data: &GraphData, saved: &[SavedVariable]) -> Result<(), SaverNodesError> {
    if saved.is_empty() {
        return Err(SaverNodesError::NoVariables);
    }
    let mut seen = BTreeSet::new();
    for one in saved {
        let fact = data.fact(one.handle);
        let variable = fact.and_then(|f| f.variable.as_ref());
        let (_, shape) = variable.ok_or_else(|| SaverNodesError::NoVariable {
            name: one.name.clone(),
            output: data.output_name(one.handle),
        })?;
        let slice = one.slice_text(shape);
        let slice = slice.ok_or_else(|| SaverNodesError::Slice {
            name: one.name.clone(),
            shape: shape.clone(),
            dims: one.slice.as_ref().map_or_else(Vec::new, |s| s.dims.clone()),
            begin: one
                .slice
                .as_ref()
                .map_or_else(Vec::new, |s| s.begin.clone()),
        })?;
        if !seen.insert((&one.name, slice)) {
            return Err(SaverNodesError::SameName {
                name: one.name.clone(),
            });
        }
    }
    Ok(())
}
