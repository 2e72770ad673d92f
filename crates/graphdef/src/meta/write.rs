//! Export of MetaGraphs.

use std::collections::BTreeMap;

use thalweg_graph::{Graph, GraphData, Output, OutputId, VariableInfo};

use super::collections::{LOCAL, TRAINABLE, VARIABLES};
use crate::dtype;
use crate::export::{ExportError, ExportOptions, clear_devices, export_data};
use crate::file::encode;
use crate::messages::collection_def::{BytesList, Kind, NodeList};
use crate::messages::meta_graph_def::MetaInfoDef;
use crate::messages::tensor_info::Encoding;
use crate::messages::{
    CollectionDef, MetaGraphDef, SaveSliceInfoDef, SaverDef, SignatureDef, TensorInfo, VariableDef,
};
use crate::shape;

/// The method of a signature that computes its outputs from its inputs, as TensorFlow Serving's
/// `Predict` takes it.
pub const PREDICT: &str = "tensorflow/serving/predict";

/// The collection that holds the global step, as the variable of this name.
const GLOBAL_STEP: &str = "global_step";

/// Collections whose entries TensorFlow reads as messages: they cannot hold names of nodes.
const OF_MESSAGES: &[&str] = &[
    VARIABLES,
    TRAINABLE,
    GLOBAL_STEP,
    LOCAL,
    "model_variables",
    "moving_average_variables",
    "metric_variables",
    "cond_context",
    "while_context",
    "queue_runners",
    "savers",
];

/// Options of [`export_meta_graph`]: the parts of a MetaGraph beside its graph.
#[derive(Clone, Debug, Default)]
pub struct MetaOptions {
    tags: Vec<String>,
    signatures: BTreeMap<String, SignatureDef>,
    saver: Option<SaverDef>,
    export: ExportOptions,
    clear_devices: bool,
}

impl MetaOptions {
    /// Options for the graph, its variables and its collections alone.
    pub fn new() -> MetaOptions {
        MetaOptions::default()
    }

    /// Adds a tag. Tags distinguish a SavedModel's graphs: `serve`.
    pub fn tag(mut self, tag: impl Into<String>) -> MetaOptions {
        self.tags.push(tag.into());
        self
    }

    /// Adds a signature that a caller may run; see [`signature`].
    pub fn signature(mut self, name: impl Into<String>, signature: SignatureDef) -> MetaOptions {
        self.signatures.insert(name.into(), signature);
        self
    }

    /// Sets whether its nodes' device requests are cleared (`false`): a cluster's devices do not exist on other machines.
    pub fn clear_devices(self, clear_devices: bool) -> MetaOptions {
        MetaOptions {
            clear_devices,
            ..self
        }
    }

    /// Sets the options of its graph's export.
    pub fn export(self, export: ExportOptions) -> MetaOptions {
        MetaOptions { export, ..self }
    }

    /// Sets the nodes that save and restore its variables.
    pub fn saver(self, saver: SaverDef) -> MetaOptions {
        MetaOptions {
            saver: Some(saver),
            ..self
        }
    }
}

/// A signature: its inputs and outputs, by the names that callers use. Its method is [`PREDICT`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_graphdef::meta::signature;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1]);
/// let signature = signature([("in", x)], [("twice", (x * 2.0).named("y"))]);
/// assert_eq!(signature.method_name, "tensorflow/serving/predict");
/// assert_eq!(signature.inputs["in"].dtype, 1);
/// ```
pub fn signature<'g, 'n>(
    inputs: impl IntoIterator<Item = (&'n str, Output<'g>)>,
    outputs: impl IntoIterator<Item = (&'n str, Output<'g>)>,
) -> SignatureDef {
    let info = |(name, output): (&str, Output<'_>)| {
        let fact = output.fact();
        let info = TensorInfo {
            dtype: dtype::to_number(fact.dtype),
            tensor_shape: Some(shape::to_proto(&fact.shape)),
            encoding: Some(Encoding::Name(output.name())),
        };
        (name.to_owned(), info)
    };
    SignatureDef {
        inputs: inputs.into_iter().map(info).collect(),
        outputs: outputs.into_iter().map(info).collect(),
        method_name: PREDICT.to_owned(),
        ..SignatureDef::default()
    }
}

