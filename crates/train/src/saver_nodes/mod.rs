//! SaverNodes: the nodes of TensorFlow's `tf.compat.v1.train.Saver`, which write the variables of a graph to a
//! checkpoint, and read them back.
//!
//! A program of TensorFlow finds them in an exported MetaGraph or SavedModel, and a sharded save runs them: each device
//! then writes its own variables.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{NewGraph, StateOps};
//! use thalweg_train::saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
//!
//! # fn main() -> Result<(), thalweg_train::saver_nodes::SaverNodesError> {
//! let g = Graph::new();
//! g.variable("w", [1.0f32, 2.0]);
//! let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
//! let saver = SaverNodes::add(&g, &saved, &SaverOptions::new())?;
//!
//! assert_eq!(saver.save.name(), "save/SaveV2");
//! assert_eq!(saver.restore.name(), "save/restore_all");
//! // Who runs the nodes feeds the prefix of the files here.
//! assert_eq!(saver.filename.name(), "save/Const:0");
//! # Ok(())
//! # }
//! ```

mod build;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use thalweg_checkpoint::SliceSpec;
use thalweg_graph::{
    DeviceScope, Graph, GraphData, GraphError, Operation, Output, OutputId, VariableInfo,
    VariableSlice,
};
use thalweg_graphdef::messages::{SaverDef, saver_def::CheckpointFormatVersion};
use thalweg_tensor::{Shape, TensorError};
use thiserror::Error;

/// A variable of a graph, and its name in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedVariable {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its handle: the output of a `VarHandleOp`, or of a `VariableV2`.
    pub handle: OutputId,
    /// The slice of the checkpoint's tensor, if it is not the whole.
    pub slice: Option<VariableSlice>,
}

impl SavedVariable {
    /// Saves a variable under its own name; a part of a partitioned one as a slice of the whole.
    pub fn of(info: &VariableInfo) -> SavedVariable {
        let whole = info.slice.as_ref().map(|s| &s.of);
        SavedVariable {
            name: whole.unwrap_or(&info.name).clone(),
            handle: info.handle,
            slice: info.slice.clone(),
        }
    }

    /// The slice of the whole for a variable of this shape: `Some(None)` for a whole variable, and `None` if the shape
    /// is unknown or no part of the whole.
    pub(crate) fn slice_of(&self, shape: &Shape) -> Option<Option<SliceSpec>> {
        let Some(VariableSlice { dims, begin, .. }) = &self.slice else {
            return Some(None);
        };
        let own = shape.to_dims()?;
        if [begin.len(), own.len()] != [dims.len(); 2] {
            return None;
        }
        let extents = dims.iter().zip(begin).zip(&own);
        let extents: Vec<_> = extents
            .map(|((&dim, &start), &len)| (start > 0 || len != dim).then_some((start, len)))
            .collect();
        SliceSpec::new(dims, &extents).ok().map(Some)
    }

    /// The slice in TensorFlow's notation; empty for a whole variable. See [`SavedVariable::slice_of`].
    pub(crate) fn slice_text(&self, shape: &Shape) -> Option<String> {
        let slice = self.slice_of(shape)?;
        Some(slice.map_or_else(String::new, |slice| slice.to_string()))
    }
}

/// Options of [`SaverNodes::add`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaverOptions {
    /// Name scope of the nodes (`save`), at the root; made unique.
    pub scope: String,
    /// `true` if each device writes its variables to files of its own (`false`).
    pub sharded: bool,
}

impl Default for SaverOptions {
    fn default() -> SaverOptions {
        SaverOptions {
            scope: "save".to_owned(),
            sharded: false,
        }
    }
}

impl SaverOptions {
    /// The defaults.
    pub fn new() -> SaverOptions {
        SaverOptions::default()
    }

    /// Each device writes its variables to files of its own, which are then merged. They must be on a disk that all
    /// devices see.
    pub fn sharded(self, sharded: bool) -> SaverOptions {
        SaverOptions { sharded, ..self }
    }

    /// Sets the name scope.
    pub fn scope(self, scope: impl Into<String>) -> SaverOptions {
        SaverOptions {
            scope: scope.into(),
            ..self
        }
    }
}

/// Error of adding the nodes. The graph is unchanged.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SaverNodesError {
    /// There is nothing to save.
    #[error("there are no variables to save: make the variables before the saver")]
    NoVariables,
    /// Two variables have one name.
    #[error(
        "two variables are to be saved as '{name}': give one of them another name in the checkpoint"
    )]
    SameName {
        /// The name.
        name: String,
    },
    /// An output is no handle of a variable.
    #[error("'{name}' is to be saved, and {output} is not the handle of a variable")]
    NoVariable {
        /// The name in the checkpoint.
        name: String,
        /// The output.
        output: String,
    },
    /// A slice is no part of its whole.
    #[error(
        "'{name}' of dimensions {dims:?} cannot be saved from a variable of shape {shape} that begins at {begin:?}: it is no part of it"
    )]
    Slice {
        /// The name in the checkpoint.
        name: String,
        /// The variable's shape.
        shape: Shape,
        /// The dimensions of the whole.
        dims: Vec<usize>,
        /// Begin of the variable in it.
        begin: Vec<usize>,
    },
    /// The graph rejects the nodes: it is finalized, for example.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The names are too many for a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for SaverNodesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

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
