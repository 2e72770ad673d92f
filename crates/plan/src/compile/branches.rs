//! Branches that run on a GPU: the functions of an `If` become part of the GPU's program.
//!
//! Each function is simplified for the arguments of the node, as where it is called. Its nodes are then appended to the
//! graph of the program, with the outputs that the node takes in place of arguments. The program runs the nodes of one
//! side, as the condition says; see [`super::gpu`].

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_device::{Body, DeviceType};
use thalweg_graph::simplify::{FEED, Simplified, known};
use thalweg_graph::{GraphData, Node, NodeId, OutputId};
use thalweg_tensor::DType;

use super::request_graph::{complete, simplified};
use crate::bindings::Bindings;
use crate::error::SessionError;
use crate::kernels::find;
use crate::order::Accesses;
use crate::request::{Fetch, PlanContext, Request};

/// The attributes that name the two functions: that of a true condition, and that of a false one.
const SIDES: [&str; 2] = ["then_branch", "else_branch"];

/// One of the two functions of a node, in the graph of the program.
pub(super) struct Side {
    /// The nodes, in the order in which they run.
    pub(super) order: Vec<NodeId>,
    /// By output of the node: the output that has its value; `None` where nothing uses it.
    pub(super) results: Vec<Option<OutputId>>,
}

/// The sides of each branch of a program: that of a true condition, and that of a false one.
pub(super) type Branches = FxHashMap<NodeId, [Side; 2]>;

/// `true` for a node whose functions a GPU's program holds.
fn is_branch(node: &Node, context: PlanContext<'_>) -> bool {
    let kernel = find(context.kernels, DeviceType::Gpu, node);
    kernel.is_some_and(|(_, kernel)| matches!(kernel.body, Body::Branches))
}

/// Returns the two functions of a branch on this device, simplified for its arguments.
///
/// # Errors
/// As [`simplified`].
pub(super) fn sides(
    graph: &GraphData,
    node: &Node,
    device: u32,
    context: PlanContext<'_>,
) -> Result<[Simplified; 2], SessionError> {
    let [on_true, on_false] = SIDES.map(|side| {
        let name = node.attrs.func(side).map_or("", |f| &f.name);
        let function = graph
            .function(name)
            .ok_or_else(|| SessionError::UnknownOp {
                node: node.name.clone(),
                op: name.to_owned(),
                origin: node.origin.clone(),
            })?;
        let arguments = node.inputs.iter().skip(1);
        let feeds: Vec<_> = function
            .inputs
            .iter()
            .zip(arguments)
            .filter_map(|(&node, &argument)| {
                let input = OutputId { node, index: 0 };
                Some((input, graph.fact(argument)?.clone()))
            })
            .collect();
        let live = live(node);
        let values = live.iter().filter_map(|&i| function.outputs.get(i));
        let values = values.map(|&o| Fetch::Value(o));
        let runs = function.runs(node.op.calls);
        let fetches: Vec<Fetch> = values.chain(runs.iter().map(|&n| Fetch::Run(n))).collect();
        let data = function.body.with_library_of(graph);
        let request = Request {
            feeds: &feeds,
            fetches: &fetches,
            devices: &vec![device; data.len()],
            variables: &[],
        };
        simplified(&data, &request, context)
    });
    Ok([on_true?, on_false?])
}

/// Returns the outputs of a node that something uses, by number.
fn live(node: &Node) -> SmallVec<[usize; 2]> {
    match node.attrs.live_outputs() {
        None => (0..node.outputs.len()).collect(),
        Some(live) => live
            .iter()
            .filter_map(|&i| usize::try_from(i).ok())
            .collect(),
    }
}

/// Returns the reason that a node is a branch which cannot run on its GPU; `reason` returns that of a node of a side.
pub(super) fn branch_reason(
    simplified: &Simplified,
    id: NodeId,
    context: PlanContext<'_>,
    reason: &dyn Fn(&Simplified, NodeId) -> Option<String>,
) -> Option<String> {
    let (graph, device) = (&simplified.graph, simplified.devices[id.index()]);
    let node = graph.node(id);
    if !is_branch(node, context) {
        return None;
    }
    let on = graph.fact(node.inputs[0])?;
    if on.dtype != DType::Bool || on.shape.to_dims().is_none_or(|d| !d.is_empty()) {
        return Some("its condition is no scalar bool".to_owned());
    }
    let sides = match sides(graph, node, device, context) {
        Ok(sides) => sides,
        // The host tells of it when it runs the branch.
        Err(_) => return Some("its functions do not fit its arguments".to_owned()),
    };
    for side in &sides {
        for (id, member) in side.graph.nodes() {
            if known(member) || std::ptr::eq(member.op, &FEED) {
                continue;
            }
            if let Some(why) = reason(side, id) {
                let (name, op) = (&member.name, member.op.name);
                return Some(format!("'{name}' ({op}) is in it: {why}"));
            }
        }
        for (&i, &result) in live(node).iter().zip(&side.fetches) {
            let (given, said) = (side.graph.fact(result)?, &node.outputs[i]);
            let dims = given.shape.to_dims();
            if given.dtype == DType::Resource || dims.is_none() || dims != said.shape.to_dims() {
                return Some("its branches give values of different or unknown shapes".to_owned());
            }
        }
    }
    None
}

