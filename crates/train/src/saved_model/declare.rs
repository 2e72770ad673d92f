//! Declaration of the variables that a model restores: savers, optimizers and exports work on declared variables.

use std::collections::BTreeSet;

use thalweg_checkpoint::{BundleReader, CheckpointError, SliceSpec};
use thalweg_graph::{DeviceScope, Graph, OutputId, VariableInfo, VariableSlice};
use thalweg_graphdef::messages::MetaGraphDef;

use super::keys::RestoredVariable;
use crate::values::plain_reads;

/// Keys of a model's trainable variables, by the object graph of TensorFlow 2. A model without one has none: TensorFlow 1
/// lists them in a collection.
///
/// The nodes of the model's object graph are those of the checkpoint's, in the same order.
pub(super) fn trainable_keys(
    reader: &BundleReader,
    meta: &MetaGraphDef,
) -> Result<BTreeSet<String>, CheckpointError> {
    let Some(objects) = &meta.object_graph_def else {
        return Ok(BTreeSet::new());
    };
    let keys = reader.keys_of_objects()?.into_iter().zip(&objects.nodes);
    let keys = keys.filter(|(_, object)| object.variable.as_ref().is_some_and(|v| v.trainable));
    Ok(keys.flat_map(|(keys, _)| keys).collect())
}

/// Declares the variables that a graph restores and does not declare yet.
///
/// The name of a variable is that of its node. Its initializer assigns the initial value if the graph has a node for it, as
/// TensorFlow 1 names it; otherwise it does nothing, so that initializing new variables keeps the loaded values.
pub(super) fn declare(graph: &Graph, restored: &[RestoredVariable], trainable: &BTreeSet<String>) {
    let data = graph.snapshot();
    let declared: BTreeSet<OutputId> = data.variables().iter().map(|v| v.handle).collect();
    let reads = plain_reads(&data);
    for one in restored
        .iter()
        .filter(|one| !declared.contains(&one.handle))
    {
        let Some(fact) = data.fact(one.handle) else {
            continue;
        };
        let name = data.node(one.handle.node).name.clone();
        let build = || {
            let value = match (fact.reference, reads.get(&one.handle)) {
                (true, _) => one.handle,
                (false, Some(&read)) => read,
                (false, None) => read(graph, one.handle, &name),
            };
            let assign = format!("{name}/Assign");
            let initializer = graph.find(&assign).unwrap_or_else(|| {
                let keep = graph.op("NoOp").name(&format!("{name}/keep_loaded_value"));
                keep.build()
            });
            (value, initializer.id())
        };
        let build = || graph.without_control_dependencies(build);
        let build = || graph.name_scope("/", build);
        let (value, initializer) = graph.extend(|| graph.device(DeviceScope::None, build));
        graph.declare_variable(VariableInfo {
            name,
            handle: one.handle,
            value,
            initializer,
            trainable: trainable.contains(&one.key),
            slice: slice(one),
        });
    }
}

fn read(graph: &Graph, handle: OutputId, name: &str) -> OutputId {
    let handle = graph.output(handle);
    let read = || {
        let read = graph.op("ReadVariableOp").input(handle);
        let read = match handle.fact().variable {
            Some((dtype, _)) => read.attr("dtype", dtype),
            None => read,
        };
        read.name(&format!("{name}/Read/ReadVariableOp"))
            .output()
            .id()
    };
    graph.colocate_with(handle, read)
}

/// The slice of a partitioned variable, under the key of the whole.
fn slice(one: &RestoredVariable) -> Option<VariableSlice> {
    let slice = SliceSpec::parse_or_whole(&one.slice).ok()??;
    let begin = slice.extents().iter();
    Some(VariableSlice {
        of: one.key.clone(),
        dims: slice.full_dims().to_vec(),
        begin: begin.map(|e| e.map_or(0, |(start, _)| start)).collect(),
    })
}
