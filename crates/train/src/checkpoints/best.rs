//! BestCheckpoint: keeps the checkpoint with the best metric.

use std::path::{Path, PathBuf};

use thalweg_checkpoint::BundleReader;
use thalweg_checkpoint::state::latest_checkpoint;
use thalweg_graph::Graph;
use thalweg_tensor::Tensor;

use super::saved_value::SavedValue;
use super::saver::Saver;
use crate::error::TrainError;
use crate::steps::Steps;

/// Name of the entry with the metric.
const METRIC: &str = "_thalweg/best/metric";

/// Direction of improvement of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Higher is better, as for an accuracy.
    Highest,
    /// Lower is better, as for a loss.
    Lowest,
}

/// Keeps the checkpoint with the best metric of an evaluation, in a folder of its own: `best-STEP`. It also reads the
/// result of an earlier process.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_train::{BestCheckpoint, Goal, Saver};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("thalweg-best-{}", std::process::id()));
/// let g = Graph::new();
/// let w = g.variable("w", 0.0f32);
/// let add = w.assign_add(1.0f32);
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
///
/// let mut best = BestCheckpoint::open(&g, &folder, Goal::Highest)?;
/// let epoch = best.keep("epoch", 0i64);
/// for (step, accuracy) in [0.7, 0.9, 0.8].into_iter().enumerate() {
///     session.run(add, [])?;
///     epoch.set(step as i64);
///     let is_best = best.offer(&session, accuracy, step as i64)?;
///     assert_eq!(is_best, step < 2);
/// }
/// assert_eq!(best.metric(), Some(0.9));
/// let saver = Saver::new(&g);
/// let epoch = saver.keep("epoch", 0i64);
/// saver.restore(&session, best.path().expect("there is one"))?;
/// assert_eq!(session.run::<f32>(w, [])?, 2.0);
/// assert_eq!(epoch.get().to_scalar::<i64>()?, 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BestCheckpoint {
    saver: Saver,
    metric: SavedValue,
    prefix: PathBuf,
    goal: Goal,
    best: Option<(PathBuf, f64)>,
}

impl BestCheckpoint {
    /// Keeps the best checkpoint of all variables of the graph in this folder, and reads the one that is there already.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if the one there cannot be read.
    pub fn open(
        graph: &Graph,
        folder: impl AsRef<Path>,
        goal: Goal,
    ) -> Result<BestCheckpoint, TrainError> {
        let folder = folder.as_ref();
        let saver = Saver::new(graph).max_to_keep(1);
        let metric = saver.keep(METRIC, 0.0f64);
        let mut best = None;
        if let Some(path) = latest_checkpoint(folder)? {
            let found = BundleReader::open(&path)?.tensor(METRIC)?;
            best = Some((path, found.to_scalar::<f64>()?));
        }
        Ok(BestCheckpoint {
            saver,
            metric,
            prefix: folder.join("best"),
            goal,
            best,
        })
    }

    /// Registers a value of the program that the checkpoint keeps beside the variables; see [`Saver::keep`].
    pub fn keep(&self, name: impl Into<String>, value: impl Into<Tensor>) -> SavedValue {
        self.saver.keep(name, value)
    }

    /// Saves the variables if this metric is better than all before; returns if it was. A NaN is never better.
    ///
    /// # Errors
    /// As for [`Saver::save`]; the previous best one is kept then.
    pub fn offer(
        &mut self,
        session: &dyn Steps,
        metric: impl Into<f64>,
        step: i64,
    ) -> Result<bool, TrainError> {
        let metric = metric.into();
        let is_better = match (&self.best, self.goal) {
            _ if metric.is_nan() => false,
            (None, _) => true,
            (Some((_, best)), Goal::Highest) => metric > *best,
            (Some((_, best)), Goal::Lowest) => metric < *best,
        };
        if is_better {
            self.metric.set(metric);
            let path = self.saver.save(session, &self.prefix, step)?;
            self.best = Some((path, metric));
        }
        Ok(is_better)
    }

    /// Prefix of the best checkpoint.
    pub fn path(&self) -> Option<&Path> {
        self.best.as_ref().map(|(path, _)| &**path)
    }

    /// Its metric.
    pub fn metric(&self) -> Option<f64> {
        self.best.as_ref().map(|(_, metric)| *metric)
    }
}