/// Converts a graph to a MetaGraph: with its variables in the collections `variables` and
/// `trainable_variables`, the variable `global_step` in the collection of its name, and with its
/// own collections as names of outputs and of nodes.
///
/// `tf.compat.v1.train.import_meta_graph` takes it. With a saver's nodes in the graph and in the
/// options, the saver that it returns restores checkpoints.
///
/// # Errors
/// See [`ExportError`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_graphdef::meta::variables;
/// use thalweg_graphdef::{MetaOptions, export_meta_graph};
/// use thalweg_ops::{NewGraph, StateOps};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let w = g.variable("w", 1.0f32);
/// g.add_to_collection("losses", w.value());
/// let meta = export_meta_graph(&g, &MetaOptions::new().tag("train"))?;
/// assert_eq!(variables(&meta, "meta")?[0].variable_name, "w:0");
/// assert!(meta.collection_def.contains_key("losses"));
/// # Ok(())
/// # }
/// ```
pub fn export_meta_graph(
    graph: &Graph,
    options: &MetaOptions,
) -> Result<MetaGraphDef, ExportError> {
    export_meta_graph_data(&graph.snapshot(), graph, options)
}

/// As [`export_meta_graph`], for a graph's data: that of `graph`, or of a copy to which nodes were
/// added. The collections are those of `graph`.
///
/// # Errors
/// See [`ExportError`].
pub fn export_meta_graph_data(
    data: &GraphData,
    graph: &Graph,
    options: &MetaOptions,
) -> Result<MetaGraphDef, ExportError> {
    let mut graph_def = export_data(data, &options.export)?;
    if options.clear_devices {
        clear_devices(&mut graph_def);
    }
    Ok(MetaGraphDef {
        meta_info_def: Some(MetaInfoDef {
            tags: options.tags.clone(),
            ..MetaInfoDef::default()
        }),
        graph_def: Some(graph_def),
        saver_def: options.saver.clone(),
        collection_def: collections(data, graph),
        signature_def: options.signatures.clone(),
        ..MetaGraphDef::default()
    })
}

fn collections(data: &GraphData, graph: &Graph) -> BTreeMap<String, CollectionDef> {
    let mut all: BTreeMap<String, CollectionDef> = BTreeMap::new();
    let held = |has: fn(&VariableInfo) -> bool| -> Vec<Vec<u8>> {
        let held = data.variables().iter().filter(|v| has(v));
        held.map(|v| encode(&variable(data, v))).collect()
    };
    for (key, value) in [
        (VARIABLES, held(|_| true)),
        (TRAINABLE, held(|v| v.trainable)),
        (GLOBAL_STEP, held(|v| v.name == GLOBAL_STEP)),
    ] {
        if !value.is_empty() {
            let kind = Some(Kind::BytesList(BytesList { value }));
            all.insert(key.to_owned(), CollectionDef { kind });
        }
    }
    for key in graph.collection_keys() {
        if OF_MESSAGES.contains(&&*key) {
            continue;
        }
        let outputs = graph.collection(&key).into_iter().map(|o| o.name());
        let nodes = graph.operations_in(&key).into_iter().map(|o| o.name());
        let value = outputs.chain(nodes).collect();
        let kind = Some(Kind::NodeList(NodeList { value }));
        all.insert(key, CollectionDef { kind });
    }
    all
}

/// The VariableDef from which TensorFlow restores its variable object.
fn variable(data: &GraphData, info: &VariableInfo) -> VariableDef {
    let fact = data.fact(info.handle);
    let initializer = data.get(info.initializer);
    // The inputs of an assignment are the handle and the value.
    let initial = initializer.and_then(|n| n.inputs.get(1));
    let name = |output: OutputId| data.output_name(output);
    VariableDef {
        variable_name: name(info.handle),
        initializer_name: initializer.map_or_else(String::new, |n| n.name.clone()),
        snapshot_name: name(info.value),
        save_slice_info_def: info.slice.as_ref().and_then(|slice| {
            let (_, own) = fact?.variable.as_ref()?;
            let numbers = |all: &[usize]| all.iter().map(|&n| n as i64).collect();
            Some(SaveSliceInfoDef {
                full_name: slice.of.clone(),
                full_shape: numbers(&slice.dims),
                var_offset: numbers(&slice.begin),
                var_shape: numbers(&own.to_dims()?),
            })
        }),
        is_resource: fact.is_some_and(|f| !f.reference),
        initial_value_name: initial.map_or_else(String::new, |&o| name(o)),
        trainable: info.trainable,
        ..VariableDef::default()
    }
}
