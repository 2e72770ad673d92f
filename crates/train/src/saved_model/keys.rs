//! Checkpoint keys of variables, found in a graph's own restore nodes.

use std::collections::BTreeSet;

use thalweg_graph::{Attr, Graph, GraphData, Node, NodeId, OutputId};
use thalweg_graphdef::names;

use crate::saver_nodes::SavedVariable;
use crate::values;

/// Largest depth of nested functions that are searched for restore nodes.
const MAX_DEPTH: usize = 8;

/// Largest number of nodes of functions that are searched: a small file can call functions without end.
const MAX_NODES: usize = 1 << 20;

/// Largest number of nodes between the one that reads a checkpoint and the one that assigns the value.
const MAX_DISTANCE: usize = 8;

/// A variable, and the key of its value in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestoredVariable {
    /// The name in the checkpoint.
    pub key: String,
    /// The slice in TensorFlow's notation; empty for the whole.
    pub slice: String,
    /// The variable's handle.
    pub handle: OutputId,
}

/// Lists the variables that are restored, each once.
pub(super) fn restored_variables(graph: &Graph, restore: Option<&str>) -> Vec<RestoredVariable> {
    let data = graph.snapshot();
    let node = restore.and_then(|name| names::find_operation(graph, name));
    let mut all = Vec::new();
    let mut left = MAX_NODES;
    if let Some(node) = node {
        let needed = data.needed([node.id()], |_| false);
        for id in data.ids().filter(|id| needed[id.index()]) {
            let own = |handle| Some(handle);
            of_node(&data, &data, id, &own, (MAX_DEPTH, &mut left), &mut all);
        }
    }
    if all.is_empty() {
        all = declared(graph);
    }
    if all.is_empty() {
        all = by_node(graph);
    }
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.handle));
    all
}

/// A lookup table that a node fills from a checkpoint.
pub(super) struct RestoredTable {
    /// The node.
    pub import: NodeId,
    /// Its keys and its values: the inputs, and the names in the checkpoint.
    pub inputs: [(OutputId, String); 2],
}

/// Lists the lookup tables that a restore node fills.
pub(super) fn restored_tables(graph: &Graph, restore: Option<&str>) -> Vec<RestoredTable> {
    let data = graph.snapshot();
    let Some(node) = restore.and_then(|name| names::find_operation(graph, name)) else {
        return Vec::new();
    };
    let needed = data.needed([node.id()], |_| false);
    let imports = data.ids().filter(|id| needed[id.index()]);
    let table = |import: NodeId| {
        let node = data.node(import);
        let ("LookupTableImport" | "LookupTableImportV2", &[_, keys, values]) =
            (node.op.name, &node.inputs[..])
        else {
            return None;
        };
        let inputs = [
            (keys, restored_key(&data, keys)?),
            (values, restored_key(&data, values)?),
        ];
        Some(RestoredTable { import, inputs })
    };
    imports.filter_map(table).collect()
}

/// The name in the checkpoint of a value that a node reads from there.
fn restored_key(data: &GraphData, value: OutputId) -> Option<String> {
    let mut at = value;
    for _ in 0..MAX_DISTANCE {
        let from = data.get(at.node)?;
        match from.op.name {
            "RestoreV2" => return strings(data, from, 1)?.into_iter().nth(at.index as usize),
            "Identity" => at = *from.inputs.first()?,
            _ => return None,
        }
    }
    None
}

/// The declared variables, by their names.
fn declared(graph: &Graph) -> Vec<RestoredVariable> {
    let all = graph.variables();
    let restored = all.iter().map(|info| {
        let saved = SavedVariable::of(info);
        let shape = graph.output(info.value).shape();
        RestoredVariable {
            slice: saved.slice_text(&shape).unwrap_or_default(),
            key: saved.name,
            handle: info.handle,
        }
    });
    restored.collect()
}

/// All variables of a graph without declarations, by the names of their nodes.
fn by_node(graph: &Graph) -> Vec<RestoredVariable> {
    let handles = values::handles(graph).into_iter();
    let restored = handles.map(|handle| RestoredVariable {
        key: graph.operation(handle.node).name(),
        slice: String::new(),
        handle,
    });
    restored.collect()
}

/// Finds the variables that a node restores: it reads a checkpoint, or calls a function with such nodes. `outer` maps a
/// handle of `data` to a handle of the whole graph.
fn of_node(
    root: &GraphData,
    data: &GraphData,
    id: NodeId,
    outer: &dyn Fn(OutputId) -> Option<OutputId>,
    (depth, left): (usize, &mut usize),
    to: &mut Vec<RestoredVariable>,
) {
    let node = data.node(id);
    if node.op.name == "RestoreV2" {
        let (Some(keys), Some(slices)) = (strings(data, node, 1), strings(data, node, 2)) else {
            return;
        };
        for (index, handle) in assigned(data, id) {
            let index = index as usize;
            if let (Some(key), Some(slice)) = (keys.get(index), slices.get(index))
                && let Some(handle) = outer(handle)
            {
                to.push(RestoredVariable {
                    key: key.clone(),
                    slice: slice.clone(),
                    handle,
                });
            }
        }
        return;
    }
    let called = node.attrs.iter().find_map(|(_, attr)| match attr {
        Attr::Func(func) => root.function(&func.name),
        _ => None,
    });
    let (Some(function), Some(depth)) = (called, depth.checked_sub(1)) else {
        return;
    };
    let body = &function.body;
    let inner = |handle: OutputId| -> Option<OutputId> {
        let argument = body.get(handle.node)?;
        let is_argument = argument.op.name == thalweg_graph::function::ARGUMENT.name;
        let index = usize::try_from(argument.attrs.int("index")).ok()?;
        let given = node.inputs.get(index).filter(|_| is_argument)?;
        outer(*given)
    };
    for id in body.ids() {
        let Some(fewer) = left.checked_sub(1) else {
            return;
        };
        *left = fewer;
        of_node(root, body, id, &inner, (depth, left), to);
    }
}

/// Reads an input that is a constant of strings.
fn strings(data: &GraphData, node: &Node, input: usize) -> Option<Vec<String>> {
    let mut at = *node.inputs.get(input)?;
    for _ in 0..MAX_DISTANCE {
        let from = data.get(at.node)?;
        if let Some(Attr::Tensor(value)) =
            from.attrs.get("value").filter(|_| from.op.name == "Const")
        {
            let all = value.as_strings().ok()?.iter();
            let text = |s: &[u8]| String::from_utf8(s.to_vec()).ok();
            return all.map(text).collect();
        }
        at = *from.inputs.first().filter(|_| from.op.name == "Identity")?;
    }
    None
}

/// Outputs of a node that are assigned to variables, by index, with the variables' handles.
fn assigned(data: &GraphData, restore: NodeId) -> Vec<(u32, OutputId)> {
    let mut found = Vec::new();
    // A node, the index of the output of the restore node that it passes on, and the distance between them.
    let mut open = vec![(restore, None, 0)];
    while let Some((from, output, between)) = open.pop() {
        let users: BTreeSet<NodeId> = data.consumers(from).collect();
        for user in users {
            let node = data.node(user);
            let of = |given: OutputId| (given.node == from).then(|| output.unwrap_or(given.index));
            match (node.op.name, &node.inputs[..]) {
                ("Assign" | "AssignVariableOp", &[handle, given]) => {
                    found.extend(of(given).map(|index| (index, handle)));
                }
                ("Identity", &[given]) if between < MAX_DISTANCE => {
                    open.extend(of(given).map(|index| (user, Some(index), between + 1)));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}
