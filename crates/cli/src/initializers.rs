//! Initializers of a graph's variables, for the advice after a step that reads an uninitialized variable.

use std::collections::BTreeSet;

use thalweg_device::KernelError;
use thalweg_graph::{Graph, GraphData, NodeId};
use thalweg_session::SessionError;

/// Maximum number of nodes in a message.
const MAX_LISTED: usize = 8;

/// Text of a step's error; for an uninitialized variable with the `--init` that gives it a value.
pub(crate) fn error_text(graph: &Graph, error: &SessionError) -> String {
    match error {
        SessionError::Kernel {
            node,
            op,
            source: KernelError::Uninitialized { variable },
            ..
        } => {
            let advice = advice(&graph.snapshot(), variable);
            format!("node '{node}' ({op}): variable '{variable}' has no value: {advice}")
        }
        other => other.to_string(),
    }
}

/// Advice for an uninitialized variable: the group node that initializes most variables, or the nodes that initialize one
/// each.
fn advice(graph: &GraphData, variable: &str) -> String {
    let own = |id: NodeId| {
        let node = graph.node(id);
        node.name == variable || node.attrs.str("shared_name") == variable
    };
    let initializers = initializers(graph);
    let Some(&(_, wanted)) = initializers.iter().find(|(of, _)| own(*of)) else {
        return "no node of the file gives it its first one".to_owned();
    };
    let single: BTreeSet<NodeId> = initializers.iter().map(|&(_, node)| node).collect();
    let mut best: Option<(usize, NodeId)> = None;
    for (id, node) in graph.nodes() {
        let group = (node.op.name == "NoOp").then(|| members(graph, id));
        let Some(group) = group.filter(|g| g.contains(&wanted) && g.is_subset(&single)) else {
            continue;
        };
        if best.is_none_or(|(len, _)| group.len() > len) {
            best = Some((group.len(), id));
        }
    }
    let name = |id: NodeId| &graph.node(id).name;
    if let Some((_, id)) = best {
        return format!("add --init {}", name(id));
    }
    let shown = single.iter().take(MAX_LISTED);
    let all: Vec<String> = shown.map(|&id| format!("--init {}", name(id))).collect();
    match single.len() {
        n if n > MAX_LISTED => format!(
            "add --init {}, and as many for the other variables",
            name(wanted)
        ),
        _ => format!("add {}", all.join(" ")),
    }
}

/// Each variable's node with its initializer: the declared one, or the first assignment by TensorFlow's naming.
fn initializers(graph: &GraphData) -> Vec<(NodeId, NodeId)> {
    let declared = graph.variables().iter();
    let mut found: Vec<(NodeId, NodeId)> =
        declared.map(|v| (v.handle.node, v.initializer)).collect();
    for (id, node) in graph.nodes() {
        let assigns = ["Assign", "AssignVariableOp"].contains(&node.op.name);
        let Some(variable) = node.inputs.first().filter(|_| assigns) else {
            continue;
        };
        let variable = variable.node;
        let known = found.iter().any(|&(of, _)| of == variable);
        if !known && node.name == format!("{}/Assign", graph.node(variable).name) {
            found.push((variable, id));
        }
    }
    found
}

/// Nodes that a NoOp groups by control inputs, also through other NoOps.
fn members(graph: &GraphData, id: NodeId) -> BTreeSet<NodeId> {
    let mut members = BTreeSet::new();
    let mut seen = BTreeSet::from([id]);
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        for &before in &graph.node(id).controls {
            match graph.node(before).op.name {
                "NoOp" if seen.insert(before) => open.push(before),
                "NoOp" => {}
                _ => drop(members.insert(before)),
            }
        }
    }
    members
}
