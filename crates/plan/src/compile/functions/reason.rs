//! Reasons that branches and loops run on the host of their GPU.

use std::cell::Cell;
use std::rc::Rc;

use thalweg_graph::simplify::{FEED, Simplified, known};
use thalweg_graph::{Fact, NodeId, OutputId};
use thalweg_tensor::DType;

use super::caller::{Called, Caller, is_call};
use crate::request::PlanContext;

/// Maximum depth of functions in each other on a GPU.
const MAX_DEPTH: usize = 8;
/// Maximum number of nodes of the functions of one node, those in each other included.
const MAX_NODES: usize = 1 << 16;

/// The place of a function in others, and the nodes that they may still have.
pub(in crate::compile) struct Nesting {
    depth: usize,
    left: Rc<Cell<usize>>,
}

impl Nesting {
    /// Outside of all functions.
    pub(in crate::compile) fn outside() -> Nesting {
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

/// Returns the reason that a node is a branch or a loop which cannot run on its GPU; `reason` returns that of a node of a
/// function.
pub(in crate::compile) fn call_reason(
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
    let nodes = called.iter().map(|f| f.simplified.graph.len()).sum();
    if !inside.take(nodes) {
        return Some(format!("its functions have more than {MAX_NODES} nodes"));
    }
    if !has_scalar_condition(&caller, &called) {
        return Some("its condition is no scalar bool".to_owned());
    }
    for function in &called {
        for (inner, member) in function.simplified.graph.nodes() {
            if known(member) || std::ptr::eq(member.op, &FEED) {
                continue;
            }
            if let Some(why) = reason(&function.simplified, inner, &inside) {
                let (name, op) = (&member.name, member.op.name);
                return Some(format!("'{name}' ({op}) is in it: {why}"));
            }
        }
    }
    // The condition of a loop gives none of its values.
    let values = &called[usize::from(caller.is_loop())..];
    if !values.iter().all(|function| fits(&caller, function)) {
        return Some("its functions give values of different or unknown shapes".to_owned());
    }
    uses_handle(&caller).then(|| "a handle that comes out of it is used".to_owned())
}

/// `true` if the value that decides is a scalar bool.
fn has_scalar_condition(caller: &Caller<'_>, [first, _]: &[Called; 2]) -> bool {
    let condition = match caller.is_loop() {
        true => {
            let graph = &first.simplified.graph;
            first
                .simplified
                .fetches
                .first()
                .and_then(|&o| graph.fact(o))
        }
        false => caller.graph.fact(caller.node().inputs[0]),
    };
    condition
        .is_some_and(|f| f.dtype == DType::Bool && f.shape.to_dims().is_some_and(|d| d.is_empty()))
}

/// `true` if the results of a function have the dtypes and the known shapes of the outputs of its caller. What a loop begins
/// with has them, too.
fn fits(caller: &Caller<'_>, function: &Called) -> bool {
    let node = caller.node();
    let is_like = |fact: Option<&Fact>, said: &Fact| {
        let dims = fact.and_then(|f| f.shape.to_dims());
        dims.is_some()
            && dims == said.shape.to_dims()
            && fact.is_some_and(|f| f.dtype == said.dtype)
    };
    let mut results = function.computed.iter().zip(&function.simplified.fetches);
    results.all(|(&i, &result)| {
        let said = &node.outputs[i];
        said.dtype != DType::Resource
            && is_like(function.simplified.graph.fact(result), said)
            && (!caller.is_loop() || is_like(caller.graph.fact(node.inputs[i]), said))
    })
}

/// `true` if a handle that comes out of a node is used: the variable behind it is not known.
fn uses_handle(caller: &Caller<'_>) -> bool {
    let node = caller.node();
    let is_used = |index: usize| {
        let output = OutputId {
            node: caller.id,
            index: index as u32,
        };
        let mut users = caller.graph.consumers(caller.id);
        users.any(|user| caller.graph.node(user).inputs.contains(&output))
    };
    let mut handles = (0..node.outputs.len()).filter(|&i| node.outputs[i].dtype == DType::Resource);
    handles.any(is_used)
}
