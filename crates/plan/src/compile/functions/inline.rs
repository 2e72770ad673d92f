//! Nodes of functions in the graph of a GPU's program.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::FEED;
use thalweg_graph::{GraphData, Node, NodeId, OutputId};

use super::caller::{Called, Caller, is_call};
use crate::bindings::Bindings;
use crate::compile::request_graph::complete;
use crate::error::SessionError;
use crate::order::Accesses;
use crate::request::PlanContext;

/// A function in the graph of the program.
pub(in crate::compile) struct Inlined {
    /// The nodes, in the order in which they run.
    pub(in crate::compile) order: Vec<NodeId>,
    /// By result of the function: the output that has its value; `None` where it is not computed.
    pub(in crate::compile) results: Vec<Option<OutputId>>,
}

/// The functions of each branch and loop of a program: of a branch that of a true condition, and that of a false one; of a
/// loop its condition and its body.
pub(in crate::compile) type Functions = FxHashMap<NodeId, [Inlined; 2]>;

/// A function whose nodes have been appended.
struct Appended {
    caller: NodeId,
    graph: GraphData,
    /// By node of the function: the output of the program's graph, of a feed, or the appended node.
    nodes: Vec<OutputId>,
    results: Vec<Option<OutputId>>,
}

/// Appends the functions of all branches and loops on the GPU of this number to the graph of its program.
///
/// # Errors
/// As [`simplified`]; a cycle.
pub(in crate::compile) fn inline(
    graph: &mut GraphData,
    device: u32,
    bind: &dyn Fn(&GraphData) -> Result<Bindings, SessionError>,
    context: PlanContext<'_>,
) -> Result<Functions, SessionError> {
    let mut functions = Functions::default();
    let mut all: Vec<Appended> = Vec::new();
    // By caller in a function: the callers around it. Each call has random numbers of its own.
    let mut paths: FxHashMap<NodeId, String> = FxHashMap::default();
    let mut at = 0;
    // Branches and loops of functions are appended, and then found here.
    while at < graph.len() {
        let id = graph.id(at);
        if is_call(graph.node(id), context) {
            let caller = Caller {
                graph,
                id,
                device,
                context,
            };
            let name = &graph.node(id).name;
            let path = paths.get(&id).cloned().unwrap_or_else(|| name.clone());
            for called in caller.called()? {
                let before = graph.len();
                all.push(append(graph, (id, &path), called));
                let added = (before..graph.len()).map(|i| graph.id(i));
                for inner in added.filter(|&i| is_call(graph.node(i), context)) {
                    paths.insert(inner, format!("{path}/{}", graph.node(inner).name));
                }
            }
        }
        at += 1;
    }
    if all.is_empty() {
        return Ok(functions);
    }
    let accesses = bind(graph)?.accesses(graph, context.kernels);
    let mut all = all.into_iter();
    while let (Some(first), Some(second)) = (all.next(), all.next()) {
        let caller = first.caller;
        let both = [first.ordered(&accesses)?, second.ordered(&accesses)?];
        functions.insert(caller, both);
    }
    Ok(functions)
}

/// Appends the nodes of a function to the graph of its caller.
fn append(graph: &mut GraphData, (caller, path): (NodeId, &str), called: Called) -> Appended {
    let invalid = OutputId {
        node: NodeId::INVALID,
        index: 0,
    };
    let from = called.simplified.graph;
    let renamed = graph.adopt(&from);
    let mut nodes = vec![invalid; from.len()];
    for (feed, &argument) in called.simplified.feeds.iter().zip(&called.arguments) {
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
    for (id, member) in from.nodes() {
        if std::ptr::eq(member.op, &FEED) {
            continue;
        }
        let mut copy = Node::clone(member);
        renamed.rename(&mut copy.attrs);
        for input in &mut copy.inputs {
            *input = moved(&nodes, *input);
        }
        let is_node = |c: &NodeId| !std::ptr::eq(from.node(*c).op, &FEED);
        copy.controls.retain(|c| is_node(c));
        for control in &mut copy.controls {
            *control = nodes[control.index()].node;
        }
        if copy.op.effect == Effect::Random {
            copy.name = format!("{path}/{}", copy.name);
        }
        let node = graph.push(copy);
        nodes[id.index()] = OutputId { node, index: 0 };
    }
    let mut results = vec![None; called.results];
    for (&i, &result) in called.computed.iter().zip(&called.simplified.fetches) {
        results[i] = Some(moved(&nodes, result));
    }
    Appended {
        caller,
        graph: from,
        nodes,
        results,
    }
}

impl Appended {
    /// Orders the nodes as a step of the function alone would.
    fn ordered(self, accesses: &Accesses) -> Result<Inlined, SessionError> {
        let graph = &self.graph;
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
        Ok(Inlined {
            order: order.map(|id| self.nodes[id.index()].node).collect(),
            results: self.results,
        })
    }
}
