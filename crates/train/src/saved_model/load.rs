//! Loading of a model into a session.

use std::path::Path;

use thalweg_checkpoint::bundle::index_path;
use thalweg_graphdef::messages::tensor_info::Encoding;
use thalweg_graphdef::messages::{MetaGraphDef, collection_def::Kind};
use thalweg_graphdef::names;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::Tensor;

use super::assets::assets;
use super::error::SavedModelError;
use super::format::{INIT_SIGNATURE, VARIABLES};
use super::restore;
use crate::steps::Steps;

/// Collections by which TensorFlow 1 names that node; newer files have the first.
const INIT_COLLECTIONS: [&str; 2] = ["saved_model_main_op", "legacy_init_op"];

/// Loads a SavedModel into a session: restores the variables of its graph, which was imported under its own names, from
/// the folder's checkpoint, and runs the model's initialization. Returns the number of restored variables.
///
/// An initialization that reads files of the model needs the options of [`with_assets`](super::with_assets).
///
/// # Errors
/// See [`SavedModelError`].
pub fn restore_model(
    session: &dyn Steps,
    folder: &Path,
    meta: &MetaGraphDef,
) -> Result<usize, SavedModelError> {
    let checkpoint = folder.join(VARIABLES);
    // A model without variables has no checkpoint, although it may have restore nodes.
    let restored = match index_path(&checkpoint).exists() {
        true => restore_meta_graph(session, &checkpoint, meta)?,
        false => 0,
    };
    let model = folder.display().to_string();
    let graph = session.graph();
    let Some(node) = init_node(meta) else {
        return Ok(restored);
    };
    let missing = |node: &str| SavedModelError::NoInit {
        model: model.clone(),
        node: node.to_owned(),
    };
    let found = names::find_operation(graph, &node).ok_or_else(|| missing(&node))?;
    let mut feeds = Vec::new();
    for (tensor, path) in assets(folder, meta)? {
        let output = names::find_output(graph, &tensor).ok_or_else(|| missing(&tensor))?;
        feeds.push((output.id(), Tensor::from(&*path.display().to_string())));
    }
    session.run_step(&[Fetch::Run(found.id())], &feeds, &RunOptions::new())?;
    Ok(restored)
}

/// Restores the variables of a session's graph, which was imported from a MetaGraph under its own names, from a
/// checkpoint with this prefix, and declares those that were not. Returns their number.
///
/// # Errors
/// See [`SavedModelError`].
pub fn restore_meta_graph(
    session: &dyn Steps,
    checkpoint: &Path,
    meta: &MetaGraphDef,
) -> Result<usize, SavedModelError> {
    restore::restore(session, checkpoint, meta)
}

/// Finds the node to run when a model is loaded.
fn init_node(meta: &MetaGraphDef) -> Option<String> {
    let signature = meta.signature_def.get(INIT_SIGNATURE);
    let output = signature.and_then(|s| s.outputs.get(INIT_SIGNATURE));
    if let Some(Encoding::Name(name)) = output.and_then(|o| o.encoding.as_ref()) {
        return Some(name.clone());
    }
    INIT_COLLECTIONS.iter().find_map(|key| {
        let kind = meta.collection_def.get(*key)?.kind.as_ref()?;
        match kind {
            Kind::NodeList(list) => list.value.first().cloned(),
            _ => None,
        }
    })
}
