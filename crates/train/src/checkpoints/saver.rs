//! Saver: saves and restores variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_checkpoint::CheckpointError;
use thalweg_checkpoint::state::{Retention, RetentionOptions};
use thalweg_graph::{Graph, NodeId, OutputId, VariableInfo};
use thalweg_ops::Variable;
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::items::Item;
use super::saved_value::SavedValue;
use crate::error::TrainError;
use crate::saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
use crate::values::{check_declared, undeclared};

/// Entries with the counters of random ops: names of nodes, and the counter of each.
pub(super) const RANDOM_NODES: &str = "_thalweg/random/nodes";
pub(super) const RANDOM_DRAWN: &str = "_thalweg/random/drawn";

/// Saves variables to checkpoints in TensorFlow's format, and restores them: `tf.train.Saver`.
///
/// A checkpoint also has the state of the session's random ops, and the values that the program [keeps](Saver::keep) in
/// it: a training that resumes from it computes the same bits as one that was not interrupted. TensorFlow ignores these
/// entries. Parts of a partitioned variable are saved as slices of the whole, as in TensorFlow, and can be restored
/// into other parts.
///
/// Clones are the same saver. One checkpoint is written at a time.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_train::Saver;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("thalweg-saver-{}", std::process::id()));
/// let g = Graph::new();
/// let w = g.variable("w", [1.0f32, 2.0]);
/// let add = w.assign_add([1.0f32, 1.0]);
/// let saver = Saver::new(&g);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// let path = saver.save(&session, folder.join("model.ckpt"), 100)?;
/// assert_eq!(path, folder.join("model.ckpt-100"));
///
/// session.run(add, [])?;
/// saver.restore(&session, &path)?;
/// assert_eq!(session.run::<[f32; 2]>(w, [])?, [1.0, 2.0]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Saver {
    pub(super) shared: Arc<SaverState>,
    pub(super) options: RetentionOptions,
}

pub(super) struct SaverState {
    pub(super) items: Vec<Item>,
    /// Variables that the graph holds but does not declare, for a saver of all variables: it refuses to save.
    pub(super) undeclared: Vec<String>,
    /// Nodes by which each device saves its own variables, of a sharded saver.
    pub(super) sharded: Option<ShardedNodes>,
    pub(super) kept: Mutex<BTreeMap<String, SavedValue>>,
    pub(super) saves: Mutex<SaveState>,
    /// Lock around the start of a save.
    pub(super) beginning: Mutex<()>,
}

/// Saved checkpoints, and the one that is being written.
#[derive(Default)]
pub(super) struct SaveState {
    pub(super) writing: Option<JoinHandle<Result<(), CheckpointError>>>,
    pub(super) folders: BTreeMap<PathBuf, Arc<Mutex<Retention>>>,
}

/// Ids of the nodes of a sharded saver.
#[derive(Clone, Copy)]
pub(super) struct ShardedNodes {
    pub(super) filename: OutputId,
    pub(super) save: NodeId,
    pub(super) restore: NodeId,
}

impl Drop for SaverState {
    fn drop(&mut self) {
        let saves = self.saves.get_mut().unpoisoned();
        if let Some(writing) = saves.writing.take() {
            // Wait for the checkpoint that is being written; its error could have been requested before.
            let _ = writing.join();
        }
    }
}

impl Saver {
    /// Creates a saver of all current variables of the graph, by their names. It refuses to save if the graph holds variables
    /// that it does not declare, such as those of an imported GraphDef.
    pub fn new(graph: &Graph) -> Saver {
        let all = graph.variables().into_iter().map(|v| (v.name.clone(), v));
        Saver::of_infos(graph, all, None, undeclared(graph))
    }

