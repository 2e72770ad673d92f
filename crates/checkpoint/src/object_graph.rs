//! Object-based checkpoints of TensorFlow 2: their keys are paths of attributes, and an object
//! graph in the checkpoint has the variables' names. Source: TensorFlow's
//! `core/protobuf/trackable_object_graph.proto`.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use thalweg_tensor::Tensor;

use crate::bundle::BundleReader;
use crate::error::CheckpointError;

/// The entry that holds the object graph.
pub const KEY: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// TrackableObjectGraph; only the attributes matter here.
#[derive(Clone, PartialEq, Message)]
struct ObjectGraph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
}

/// TrackableObject.
#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(message, repeated, tag = "2")]
    attributes: Vec<Attribute>,
}

/// SerializedTensor.
#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    full_name: String,
    #[prost(string, tag = "3")]
    checkpoint_key: String,
}

/// The variables of an object-based checkpoint, by name.
///
/// ```
/// use thalweg_checkpoint::{BundleReader, BundleWriter};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-objects-{}", std::process::id()));
/// let mut writer = BundleWriter::create(&folder.join("m"))?;
/// writer.add("w", &Tensor::scalar(1.0f32))?;
/// writer.finish()?;
/// // A checkpoint of variables has no such names besides its own.
/// assert!(BundleReader::open(&folder.join("m"))?.by_variable_name()?.is_none());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub struct VariableNames<'a> {
    reader: &'a BundleReader,
    keys: BTreeMap<String, String>,
    ambiguous: BTreeSet<String>,
}

impl BundleReader {
    /// The variables by name, as `dense/kernel`, of a checkpoint of TensorFlow 2's objects; `None`
    /// if the keys are the variables' names.
    ///
    /// # Errors
    /// As [`BundleReader::tensor`], and [`CheckpointError::Corrupt`] if the object graph is
    /// malformed.
    pub fn by_variable_name(&self) -> Result<Option<VariableNames<'_>>, CheckpointError> {
        let Some((keys, ambiguous)) = variable_keys(self)? else {
            return Ok(None);
        };
        Ok(Some(VariableNames {
            reader: self,
            keys,
            ambiguous,
        }))
    }
}

impl BundleReader {
    /// The keys of each object's tensors, for the objects of a checkpoint of TensorFlow 2 in their
    /// order; none for other checkpoints.
    ///
    /// # Errors
    /// As [`BundleReader::by_variable_name`].
    pub fn keys_of_objects(&self) -> Result<Vec<Vec<String>>, CheckpointError> {
        let graph = object_graph(self)?.unwrap_or_default();
        let keys = |node: Node| {
            node.attributes
                .into_iter()
                .map(|a| a.checkpoint_key)
                .collect()
        };
        Ok(graph.nodes.into_iter().map(keys).collect())
    }
}

/// The object graph of a checkpoint; `None` if it has none.
fn object_graph(reader: &BundleReader) -> Result<Option<ObjectGraph>, CheckpointError> {
    if !reader.contains(KEY) {
        return Ok(None);
    }
    let index = crate::bundle::index_path(reader.prefix());
    let broken = |what: &str| CheckpointError::corrupt_entry(&index, KEY, what);
    let tensor = reader.tensor(KEY)?;
    let text = tensor.as_strings().unwrap_or_default().only();
    let text = text.ok_or_else(|| broken("is no single string"))?;
    let graph = ObjectGraph::decode(text).map_err(|_| broken("is no object graph"))?;
    Ok(Some(graph))
}

type Keys = (BTreeMap<String, String>, BTreeSet<String>);

/// The keys of variables by name, and the ambiguous names.
pub(crate) fn variable_keys(reader: &BundleReader) -> Result<Option<Keys>, CheckpointError> {
    let Some(graph) = object_graph(reader)? else {
        return Ok(None);
    };
    let (mut keys, mut ambiguous) = (BTreeMap::new(), BTreeSet::new());
    for attribute in graph.nodes.into_iter().flat_map(|node| node.attributes) {
        let Attribute {
            full_name,
            checkpoint_key,
            ..
        } = attribute;
        if full_name.is_empty() || !reader.contains(&checkpoint_key) {
            continue;
        }
        let other = keys.insert(full_name.clone(), checkpoint_key.clone());
        if other.is_some_and(|other| other != checkpoint_key) {
            ambiguous.insert(full_name);
        }
    }
    keys.retain(|name, _| !ambiguous.contains(name));
    Ok(Some((keys, ambiguous)))
}

impl VariableNames<'_> {
    /// The names of the variables, in order, without ambiguous ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// The key of a variable, as `model/layer/kernel/.ATTRIBUTES/VARIABLE_VALUE`.
    pub fn key(&self, name: &str) -> Option<&str> {
        self.keys.get(name).map(String::as_str)
    }

    /// The value of a variable.
    ///
    /// # Errors
    /// [`CheckpointError::NoEntry`], also for a name that several variables have; and as
    /// [`BundleReader::tensor`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        match self.keys.get(name) {
            Some(key) => self.reader.tensor(key),
            None => Err(CheckpointError::NoEntry {
                name: name.to_owned(),
                file: self.reader.prefix().to_owned(),
                hint: match self.ambiguous.contains(name) {
                    true => {
                        ": several variables have this name; read them by their keys".to_owned()
                    }
                    false => format!(", which has {} other variables", self.keys.len()),
                },
            }),
        }
    }
}
