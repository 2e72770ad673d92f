//! Signatures of a model: named inputs and outputs.

use std::collections::BTreeMap;

use thalweg_graph::{Graph, OutputId};
use thalweg_graphdef::messages::tensor_info::Encoding;
use thalweg_graphdef::messages::{MetaGraphDef, SignatureDef, TensorInfo};
use thalweg_graphdef::names;

use super::error::SavedModelError;
use super::format::INIT_SIGNATURE;

/// A signature: inputs and outputs of a graph, by the names that callers use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Method name, for servers: `tensorflow/serving/predict`.
    pub method: String,
    /// Inputs, by name.
    pub inputs: BTreeMap<String, OutputId>,
    /// Outputs, by name.
    pub outputs: BTreeMap<String, OutputId>,
}

impl Signature {
    /// Imports a file's signature, in the graph that was imported with `prefix` (empty for none).
    ///
    /// A sparse tensor becomes three, with `_component_0` and so on after its name: indices, values and dense shape, as
    /// in TensorFlow 2.
    ///
    /// # Errors
    /// [`SavedModelError::Signature`].
    pub fn of(
        graph: &Graph,
        prefix: &str,
        model: &str,
        name: &str,
        def: &SignatureDef,
    ) -> Result<Signature, SavedModelError> {
        let find = |key: &str, tensor: &str| {
            let found = output(graph, prefix, tensor);
            found.ok_or_else(|| SavedModelError::Signature {
                model: model.to_owned(),
                signature: name.to_owned(),
                name: key.to_owned(),
                tensor: format!("'{tensor}'"),
            })
        };
        let outputs = |infos: &BTreeMap<String, TensorInfo>| {
            let mut all = BTreeMap::new();
            for (key, info) in infos {
                match &info.encoding {
                    Some(Encoding::CooSparse(sparse)) => {
                        let parts = [
                            &sparse.indices_tensor_name,
                            &sparse.values_tensor_name,
                            &sparse.dense_shape_tensor_name,
                        ];
                        for (i, part) in parts.into_iter().enumerate() {
                            all.insert(format!("{key}_component_{i}"), find(key, part)?);
                        }
                    }
                    Some(Encoding::Name(tensor)) => {
                        all.insert(key.clone(), find(key, tensor)?);
                    }
                    None => {
                        find(key, "")?;
                    }
                }
            }
            Ok::<_, SavedModelError>(all)
        };
        Ok(Signature {
            method: def.method_name.clone(),
            inputs: outputs(&def.inputs)?,
            outputs: outputs(&def.outputs)?,
        })
    }
}

/// Imports the signatures of a MetaGraph whose graph was imported under its own names.
///
/// # Errors
/// [`SavedModelError::Signature`].
pub fn signatures(
    graph: &Graph,
    model: &str,
    meta: &MetaGraphDef,
) -> Result<BTreeMap<String, Signature>, SavedModelError> {
    let all = meta
        .signature_def
        .iter()
        .filter(|(n, _)| *n != INIT_SIGNATURE);
    all.map(|(name, def)| Ok((name.clone(), Signature::of(graph, "", model, name, def)?)))
        .collect()
}

/// Finds the output of this name, prefix included.
fn output(graph: &Graph, prefix: &str, name: &str) -> Option<OutputId> {
    let name = match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}/{name}"),
    };
    names::find_output(graph, &name).map(|o| o.id())
}
