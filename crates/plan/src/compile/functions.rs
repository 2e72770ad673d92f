//! Functions that run on a GPU: those of branches and loops become part of the GPU's program.
//!
//! Each function is simplified for the arguments of its node, as where it is called. Its nodes are then appended to the
//! graph of the program, with outputs of the graph in place of arguments. The host lets the program run the nodes of one
//! branch, or those of a loop again and again; see [`super::gpu`].

use std::cell::Cell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_device::{Body, DeviceType, KernelError};
use thalweg_graph::op::{Calls, Effect};
use thalweg_graph::simplify::{FEED, Simplified, known};
use thalweg_graph::{Fact, Function, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::DType;

use super::request_graph::{complete, simplified};
use crate::bindings::Bindings;
use crate::error::{SessionError, failed};
use crate::kernels::find;
use crate::order::Accesses;
use crate::request::{Fetch, PlanContext, Request};

/// Maximum depth of functions in each other on a GPU.
const MAX_DEPTH: usize = 8;
/// Maximum number of nodes of the functions of one node, those in each other included.
const MAX_NODES: usize = 1 << 16;

/// The place of a function in others, and the nodes that they may still have.
pub(super) struct Nesting {
    depth: usize,
    left: Rc<Cell<usize>>,
}

impl Nesting {
    /// Outside of all functions.
    pub(super) fn outside() -> Nesting {
        Nesting {
            depth: 0,
            left: Rc::new(Cell::new(MAX_NODES)),
        }
    }

    fn deeper(&self) -> Option<Nesting> {
        let depth = self.depth + 1;
        (depth <= MAX_DEPTH).then(|| Nesting {
            depth,
            left: self.left.clone(),
        })
    }

    /// Takes so many nodes; `false` if there are too many.
    fn take(&self, nodes: usize) -> bool {
        let left = self.left.get().checked_sub(nodes);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// A function in the graph of the program.
pub(super) struct Inlined {
    /// The nodes, in the order in which they run.
    pub(super) order: Vec<NodeId>,
    /// By result of the function: the output that has its value; `None` where it is not computed.
    pub(super) results: Vec<Option<OutputId>>,
}

/// The functions of each branch and loop of a program: of a branch that of a true condition, and that of a false one; of a
/// loop its condition and its body.
pub(super) type Functions = FxHashMap<NodeId, [Inlined; 2]>;

/// `true` for a node whose functions a GPU's program holds.
fn is_call(node: &Node, context: PlanContext<'_>) -> bool {
    let kernel = find(context.kernels, DeviceType::Gpu, node);
    // A node whose value was folded has no inputs any more.
    !known(node) && kernel.is_some_and(|(_, kernel)| matches!(kernel.body, Body::Functions))
}

/// A function that a node calls, as it is simplified.
struct Called {
    graph: Simplified,
    /// The outputs of the node's graph that stand for the arguments.
    arguments: Vec<OutputId>,
    /// The results that are computed, by number.
    computed: SmallVec<[usize; 4]>,
    /// Number of results.
    results: usize,
}

/// A node that calls two functions.
struct Caller<'a> {
    graph: &'a GraphData,
    id: NodeId,
    device: u32,
    context: PlanContext<'a>,
}

impl<'a> Caller<'a> {
    fn node(&self) -> &'a Node {
        self.graph.node(self.id)
    }

    fn is_loop(&self) -> bool {
        matches!(self.node().op.calls, Calls::Loop)
    }

    fn function(&self, attr: &str) -> Result<&'a Function, SessionError> {
        let node = self.node();
        let name = node.attrs.func(attr).map_or("", |f| &f.name);
        let function = self.graph.function(name);
        function
            .map(|f| &**f)
            .ok_or_else(|| SessionError::UnknownOp {
                node: node.name.clone(),
                op: name.to_owned(),
                origin: node.origin.clone(),
            })
    }

    /// Returns the outputs of the node that something uses, by number.
    fn live(&self) -> SmallVec<[usize; 4]> {
        let node = self.node();
        match node.attrs.live_outputs() {
            None => (0..node.outputs.len()).collect(),
            Some(live) => live
                .iter()
                .filter_map(|&i| usize::try_from(i).ok())
                .filter(|&i| i < node.outputs.len())
                .collect(),
        }
    }

    /// Returns the values of a loop that an iteration changes, by number.
    fn changed(&self) -> Result<SmallVec<[usize; 4]>, SessionError> {
        let body = self.function("body")?;
        let mut live = self.live();
        live.retain(|i| !returns_argument(body, *i));
        Ok(live)
    }

    /// Returns the two functions.
    fn called(&self) -> Result<[Called; 2], SessionError> {
        let node = self.node();
        let outputs = node.outputs.len();
        if !self.is_loop() {
            if node.inputs.is_empty() {
                return Err(failed(node, KernelError::Argument("a condition")));
            }
            let arguments = node.inputs[1..].to_vec();
            let (on_true, on_false) =
                (self.function("then_branch")?, self.function("else_branch")?);
            return Ok([
                self.simplified(on_true, arguments.clone(), (self.live(), outputs))?,
                self.simplified(on_false, arguments, (self.live(), outputs))?,
            ]);
        }
        let changed = self.changed()?;
        let argument = |(index, &input): (u32, &OutputId)| match changed.contains(&(index as usize))
        {
            true => OutputId {
                node: self.id,
                index,
            },
            false => input,
        };
        let arguments: Vec<OutputId> = (0..).zip(&node.inputs).map(argument).collect();
        let (condition, body) = (self.function("cond")?, self.function("body")?);
        Ok([
            self.simplified(
                condition,
                arguments.clone(),
                (SmallVec::from_slice(&[0]), 1),
            )?,
            self.simplified(body, arguments, (changed, outputs))?,
        ])
    }

    fn simplified(
        &self,
        function: &Function,
        arguments: Vec<OutputId>,
        (computed, results): (SmallVec<[usize; 4]>, usize),
    ) -> Result<Called, SessionError> {
        let node = self.node();
        let (takes, gives) = (function.inputs.len(), function.outputs.len());
        if takes != arguments.len() || gives != results {
            return Err(failed(
                node,
                KernelError::Invalid(format!(
                    "function '{}' takes {takes} and gives {gives} values, not {} and {results}",
                    function.name,
                    arguments.len()
                )),
            ));
        }
        let feeds: Vec<_> = function
            .inputs
            .iter()
            .zip(&arguments)
            .filter_map(|(&node, &argument)| {
                let input = OutputId { node, index: 0 };
                Some((input, self.graph.fact(argument)?.clone()))
            })
            .collect();
        let values = computed.iter().filter_map(|&i| function.outputs.get(i));
        let values = values.map(|&o| Fetch::Value(o));
        let runs = function.runs(node.op.calls);
        let fetches: Vec<Fetch> = values.chain(runs.iter().map(|&n| Fetch::Run(n))).collect();
        let data = function.body.with_library_of(self.graph);
        let request = Request {
            feeds: &feeds,
            fetches: &fetches,
            devices: &vec![self.device; data.len()],
            variables: &[],
        };
        Ok(Called {
            graph: simplified(&data, &request, self.context)?,
            arguments,
            computed,
            results,
        })
    }
}