/// A side whose nodes have been appended.
struct Appended {
    branch: NodeId,
    side: Simplified,
    /// By node of the side: the output of the graph, of a feed, or the appended node.
    nodes: Vec<OutputId>,
    results: Vec<Option<OutputId>>,
}

/// Appends the nodes of all branches on the GPU of this number to the graph of its program.
///
/// # Errors
/// As [`simplified`]; a cycle.
pub(super) fn inline(
    graph: &mut GraphData,
    device: u32,
    bind: &dyn Fn(&GraphData) -> Result<Bindings, SessionError>,
    context: PlanContext<'_>,
) -> Result<Branches, SessionError> {
    let mut branches = Branches::default();
    let mut all: Vec<Appended> = Vec::new();
    let mut at = 0;
    // Branches of branches are appended, and then found here.
    while at < graph.len() {
        let branch = graph.id(at);
        let node = graph.node(branch).clone();
        if is_branch(&node, context) {
            for side in sides(graph, &node, device, context)? {
                all.push(append(graph, branch, &node, side));
            }
        }
        at += 1;
    }
    if all.is_empty() {
        return Ok(branches);
    }
    let accesses = bind(graph)?.accesses(graph, context.kernels);
    let mut all = all.into_iter();
    while let (Some(on_true), Some(on_false)) = (all.next(), all.next()) {
        let branch = on_true.branch;
        let sides = [on_true.ordered(&accesses)?, on_false.ordered(&accesses)?];
        branches.insert(branch, sides);
    }
    Ok(branches)
}

/// Appends the nodes of a side to the graph of its branch.
fn append(graph: &mut GraphData, branch: NodeId, node: &Node, side: Simplified) -> Appended {
    let invalid = OutputId {
        node: NodeId::INVALID,
        index: 0,
    };
    let mut nodes = vec![invalid; side.graph.len()];
    for (feed, &argument) in side.feeds.iter().zip(node.inputs.iter().skip(1)) {
        if let Some(feed) = feed {
            nodes[feed.index()] = argument;
        }
    }
    let moved = |nodes: &[OutputId], from: OutputId| {
        let to = nodes[from.node.index()];
        OutputId {
            index: to.index + from.index,
            ..to
        }
    };
    for (id, member) in side.graph.nodes() {
        if std::ptr::eq(member.op, &FEED) {
            continue;
        }
        let mut copy = Node::clone(member);
        for input in &mut copy.inputs {
            *input = moved(&nodes, *input);
        }
        copy.controls
            .retain(|c| !std::ptr::eq(side.graph.node(*c).op, &FEED));
        for control in &mut copy.controls {
            *control = nodes[control.index()].node;
        }
        let node = graph.push(copy);
        nodes[id.index()] = OutputId { node, index: 0 };
    }
    let mut results = vec![None; node.outputs.len()];
    for (&i, &result) in live(node).iter().zip(&side.fetches) {
        results[i] = Some(moved(&nodes, result));
    }
    Appended {
        branch,
        side,
        nodes,
        results,
    }
}

impl Appended {
    /// Orders the nodes as a step of the side alone would.
    fn ordered(self, accesses: &Accesses) -> Result<Side, SessionError> {
        let graph = &self.side.graph;
        let is_feed = |id: &NodeId| std::ptr::eq(graph.node(*id).op, &FEED);
        let of = |by_node: &[SmallVec<[usize; 2]>]| {
            let own = |id: NodeId| match is_feed(&id) {
                true => SmallVec::new(),
                false => by_node[self.nodes[id.index()].node.index()].clone(),
            };
            graph.ids().map(own).collect()
        };
        let own = Accesses {
            uses: of(&accesses.uses),
            updates: of(&accesses.updates),
            variables: accesses.variables,
        };
        let order = complete(graph, &own)?;
        let order = order.into_iter().filter(|id| !is_feed(id));
        Ok(Side {
            order: order.map(|id| self.nodes[id.index()].node).collect(),
            results: self.results,
        })
    }
}
