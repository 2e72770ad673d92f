//! Saving and restoring variables.

mod items;
mod kept;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_checkpoint::state::{Retention, RetentionOptions, latest_checkpoint};
use thalweg_checkpoint::{BundleReader, CheckpointError};
use thalweg_graph::{Graph, OutputId, VariableInfo};
use thalweg_ops::Variable;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::Tensor;

use crate::error::TrainError;
use crate::steps::Steps;
use items::{Item, items};
pub use kept::Kept;
use write::Job;

/// The entries for how far random ops have come: names of nodes, and how much each has drawn.
const RANDOM_NODES: &str = "_thalweg/random/nodes";
const RANDOM_DRAWN: &str = "_thalweg/random/drawn";

/// Saves variables to checkpoints of TensorFlow's form, and restores them: `tf.train.Saver`.
///
/// A checkpoint also has the state of the session's random ops, and what the program [keeps](Saver::keep) in it: a
/// training that goes on from it computes the same bits as one that was not interrupted. TensorFlow passes over these
/// entries. Parts of a partitioned variable are saved as slices of the whole, as TensorFlow does it, and can be restored
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
    shared: Arc<Shared>,
    options: RetentionOptions,
}

struct Shared {
    items: Vec<Item>,
    kept: Mutex<BTreeMap<String, Kept>>,
    saves: Mutex<Saves>,
}

/// What was saved, and what is being written.
#[derive(Default)]
struct Saves {
    writing: Option<JoinHandle<Result<(), CheckpointError>>>,
    folders: BTreeMap<PathBuf, Arc<Mutex<Retention>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let saves = self.saves.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(writing) = saves.writing.take() {
            // What is being written is worth the wait; its error had its time to be asked for.
            let _ = writing.join();
        }
    }
}

impl Saver {
    /// One for all variables that the graph has now, by their names. It adds nodes named `restore/...` to the graph.
    pub fn new(graph: &Graph) -> Saver {
        let all = graph.variables().into_iter();
        Saver::of_infos(graph, all.map(|v| (v.name.clone(), v)).collect())
    }

    /// One for these variables, each under a name in the checkpoint: for some of the variables, for those of another
    /// program, or for [averages](crate::MovingAverage::variables_to_restore).
    pub fn of<'g>(
        graph: &'g Graph,
        variables: impl IntoIterator<Item = (impl Into<String>, Variable<'g>)>,
    ) -> Saver {
        let declared = graph.variables();
        let info = |(name, variable): (_, Variable<'g>)| {
            let found = declared.iter().find(|v| v.handle == variable.handle().id());
            found.cloned().map(|info| (Into::into(name), info))
        };
        Saver::of_infos(graph, variables.into_iter().filter_map(info).collect())
    }

    fn of_infos(graph: &Graph, variables: Vec<(String, VariableInfo)>) -> Saver {
        Saver {
            shared: Arc::new(Shared {
                items: items(graph, &variables),
                kept: Mutex::default(),
                saves: Mutex::default(),
            }),
            options: RetentionOptions::default(),
        }
    }

    /// How many checkpoints of a folder are kept (5): the oldest are deleted, also those of an earlier process. All, where
    /// it is 0.
    pub fn max_to_keep(mut self, most: usize) -> Saver {
        self.options.max_to_keep = most;
        self
    }

    /// Keeps one checkpoint in each of these intervals for good (10,000 hours).
    pub fn keep_checkpoint_every(mut self, interval: Duration) -> Saver {
        self.options.keep_every = interval;
        self
    }

    /// A value of the program that checkpoints keep under this name, such as the position of the input. It is `value` until
    /// it is set, or restored from a checkpoint that has it.
    pub fn keep(&self, name: impl Into<String>, value: impl Into<Tensor>) -> Kept {
        let kept = Kept::new(value.into());
        let mut all = self
            .shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.insert(name.into(), kept.clone());
        kept
    }

