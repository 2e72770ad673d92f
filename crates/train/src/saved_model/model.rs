//! SavedModel: a loaded model.

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_graph::{Graph, OutputId};
use thalweg_graphdef::export::clear_devices;
use thalweg_graphdef::{File, FileError, ImportOptions, file, import_meta_graph};
use thalweg_ops::NewGraph;
use thalweg_session::{Fetch, RunOptions, Session, SessionOptions};
use thalweg_tensor::Tensor;

use super::assets::with_assets;
use super::error::SavedModelError;
use super::load::restore_model;
use super::signature::{Signature, signatures};
use crate::steps::Steps;

/// Options of loading a SavedModel.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    tags: Vec<String>,
    clear_devices: bool,
    inline_calls: bool,
    session: SessionOptions,
}

impl LoadOptions {
    /// The defaults.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Adds a tag of the graph. Without tags, the only graph is loaded, or the one that is tagged `serve`.
    pub fn tag(mut self, tag: impl Into<String>) -> LoadOptions {
        self.tags.push(tag.into());
        self
    }

    /// Clears the device requests of its nodes, or keeps them (`false`): devices of a cluster do not exist here.
    pub fn clear_devices(self, clear_devices: bool) -> LoadOptions {
        LoadOptions {
            clear_devices,
            ..self
        }
    }

    /// Puts the nodes of called functions in place of calls, or keeps the calls (`false`): a model of Keras or TensorFlow 2
    /// is a call around calls, and can be cut inside, trained and frozen once they are inlined. See
    /// [`ImportOptions::inline_calls`] for the names.
    pub fn inline_calls(self, inline_calls: bool) -> LoadOptions {
        LoadOptions {
            inline_calls,
            ..self
        }
    }

    /// Sets the options of the session.
    pub fn session(self, session: SessionOptions) -> LoadOptions {
        LoadOptions { session, ..self }
    }
}

/// A loaded model, with its variables restored, in a session of its own.
pub struct SavedModel {
    session: Session<'static>,
    signatures: BTreeMap<String, Signature>,
    name: String,
}

impl std::fmt::Debug for SavedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedModel")
            .field("name", &self.name)
            .field("signatures", &self.signatures)
            .finish_non_exhaustive()
    }
}

impl SavedModel {
    /// Loads a SavedModel from its folder, with the default options.
    ///
    /// # Errors
    /// See [`SavedModelError`].
    pub fn load(folder: impl AsRef<Path>) -> Result<SavedModel, SavedModelError> {
        SavedModel::load_with(folder, &LoadOptions::default())
    }

    /// Loads a SavedModel from its folder: imports its graph, restores its variables, and runs its initialization.
    ///
    /// Variables are restored as the model's own nodes would do it. They are not run: a model needs no right to read
    /// files, but for those in its folder `assets`. Models of TensorFlow 2 are loaded as far as their ops and functions are supported.
    ///
    /// # Errors
    /// See [`SavedModelError`].
    pub fn load_with(
        folder: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<SavedModel, SavedModelError> {
        let folder = folder.as_ref();
        let name = folder.display().to_string();
        let path = folder.join(file::SAVED_MODEL);
        let File::SavedModel(def) = file::read(&path)? else {
            return Err(SavedModelError::File(FileError::Io {
                path,
                reason: "it is no SavedModel".to_owned(),
            }));
        };
        let mut meta = def.take(&options.tags, &name)?;
        if let Some(def) = meta.graph_def.as_mut().filter(|_| options.clear_devices) {
            clear_devices(def);
        }
        let graph = Graph::with_ops(options.session.op_set());
        let importing = ImportOptions::new().origin(&*name);
        let importing = importing.inline_calls(options.inline_calls);
        import_meta_graph(&graph, &meta, &importing)?;
        // The message may be as large as all constants together.
        meta.graph_def = None;
        let signatures = signatures(&graph, &name, &meta)?;
        let session_options = with_assets(options.session.clone(), folder)?;
        let session = Session::with_options(graph, session_options)?;
        restore_model(&session, folder, &meta)?;
        Ok(SavedModel {
            session,
            signatures,
            name,
        })
    }

    /// The session, whose graph is the model's.
    pub fn session(&self) -> &Session<'static> {
        &self.session
    }

    /// All signatures, by name.
    pub fn signatures(&self) -> &BTreeMap<String, Signature> {
        &self.signatures
    }

    /// A signature: its inputs and outputs are outputs of the session's graph.
    ///
    /// # Errors
    /// [`SavedModelError::NoSignature`].
    pub fn signature(&self, name: &str) -> Result<&Signature, SavedModelError> {
        let found = self.signatures.get(name);
        found.ok_or_else(|| SavedModelError::NoSignature {
            model: self.name.clone(),
            name: name.to_owned(),
            there: self.signatures.keys().cloned().collect(),
        })
    }

    /// Computes a signature's outputs from all of its inputs.
    ///
    /// # Errors
    /// [`SavedModelError::NoSignature`]; [`SavedModelError::Inputs`] if these are not its inputs;
    /// [`SavedModelError::Step`].
    pub fn run(
        &self,
        signature: &str,
        inputs: &[(&str, Tensor)],
    ) -> Result<BTreeMap<String, Tensor>, SavedModelError> {
        let found = self.signature(signature)?;
        let given: BTreeMap<&str, &Tensor> = inputs.iter().map(|(name, v)| (*name, v)).collect();
        let fits = given.keys().eq(found.inputs.keys());
        if !fits || given.len() != inputs.len() {
            return Err(SavedModelError::Inputs {
                model: self.name.clone(),
                signature: signature.to_owned(),
                expected: found.inputs.keys().cloned().collect(),
                given: inputs.iter().map(|(name, _)| (*name).to_owned()).collect(),
            });
        }
        let feeds = found.inputs.iter();
        let feeds = feeds.filter_map(|(name, &to)| Some((to, (*given.get(&**name)?).clone())));
        let feeds: Vec<(OutputId, Tensor)> = feeds.collect();
        let outputs = found.outputs.values().map(|&o| Fetch::Value(o));
        let outputs: Vec<Fetch> = outputs.collect();
        let (values, _) = self
            .session
            .run_step(&outputs, &feeds, &RunOptions::new())?;
        let named = found.outputs.keys().zip(values);
        Ok(named
            .filter_map(|(name, v)| Some((name.clone(), v?)))
            .collect())
    }
}
