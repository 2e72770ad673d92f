//! Saving: from variables to a checkpoint.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use thalweg_checkpoint::state::Retention;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::saver::{RANDOM_DRAWN, RANDOM_NODES, Saver, ShardedNodes, numbered, prefix_tensor};
use super::write::{self, WriteJob};
use crate::error::TrainError;
use crate::steps::Steps;
use crate::values;

impl Saver {
    /// Saves a checkpoint, and returns its prefix, `PREFIX-STEP`, when it is complete on the disk.
    ///
    /// # Errors
    /// Errors of a step, [`TrainError::Undeclared`] and [`TrainError::Checkpoint`]: earlier checkpoints are then unchanged.
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

    /// Like [`Saver::save`], but returns when the values are copied: they are written in the background, while the
    /// training goes on. It waits for an earlier save that is still being written.
    ///
    /// # Errors
    /// Errors of a step; the error of the previous save if nothing has waited for it: nothing is saved then.
    pub fn begin_save(
        &self,
        session: &dyn Steps,
        prefix: impl AsRef<Path>,
        step: impl Into<Option<i64>>,
    ) -> Result<PathBuf, TrainError> {
        if !self.shared.undeclared.is_empty() {
            let variables = self.shared.undeclared.clone();
            return Err(TrainError::Undeclared { variables });
        }
        let _beginning = self.shared.beginning.lock().unpoisoned();
        self.wait()?;
        let prefix = match step.into() {
            Some(step) => numbered(prefix.as_ref(), step),
            None => prefix.as_ref().to_owned(),
        };
        let retention = self.retention(&prefix)?;
        let (mut entries, mut part) = (Vec::new(), None);
        match &self.shared.sharded {
            Some(nodes) => part = Some(self.save_on_servers(session, nodes, &prefix)?),
            None => {
                let items = self.shared.items.iter();
                let handles: Vec<_> = items.clone().map(|i| i.variable.handle).collect();
                // The tensors share the buffers of the variables.
                let values = values::read(session, &handles)?;
                entries.extend(items.zip(values).map(|(item, value)| item.entry(value)));
            }
        }
        self.add_state(session, &mut entries)?;
        let job = WriteJob {
            prefix: prefix.clone(),
            entries,
            part,
            retention,
        };
        let thread = std::thread::Builder::new().name("thalweg-save".to_owned());
        // If no thread can be started, this thread writes it.
        let job = Arc::new(Mutex::new(Some(job)));
        let theirs = job.clone();
        match thread.spawn(move || write::run(&theirs)) {
            Ok(writing) => self.saves().writing = Some(writing),
            Err(_) => write::run(&job)?,
        }
        Ok(prefix)
    }

    /// `true` while a checkpoint is being written in the background.
    pub fn is_writing(&self) -> bool {
        let saves = self.saves();
        saves.writing.as_ref().is_some_and(|w| !w.is_finished())
    }

    /// Waits until the background write is on the disk.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if it cannot be written.
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

    /// Runs the writes of each server: returns the prefix of the part that they write.
    fn save_on_servers(
        &self,
        session: &dyn Steps,
        nodes: &ShardedNodes,
        prefix: &Path,
    ) -> Result<PathBuf, TrainError> {
        let mut folder = prefix.as_os_str().to_owned();
        folder.push(format!("_temp_{:x}", std::process::id()));
        let part = PathBuf::from(folder).join("servers");
        let feed = (nodes.filename, prefix_tensor(&part)?);
        let saved = session.run_step(&[Fetch::Run(nodes.save)], &[feed], &RunOptions::new());
        if saved.is_err()
            && let Some(folder) = part.parent()
        {
            // The files of the servers are no checkpoint.
            let _ = std::fs::remove_dir_all(folder);
        }
        saved.map(|_| part)
    }

    /// Adds entries beside the variables: kept values, and counters of random ops.
    fn add_state(
        &self,
        session: &dyn Steps,
        entries: &mut Vec<write::Entry>,
    ) -> Result<(), TrainError> {
        let kept = self.kept();
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
        Ok(())
    }

    /// State of the other checkpoints.
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
}