    fn saves(&self) -> MutexGuard<'_, Saves> {
        self.shared
            .saves
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves a checkpoint, and returns its prefix, `PREFIX-STEP`, once it is whole on the disk.
    ///
    /// # Errors
    /// Those of a step, and [`TrainError::Checkpoint`]: an earlier checkpoint is then as it was.
    pub fn save(
        &self,
        session: &dyn Steps,
        prefix: impl AsRef<Path>,
        step: impl Into<Option<i64>>,
    ) -> Result<PathBuf, TrainError> {
        let path = self.begin_save(session, prefix, step)?;
        self.wait()?;
        Ok(path)
    }

    /// As [`Saver::save`], and returns once the values are taken: they are written in the background, while the training
    /// goes on. A save that is still being written is waited for.
    ///
    /// # Errors
    /// Those of a step; the error of the save before, which nobody has waited for: nothing is saved then.
    pub fn begin_save(
        &self,
        session: &dyn Steps,
        prefix: impl AsRef<Path>,
        step: impl Into<Option<i64>>,
    ) -> Result<PathBuf, TrainError> {
        self.wait()?;
        let prefix = match step.into() {
            Some(step) => numbered(prefix.as_ref(), step),
            None => prefix.as_ref().to_owned(),
        };
        let entries = self.snapshot(session)?;
        let retention = self.retention(&prefix)?;
        let job = Job {
            prefix: prefix.clone(),
            entries,
            retention,
        };
        let thread = std::thread::Builder::new().name("thalweg-save".to_owned());
        // Where there is no thread to be had, it is written here.
        let job = Arc::new(Mutex::new(Some(job)));
        let theirs = job.clone();
        match thread.spawn(move || write::run(&theirs)) {
            Ok(writing) => self.saves().writing = Some(writing),
            Err(_) => write::run(&job)?,
        }
        Ok(prefix)
    }

