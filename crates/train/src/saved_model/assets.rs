//! Assets of a SavedModel: files that its graph reads, such as vocabularies of lookup tables.

use std::path::{Path, PathBuf};

use thalweg_graphdef::messages::tensor_info::Encoding;
use thalweg_graphdef::messages::{AssetFileDef, MetaGraphDef, collection_def::Kind};
use thalweg_graphdef::{FileError, file};
use thalweg_session::SessionOptions;

use super::error::SavedModelError;

/// Name of the folder of assets in that of a SavedModel.
const ASSETS: &str = "assets";

/// Collection of the assets of TensorFlow 1; newer files have a field.
const COLLECTION: &str = "saved_model_assets";

/// The options, with the right to use the files in a SavedModel's folder of assets, if it has one.
///
/// # Errors
/// The folder of assets cannot be read.
pub fn with_assets(
    options: SessionOptions,
    folder: &Path,
) -> Result<SessionOptions, SavedModelError> {
    let path = folder.join(ASSETS);
    if !path.is_dir() {
        return Ok(options);
    }
    let wrong = |e: std::io::Error| FileError::Io {
        path: path.clone(),
        reason: e.to_string(),
    };
    Ok(options.also_files(&path).map_err(wrong)?)
}

/// The assets of a model: the tensor that takes each file's name, and the file.
pub(super) fn assets(
    folder: &Path,
    meta: &MetaGraphDef,
) -> Result<Vec<(String, PathBuf)>, SavedModelError> {
    let mut defs = meta.asset_file_def.clone();
    let collection = meta.collection_def.get(COLLECTION);
    if let Some(Kind::AnyList(list)) = collection.and_then(|c| c.kind.as_ref())
        && defs.is_empty()
    {
        let decoded = |any: &thalweg_graphdef::messages::Any| {
            file::decode::<AssetFileDef>(&any.value, COLLECTION, "AssetFileDef")
        };
        defs = list.value.iter().map(decoded).collect::<Result<_, _>>()?;
    }
    // A path of a graph must not contain `..`, as that of the folder may.
    let path = folder.join(ASSETS);
    let path = path.canonicalize().unwrap_or(path);
    let named = defs.into_iter().filter_map(|def| {
        let Some(Encoding::Name(tensor)) = def.tensor_info?.encoding else {
            return None;
        };
        Some((tensor, path.join(def.filename)))
    });
    Ok(named.collect())
}
