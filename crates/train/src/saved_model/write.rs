//! Writing of a SavedModel from a session.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;

use thalweg_checkpoint::{BundleWriter, disk};
use thalweg_graph::{Graph, Output, OutputId};
use thalweg_graphdef::file;
use thalweg_graphdef::messages::{SavedModel as SavedModelDef, SignatureDef};
use thalweg_graphdef::meta::{LOCAL, MetaOptions, export_meta_graph_data, signature};
use thalweg_tensor::Tensor;

use super::error::SavedModelError;
use super::format::{SERVE, VARIABLES};
use super::signature::Signature;
use crate::saver_nodes::{SavedVariable, SaverNodes, SaverOptions};
use crate::steps::Steps;
use crate::values;

/// Version of the SavedModel format.
const SCHEMA: i64 = 1;

/// Options of writing a SavedModel.
///
/// See [the module](super) for an example.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    tags: Vec<String>,
    signatures: BTreeMap<String, SignatureDef>,
    keep_devices: bool,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            tags: vec![SERVE.to_owned()],
            signatures: BTreeMap::new(),
            keep_devices: false,
        }
    }
}

impl ModelOptions {
    /// The defaults.
    pub fn new() -> ModelOptions {
        ModelOptions::default()
    }

    /// Adds a signature: inputs and outputs by the names that callers use. TensorFlow's tools use
    /// [`DEFAULT_SIGNATURE`](super::DEFAULT_SIGNATURE) by default. TensorFlow 2 converts it to a function of Python:
    /// names of inputs must be valid argument names there, which `in` and `class` are not.
    pub fn signature<'g, 'n>(
        mut self,
        name: impl Into<String>,
        inputs: impl IntoIterator<Item = (&'n str, Output<'g>)>,
        outputs: impl IntoIterator<Item = (&'n str, Output<'g>)>,
    ) -> ModelOptions {
        self.signatures
            .insert(name.into(), signature(inputs, outputs));
        self
    }

    /// Sets the tags that identify its graph, in place of `serve`.
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> ModelOptions {
        let tags = tags.into_iter().map(Into::into).collect();
        ModelOptions { tags, ..self }
    }

    /// Keeps the device requests of its nodes, or clears them (`false`): devices of a cluster do not exist elsewhere.
    pub fn keep_devices(self, keep_devices: bool) -> ModelOptions {
        ModelOptions {
            keep_devices,
            ..self
        }
    }
}

/// Writes a session's graph and the values of all its declared and local variables as a SavedModel.
///
/// `saved_model.pb` is written last: a folder that has it is complete. The session's graph stays unchanged; the nodes
/// that save and restore are in the file only.
///
/// # Errors
/// See [`SavedModelError`]: a folder that is not empty is left alone; [`TrainError::Undeclared`](crate::TrainError) for a
/// graph with variables that are not declared.
pub fn save_model(
    session: &dyn Steps,
    folder: impl AsRef<Path>,
    options: &ModelOptions,
) -> Result<(), SavedModelError> {
    let (folder, graph) = (folder.as_ref(), session.graph());
    if folder
        .read_dir()
        .is_ok_and(|mut inside| inside.next().is_some())
        || folder.is_file()
    {
        return Err(SavedModelError::Exists {
            folder: folder.to_owned(),
        });
    }
    let model = folder.display().to_string();
    for (name, signature) in &options.signatures {
        Signature::of(graph, "", &model, name, signature)?;
    }
    values::check_declared(graph)?;
    let mut saved: Vec<SavedVariable> = graph.variables().iter().map(SavedVariable::of).collect();
    for handle in graph.collection(LOCAL) {
        // A variable may be in several collections.
        if !saved.iter().any(|s| s.handle == handle.id()) {
            saved.push(SavedVariable {
                name: handle.operation().name(),
                handle: handle.id(),
                slice: None,
            });
        }
    }
    let handles: Vec<OutputId> = saved.iter().map(|s| s.handle).collect();
    let values = values::read(session, &handles)?;
    let mut meta = MetaOptions::new().clear_devices(!options.keep_devices);
    for tag in &options.tags {
        meta = meta.tag(tag);
    }
    for (name, signature) in &options.signatures {
        meta = meta.signature(name, signature.clone());
    }
    let meta = on_copy(graph, |copy| {
        let meta = match saved.is_empty() {
            true => meta.clone(),
            false => {
                let nodes = copy.extend(|| SaverNodes::add(copy, &saved, &SaverOptions::new()))?;
                meta.clone().saver(nodes.to_def())
            }
        };
        Ok(export_meta_graph_data(&copy.snapshot(), graph, &meta)?)
    })?;
    let def = SavedModelDef {
        saved_model_schema_version: SCHEMA,
        meta_graphs: vec![meta],
    };
    write_variables(folder, &saved, &values)?;
    let disk = disk::system();
    let bytes = file::encode(&def);
    disk.create_folder(folder)
        .map_err(|error| file::FileError::Io {
            path: folder.to_owned(),
            reason: error.to_string(),
        })?;
    disk::write(&disk, &folder.join(file::SAVED_MODEL), &bytes)?;
    Ok(())
}

fn write_variables(
    folder: &Path,
    saved: &[SavedVariable],
    values: &[Tensor],
) -> Result<(), SavedModelError> {
    if saved.is_empty() {
        return Ok(());
    }
    let mut writer = BundleWriter::create(&folder.join(VARIABLES))?;
    for (one, value) in saved.iter().zip(values) {
        let slice = one.slice_of(&value.shape()).flatten();
        writer.add_part(&one.name, slice.as_ref(), value)?;
    }
    Ok(writer.finish()?)
}

/// Runs `build` on a copy of a graph, which stays unchanged.
fn on_copy<T>(
    graph: &Graph,
    build: impl Fn(&Graph) -> Result<T, SavedModelError>,
) -> Result<T, SavedModelError> {
    // A copy is committed if its builder succeeds; this one never does.
    let built: Result<Infallible, _> = graph.atomically(|copy| Err(build(copy)));
    match built {
        Err(made) => made,
        Ok(never) => match never {},
    }
}