    /// Waits until what is being written is on the disk.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`], where it cannot be written.
    pub fn wait(&self) -> Result<(), TrainError> {
        let writing = self.saves().writing.take();
        match writing.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => Ok(written?),
            Some(Err(_)) => Err(TrainError::Io {
                path: PathBuf::from("a checkpoint"),
                reason: "what wrote it panicked, which is a defect: please report it".to_owned(),
            }),
        }
    }

    /// The values of all entries: tensors that share the buffers of variables.
    fn snapshot(&self, session: &dyn Steps) -> Result<Vec<write::Entry>, TrainError> {
        let fetches: Vec<Fetch> = (self.shared.items.iter())
            .map(|item| Fetch::Value(item.value))
            .collect();
        let (values, _) = session.run_step(&fetches, &[], &RunOptions::new())?;
        let mut entries = Vec::with_capacity(values.len() + 2);
        for (item, value) in self.shared.items.iter().zip(values) {
            if let Some(value) = value {
                entries.push((item.name.clone(), item.slice.clone(), value));
            }
        }
        let kept = self
            .shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        entries.extend(
            kept.iter()
                .map(|(name, kept)| (name.clone(), None, kept.get())),
        );
        drop(kept);
        let random = session.random_state();
        if !random.is_empty() {
            let (nodes, drawn): (Vec<String>, Vec<u64>) = random.into_iter().unzip();
            let nodes = Tensor::strings(&[nodes.len()], &nodes)?;
            entries.push((RANDOM_NODES.to_owned(), None, nodes));
            entries.push((RANDOM_DRAWN.to_owned(), None, Tensor::vector(&drawn)));
        }
        Ok(entries)
    }

    /// What is known of the checkpoints beside this one.
    fn retention(&self, prefix: &Path) -> Result<Arc<Mutex<Retention>>, TrainError> {
        let folder = match prefix.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut saves = self.saves();
        if let Some(known) = saves.folders.get(&folder) {
            return Ok(known.clone());
        }
        let opened = Arc::new(Mutex::new(Retention::open(&folder, self.options.clone())?));
        saves.folders.insert(folder, opened.clone());
        Ok(opened)
    }

    /// The newest checkpoint of a folder, if there is one.
    ///
    /// # Errors
    /// A state file that cannot be read.
    pub fn latest(&self, folder: impl AsRef<Path>) -> Result<Option<PathBuf>, TrainError> {
        Ok(latest_checkpoint(folder.as_ref())?)
    }

    /// Gives variables, random ops and what is [kept](Saver::keep) the values of a checkpoint. All of it is read before
    /// anything is changed.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`], also where an entry is missing; [`TrainError::Mismatch`]; those of a step.
    pub fn restore(&self, session: &dyn Steps, prefix: impl AsRef<Path>) -> Result<(), TrainError> {
        let reader = BundleReader::open(prefix.as_ref())?;
        let graph = session.graph();
        let (mut feeds, mut runs) = (Vec::new(), Vec::new());
        for item in &self.shared.items {
            let value = match &item.slice {
                None => reader.tensor(&item.name)?,
                Some(slice) => reader.slice(&item.name, slice)?,
            };
            if let Some(wrong) = misfit(graph, item.feed, &value) {
                return Err(TrainError::Mismatch {
                    prefix: prefix.as_ref().to_owned(),
                    name: item.name.clone(),
                    why: wrong,
                });
            }
            feeds.push((item.feed, value));
            runs.push(Fetch::Run(item.assign));
        }
        let kept = self
            .shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut restored = Vec::new();
        for (name, kept) in kept.iter().filter(|(name, _)| reader.contains(name)) {
            restored.push((kept.clone(), reader.tensor(name)?));
        }
        drop(kept);
        let random = random_state(&reader)?;
        session.run_step(&runs, &feeds, &RunOptions::new())?;
        session.set_random_state(&random);
        restored
            .into_iter()
            .for_each(|(kept, value)| kept.set(value));
        Ok(())
    }

    /// What a checkpoint has for the variable with this value, if the saver saves that.
    pub(crate) fn saved_value(
        &self,
        prefix: &Path,
        value: OutputId,
    ) -> Result<Option<Tensor>, TrainError> {
        let Some(item) = self.shared.items.iter().find(|i| i.value == value) else {
            return Ok(None);
        };
        let reader = BundleReader::open(prefix)?;
        match reader.contains(&item.name) {
            true => Ok(Some(reader.tensor(&item.name)?)),
            false => Ok(None),
        }
    }
}

impl std::fmt::Debug for Saver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.shared.items.iter().map(|item| &item.name);
        f.debug_list().entries(names).finish()
    }
}

/// The prefix of the checkpoint of a step.
pub(crate) fn numbered(prefix: &Path, step: i64) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!("-{step}"));
    PathBuf::from(name)
}

/// How far random ops had come.
fn random_state(reader: &BundleReader) -> Result<Vec<(String, u64)>, TrainError> {
    if !reader.contains(RANDOM_NODES) {
        return Ok(Vec::new());
    }
    let nodes = reader.tensor(RANDOM_NODES)?;
    let drawn = reader.tensor(RANDOM_DRAWN)?;
    let nodes = nodes.as_strings()?.iter();
    let nodes = nodes.map(|n| String::from_utf8_lossy(n).into_owned());
    Ok(nodes.zip(drawn.to_vec::<u64>()?).collect())
}

/// Why a value cannot be that of the variable behind `feed`.
fn misfit(graph: &Graph, feed: OutputId, value: &Tensor) -> Option<String> {
    let fact = graph.fact(feed)?;
    let fits = fact.dtype == value.dtype() && fact.shape.admits(value.dims());
    (!fits).then(|| {
        format!(
            "is a {}{}, and the variable takes a {fact}: build the graph as it was when it was saved, or leave the variable out with Saver::of",
            value.dtype(),
            value.shape()
        )
    })
}
