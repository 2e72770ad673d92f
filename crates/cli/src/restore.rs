//! Restoring of a model's variables from a checkpoint or a SavedModel.

use std::path::PathBuf;

use clap::Args;
use thalweg_graphdef::export::clear_devices;
use thalweg_session::{Session, SessionOptions};
use thalweg_tensor::text::counted;
use thalweg_train::saved_model::{restore_model, restore_weights, with_assets};

use crate::failure::Failure;
use crate::model::Loaded;
use crate::output;
use crate::weight_files::open_weights;

/// Maximum number of variables in a message.
const MAX_LISTED: usize = 3;

/// Values of variables, and where nodes run.
#[derive(Args)]
pub(crate) struct Restore {
    /// Give variables the values of a checkpoint (its prefix, or a folder for its newest one), a .safetensors or a .npz
    /// file; the variables of a SavedModel have their own without it
    #[arg(long, value_name = "PREFIX|FOLDER|FILE")]
    checkpoint: Option<PathBuf>,

    /// Run nodes here whatever device they ask for: for graphs that were made for a cluster
    #[arg(long)]
    clear_devices: bool,
}

impl Restore {
    /// Prepares the graph before it is imported.
    pub(crate) fn prepare(&self, loaded: &mut Loaded) {
        if self.clear_devices {
            clear_devices(&mut loaded.graph);
        }
    }

    /// Options of a session of the graph: it may read the assets of its SavedModel.
    pub(crate) fn session_options(
        &self,
        options: SessionOptions,
        loaded: &Loaded,
    ) -> Result<SessionOptions, Failure> {
        Ok(match &loaded.folder {
            Some(folder) => with_assets(options, folder)?,
            None => options,
        })
    }

    /// Restores the variables of a session, and writes the names of those without a value to standard error. Returns the number
    /// of restored variables.
    pub(crate) fn restore(&self, session: &Session<'_>, loaded: &Loaded) -> Result<usize, Failure> {
        let mut count = 0;
        // The init op of a SavedModel may set variables that no checkpoint has.
        if let (Some(folder), Some(meta)) = (&loaded.folder, &loaded.meta) {
            count = restore_model(session, folder, meta)?;
        }
        let Some(path) = &self.checkpoint else {
            return Ok(count);
        };
        let weights = open_weights(path)?;
        let done = restore_weights(session, &weights, loaded.meta.as_ref())?;
        let from = weights.path().display();
        if done.restored == 0 {
            let graph = &loaded.origin;
            return Err(match done.missing.first() {
                Some(name) => format!(
                    "--checkpoint {from}: it has none of the {} of {graph}, such as {name}",
                    counted(done.missing.len(), "variable")
                ),
                None => format!("--checkpoint {from}: {graph} has no variables"),
            }
            .into());
        }
        if !done.missing.is_empty() {
            let shown: Vec<&str> = done.missing.iter().take(MAX_LISTED).map(|n| &**n).collect();
            let more = if done.missing.len() > MAX_LISTED {
                ", ..."
            } else {
                ""
            };
            output::error(format_args!(
                "note: {from} has no values for {}: {}{more}",
                counted(done.missing.len(), "variable"),
                shown.join(", ")
            ));
        }
        Ok(done.restored.max(count))
    }
}
