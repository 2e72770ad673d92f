//! Which nodes of a graph give its variables their first values.

use std::collections::BTreeSet;

use thalweg_device::KernelError;
use thalweg_graph::{Graph, GraphData, NodeId};
use thalweg_session::SessionError;

/// How many nodes a message lists.
const MOST: usize = 8;

/// What a failed step says, and, where a variable had no value, which `--init` gives it one.
pub(crate) fn explained(graph: &Graph, error: &SessionError) -> String {
    match error {
        SessionError::Kernel {
            node,
            op,
            source: KernelError::Uninitialized { variable },
            ..
        } => {
            let help = help(&graph.snapshot(), variable);
            format!("node '{node}' ({op}): variable '{variable}' has no value: {help}")
        }
        other => other.to_string(),
    }
}

/// What gives a variable its first value: a node that does it for as many variables as one does, or the nodes that do
/// it for one each.
fn help(graph: &GraphData, variable: &str) -> String {
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
    let shown = single.iter().take(MOST);
    let all: Vec<String> = shown.map(|&id| format!("--init {}", name(id))).collect();
    match single.len() {
        n if n > MOST => format!(
            "add --init {}, and as many for the other variables",
            name(wanted)
        ),
        _ => format!("add {}", all.join(" ")),
    }
}

/// Each variable's node with the one that assigns its first value: what the file says of it, or the first assignment
/// as TensorFlow names it.
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

/// What a node that computes nothing waits for, through others like it.
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