    /// Like [`Saver::new`], for variables on several servers: each writes and reads its own, in files that all of them
    /// and this process see, such as those of a shared disk. It adds TensorFlow's nodes to the graph; servers run them
    /// in folders that they allow (`--files`).
    ///
    /// Any saver restores the checkpoint: on another number of servers, or in one process. A save, also by
    /// [`Saver::begin_save`], returns when the servers have written their values.
    ///
    /// # Errors
    /// [`TrainError::SaverNodes`]: there are no variables, or two have one name. [`TrainError::Undeclared`].
    pub fn sharded(graph: &Graph) -> Result<Saver, TrainError> {
        check_declared(graph)?;
        let all = graph.variables();
        let saved: Vec<_> = all.iter().map(SavedVariable::of).collect();
        let nodes = SaverNodes::add(graph, &saved, &SaverOptions::new().sharded(true))?;
        let nodes = ShardedNodes {
            filename: nodes.filename.id(),
            save: nodes.save.id(),
            restore: nodes.restore.id(),
        };
        let all = all.into_iter().map(|v| (v.name.clone(), v));
        Ok(Saver::of_infos(graph, all, Some(nodes), Vec::new()))
    }

    /// Creates a saver of these variables, each under a name in the checkpoint: for some of the variables, for those of
    /// another program, or for averages of weights (`MovingAverage::variables_to_restore`).
    pub fn of<'g>(
        graph: &'g Graph,
        variables: impl IntoIterator<Item = (impl Into<String>, Variable<'g>)>,
    ) -> Saver {
        let declared = graph.variables();
        let info = |(name, variable): (_, Variable<'g>)| {
            let found = declared.iter().find(|v| v.handle == variable.handle().id());
            let undeclared = || VariableInfo {
                name: variable.name(),
                handle: variable.handle().id(),
                value: variable.value().id(),
                initializer: variable.initializer().id(),
                trainable: false,
                slice: None,
            };
            (Into::into(name), found.cloned().unwrap_or_else(undeclared))
        };
        Saver::of_infos(graph, variables.into_iter().map(info), None, Vec::new())
    }

    fn of_infos(
        graph: &Graph,
        variables: impl Iterator<Item = (String, VariableInfo)>,
        sharded: Option<ShardedNodes>,
        undeclared: Vec<String>,
    ) -> Saver {
        let items = variables.map(|(name, info)| Item::new(graph, name, &info));
        Saver {
            shared: Arc::new(SaverState {
                items: items.collect(),
                undeclared,
                sharded,
                kept: Mutex::default(),
                saves: Mutex::default(),
                beginning: Mutex::default(),
            }),
            options: RetentionOptions::default(),
        }
    }

    /// Number of checkpoints of a folder that are kept (5): the oldest are deleted, also those of an earlier process. 0
    /// keeps all.
    pub fn max_to_keep(mut self, most: usize) -> Saver {
        self.options.max_to_keep = most;
        self
    }

    /// Keeps one checkpoint in each of these intervals for good (10,000 hours).
    pub fn keep_checkpoint_every(mut self, interval: Duration) -> Saver {
        self.options.keep_every = interval;
        self
    }

    /// Registers a value of the program that checkpoints keep under this name, such as the position of the input. It is
    /// `value` until it is set, or restored from a checkpoint that has it.
    pub fn keep(&self, name: impl Into<String>, value: impl Into<Tensor>) -> SavedValue {
        let kept = SavedValue::new(value.into());
        self.kept().insert(name.into(), kept.clone());
        kept
    }

    pub(super) fn saves(&self) -> MutexGuard<'_, SaveState> {
        self.shared.saves.lock().unpoisoned()
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, BTreeMap<String, SavedValue>> {
        self.shared.kept.lock().unpoisoned()
    }
}

impl std::fmt::Debug for Saver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.shared.items.iter().map(Item::name);
        f.debug_list().entries(names).finish()
    }
}

/// Prefix of the checkpoint of a step.
pub(crate) fn numbered(prefix: &Path, step: i64) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!("-{step}"));
    PathBuf::from(name)
}

/// Converts a prefix to a string tensor.
pub(super) fn prefix_tensor(prefix: &Path) -> Result<Tensor, TrainError> {
    // Servers may have another current folder.
    let prefix = std::path::absolute(prefix).map_err(|e| TrainError::io(prefix, e))?;
    let bytes = prefix.as_os_str().as_encoded_bytes();
    Ok(Tensor::strings(&[], &[bytes])?)
}
