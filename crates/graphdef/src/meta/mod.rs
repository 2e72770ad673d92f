//! MetaGraphs: a graph with its variables, collections, saver and signatures. [`export_meta_graph`]
//! writes one.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::messages::collection_def::{Kind, NodeList};
//! use thalweg_graphdef::messages::{CollectionDef, MetaGraphDef};
//! use thalweg_graphdef::{ExportOptions, ImportOptions, export, import_meta_graph};
//! use thalweg_ops::{NewGraph, SourceOps};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Graph::new();
//! let _x = g.placeholder("x", DType::F32, []);
//! let inputs = NodeList { value: vec!["x:0".into()] };
//! let inputs = CollectionDef { kind: Some(Kind::NodeList(inputs)) };
//! let mut meta = MetaGraphDef::default();
//! meta.graph_def = Some(export(&g, &ExportOptions::default())?);
//! meta.collection_def.insert("inputs".into(), inputs);
//!
//! let g = Graph::new();
//! import_meta_graph(&g, &meta, &ImportOptions::default())?;
//! assert_eq!(g.collection("inputs")[0].name(), "x:0");
//! # Ok(())
//! # }
//! ```

mod collections;
mod write;

pub use write::{MetaOptions, PREDICT, export_meta_graph, export_meta_graph_data, signature};

use thalweg_graph::{Graph, OutputId, VariableInfo, VariableSlice};

pub use collections::LOCAL;
use collections::{TRAINABLE, VARIABLES};

use crate::error::ImportError;
use crate::file::decode;
use crate::import::{ImportOptions, Imported, import_and};
use crate::messages::collection_def::Kind;
use crate::messages::{CollectionDef, GraphDef, MetaGraphDef, VariableDef};
use crate::names::{self, prefixed};

/// Adds a MetaGraph's graph to `graph`, as [`crate::import()`] does, declares its variables and
/// fills collections with the outputs and nodes that it lists in collections of the same names. The
/// handles of local variables are in the collection [`LOCAL`].
///
/// # Errors
/// See [`ImportError`]; nothing is added then.
pub fn import_meta_graph<'g>(
    graph: &'g Graph,
    meta: &MetaGraphDef,
    options: &ImportOptions<'g>,
) -> Result<Imported<'g>, ImportError> {
    let empty = GraphDef::default();
    let def = meta.graph_def.as_ref().unwrap_or(&empty);
    let variables = variables(meta, &options.origin)?;
    let local = local_variables(meta, &options.origin)?;
    import_and(graph, def, options, |copy, _| {
        for variable in &variables {
            copy.declare_variable(info(copy, variable, options)?);
        }
        for name in &local {
            if let Some(handle) = names::find_output(copy, &prefixed(&options.prefix, name)) {
                copy.add_to_collection(LOCAL, handle);
            }
        }
        for (key, collection) in &meta.collection_def {
            let Some(Kind::NodeList(list)) = &collection.kind else {
                continue;
            };
            for name in &list.value {
                let prefixed = prefixed(&options.prefix, name);
                // A name that does not exist is skipped: files keep pruned names.
                if !name.contains(':') {
                    if let Some(node) = names::find_operation(copy, &prefixed) {
                        copy.add_operation_to_collection(key, node);
                    }
                } else if let Some(output) = names::find_output(copy, &prefixed) {
                    copy.add_to_collection(key, output);
                }
            }
        }
        Ok(())
    })
}

/// The variables that a MetaGraph lists, each once.
///
/// # Errors
/// [`ImportError::Decode`] if the collection does not hold variables.
pub fn variables(meta: &MetaGraphDef, origin: &str) -> Result<Vec<VariableDef>, ImportError> {
    let mut all: Vec<VariableDef> = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for (key, trainable) in [(VARIABLES, false), (TRAINABLE, true)] {
        for bytes in bytes(meta.collection_def.get(key)) {
            let mut variable: VariableDef = decode(bytes, origin, "MetaGraphDef: VariableDef")?;
            let at = seen
                .entry(variable.variable_name.clone())
                .or_insert(all.len());
            match all.get_mut(*at) {
                Some(there) => there.trainable |= trainable,
                None => {
                    // Files of TensorFlow 1 mark trainable variables only by the collection.
                    variable.trainable = trainable;
                    all.push(variable);
                }
            }
        }
    }
    Ok(all)
}

/// The names of the handles of a MetaGraph's local variables.
fn local_variables(meta: &MetaGraphDef, origin: &str) -> Result<Vec<String>, ImportError> {
    let all = bytes(meta.collection_def.get(LOCAL)).iter();
    let all = all.map(|bytes| {
        let variable: VariableDef = decode(bytes, origin, "MetaGraphDef: VariableDef")?;
        Ok(variable.variable_name)
    });
    all.collect()
}

fn bytes(collection: Option<&CollectionDef>) -> &[Vec<u8>] {
    match collection.and_then(|c| c.kind.as_ref()) {
        Some(Kind::BytesList(list)) => &list.value,
        _ => &[],
    }
}

/// The slice of a partitioned variable that a variable holds; `None` if the file does not describe
/// it in full.
fn slice(variable: &VariableDef) -> Option<VariableSlice> {
    let info = variable.save_slice_info_def.as_ref()?;
    let numbers = |all: &[i64]| -> Option<Vec<usize>> {
        all.iter().map(|&n| usize::try_from(n).ok()).collect()
    };
    let (dims, begin) = (numbers(&info.full_shape)?, numbers(&info.var_offset)?);
    (!info.full_name.is_empty() && dims.len() == begin.len()).then(|| VariableSlice {
        of: info.full_name.clone(),
        dims,
        begin,
    })
}

fn info(
    graph: &Graph,
    variable: &VariableDef,
    options: &ImportOptions<'_>,
) -> Result<VariableInfo, ImportError> {
    let missing = |what: &str, name: &str| ImportError::Meta {
        origin: options.origin.clone(),
        what: format!(
            "variable '{}' has '{name}' as its {what}, which is not in the graph",
            variable.variable_name
        ),
    };
    let output = |what: &str, name: &str| -> Result<OutputId, ImportError> {
        let found = names::find_output(graph, &prefixed(&options.prefix, name));
        Ok(found.ok_or_else(|| missing(what, name))?.id())
    };
    let handle = output("handle", &variable.variable_name)?;
    let value = match &*variable.snapshot_name {
        // Old files do not have it; a reference is the value too.
        "" => handle,
        name => output("value", name)?,
    };
    let name = &variable.initializer_name;
    let initializer = names::find_operation(graph, &prefixed(&options.prefix, name));
    Ok(VariableInfo {
        name: graph.operation(handle.node).name(),
        handle,
        value,
        initializer: initializer
            .ok_or_else(|| missing("initializer", name))?
            .id(),
        trainable: variable.trainable,
        slice: slice(variable),
    })
}
