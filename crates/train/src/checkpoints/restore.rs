//! Restoring: from a checkpoint to variables.

use std::path::{Path, PathBuf};

use thalweg_checkpoint::BundleReader;
use thalweg_checkpoint::state::latest_checkpoint;
use thalweg_graph::OutputId;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::Tensor;

use super::items::Item;
use super::saver::{RANDOM_DRAWN, RANDOM_NODES, Saver, prefix_tensor};
use crate::error::TrainError;
use crate::steps::Steps;
use crate::values;

impl Saver {
    /// Finds the newest checkpoint of a folder.
    ///
    /// # Errors
    /// The state file cannot be read.
    pub fn latest(&self, folder: impl AsRef<Path>) -> Result<Option<PathBuf>, TrainError> {
        Ok(latest_checkpoint(folder.as_ref())?)
    }

    /// Restores variables, random ops and [kept](Saver::keep) values from a checkpoint. All of it is read before
    /// anything is changed; each server of a [sharded](Saver::sharded) saver reads its own part.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`], also if an entry is missing; [`TrainError::Mismatch`]; errors of a step.
    pub fn restore(&self, session: &dyn Steps, prefix: impl AsRef<Path>) -> Result<(), TrainError> {
        let prefix = prefix.as_ref();
        let reader = BundleReader::open(prefix)?;
        let values = match &self.shared.sharded {
            None => self.values(session, &reader)?,
            Some(_) => Vec::new(),
        };
        let mut restored = Vec::new();
        for (name, kept) in self.kept().iter() {
            if reader.contains(name) {
                restored.push((kept.clone(), reader.tensor(name)?));
            }
        }
        let random = random_state(&reader)?;
        match &self.shared.sharded {
            None => values::assign(session, values)?,
            Some(nodes) => {
                let feed = (nodes.filename, prefix_tensor(prefix)?);
                session.run_step(&[Fetch::Run(nodes.restore)], &[feed], &RunOptions::new())?;
            }
        }
        session.set_random_state(&random);
        for (kept, value) in restored {
            kept.set(value);
        }
        Ok(())
    }

    /// Reads the values of the variables in a checkpoint, and checks that they fit.
    fn values(
        &self,
        session: &dyn Steps,
        reader: &BundleReader,
    ) -> Result<Vec<(OutputId, Tensor)>, TrainError> {
        let graph = session.graph();
        let objects = reader.by_variable_name()?;
        let value = |item: &Item| {
            let value = item.read(reader, objects.as_ref())?;
            match item.misfit(graph, &value) {
                None => Ok((item.variable.handle, value)),
                Some(why) => Err(TrainError::Mismatch {
                    prefix: reader.prefix().to_owned(),
                    name: item.name().to_owned(),
                    why,
                }),
            }
        };
        self.shared.items.iter().map(value).collect()
    }

    /// Reads the entry of the variable with this value, if the saver saves it.
    pub(crate) fn saved_value(
        &self,
        prefix: &Path,
        value: OutputId,
    ) -> Result<Option<Tensor>, TrainError> {
        let Some(item) = self.shared.items.iter().find(|i| i.value == value) else {
            return Ok(None);
        };
        let reader = BundleReader::open(prefix)?;
        match reader.contains(item.name()) {
            true => Ok(Some(item.read(&reader, None)?)),
            false => Ok(None),
        }
    }
}

/// Counters of random ops in a checkpoint.
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