/// `true` if a function's result is its argument of the same number.
fn returns_argument(function: &Function, i: usize) -> bool {
    let (Some(&argument), Some(&result)) = (function.inputs.get(i), function.outputs.get(i)) else {
        return false;
    };
    let mut from = result;
    loop {
        let node = function.body.node(from.node);
        match node.op.name {
            _ if from.node == argument => return true,
            "Identity" => from = node.inputs[0],
            _ => return false,
        }
    }
}

/// Returns the reason that a node is a branch or a loop which cannot run on its GPU; `reason` returns that of a node of a
/// function.
pub(super) fn call_reason(
    simplified: &Simplified,
    id: NodeId,
    context: PlanContext<'_>,
    nesting: &Nesting,
    reason: &dyn Fn(&Simplified, NodeId, &Nesting) -> Option<String>,
) -> Option<String> {
    let graph = &simplified.graph;
    let node = graph.node(id);
    if !is_call(node, context) {
        return None;
    }
    let caller = Caller {
        graph,
        id,
        device: simplified.devices[id.index()],
        context,
    };
    let Some(inside) = nesting.deeper() else {
        return Some(format!(
            "functions are nested more than {MAX_DEPTH} deep in each other"
        ));
    };
    let Ok(called) = caller.called() else {
        // The host tells of it when it calls the function.
        return Some("its functions do not fit its arguments".to_owned());
    };
    let nodes = called.iter().map(|f| f.graph.graph.len()).sum();
    if !inside.take(nodes) {
        return Some(format!("its functions have more than {MAX_NODES} nodes"));
    }
    let scalar_bool = |graph: &GraphData, output: OutputId| {
        let fact = graph.fact(output);
        fact.is_some_and(|f| {
            f.dtype == DType::Bool && f.shape.to_dims().is_some_and(|d| d.is_empty())
        })
    };
    let decides = match caller.is_loop() {
        true => called[0]
            .graph
            .fetches
            .first()
            .map(|&o| (&called[0].graph.graph, o)),
        false => node.inputs.first().map(|&o| (graph, o)),
    };
    if !decides.is_some_and(|(graph, output)| scalar_bool(graph, output)) {
        return Some("its condition is no scalar bool".to_owned());
    }
    for function in &called {
        for (inner, member) in function.graph.graph.nodes() {
            if known(member) || std::ptr::eq(member.op, &FEED) {
                continue;
            }
            if let Some(why) = reason(&function.graph, inner, &inside) {
                let (name, op) = (&member.name, member.op.name);
                return Some(format!("'{name}' ({op}) is in it: {why}"));
            }
        }
    }
    let values = called.iter().skip(usize::from(caller.is_loop()));
    let fits = |f: &Called| {
        let results = f.computed.iter().zip(&f.graph.fetches);
        results.into_iter().all(|(&i, &result)| {
            let (given, said) = (f.graph.graph.fact(result), &node.outputs[i]);
            given.is_some_and(|given| {
                let same = |fact: &Fact| {
                    let dims = fact.shape.to_dims();
                    dims.is_some() && dims == said.shape.to_dims() && fact.dtype == said.dtype
                };
                let first = match caller.is_loop() {
                    true => graph.fact(node.inputs[i]).is_some_and(same),
                    false => true,
                };
                given.dtype != DType::Resource && same(given) && first
            })
        })
    };
    if !values.into_iter().all(fits) {
        return Some("its functions give values of different or unknown shapes".to_owned());
    }
    handle_reason(&caller)
}

/// The reason that a handle which comes out of a node keeps it from its GPU: the variable behind it is not known.
fn handle_reason(caller: &Caller<'_>) -> Option<String> {
    let node = caller.node();
    let is_used = |index: usize| {
        let output = OutputId {
            node: caller.id,
            index: index as u32,
        };
        let mut users = caller.graph.consumers(caller.id);
        users.any(|user| caller.graph.node(user).inputs.contains(&output))
    };
    let handles = (0..node.outputs.len()).filter(|&i| node.outputs[i].dtype == DType::Resource);
    let used = handles.into_iter().any(is_used);
    used.then(|| "a handle that comes out of it is used".to_owned())
}

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
pub(super) fn inline(
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
    let from = called.graph.graph;
    let mut nodes = vec![invalid; from.len()];
    for (feed, &argument) in called.graph.feeds.iter().zip(&called.arguments) {
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
    for (&i, &result) in called.computed.iter().zip(&called.graph.fetches) {
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
