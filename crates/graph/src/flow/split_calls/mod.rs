//! Conditionals and calls whose functions use variables of several devices, split into one call for each device.
//!
//! A function runs on one device, and a handle does not leave its own. So each node of a function gets a device: that of
//! the handle that it takes, or else that of the call. The nodes of one device form *segments*, in the order in which they
//! need each other. Each segment becomes a call of the same op. Values between segments are results of one call and
//! arguments of the next; a branch that does not compute one gives a placeholder, which nobody reads.

mod places;
mod segment_calls;
mod segments;

use thalweg_tensor::DType;

use crate::data::GraphData;
use crate::error::{GraphError, Reason};
use crate::node::{Node, NodeId, OutputId};
use crate::op::FindOp;
use crate::rebuilt::Rebuilt;
use crate::simplified::Simplified;
use places::body_devices;
use segment_calls::SegmentCalls;
use segments::{Body, Segments};

/// The ops whose functions run once at most, and so can be split.
const SPLIT_OPS: [&str; 6] = [
    "If",
    "StatelessIf",
    "Case",
    "StatelessCase",
    "PartitionedCall",
    "StatefulPartitionedCall",
];

/// `true` for a call that may use resources of several devices.
pub(crate) fn can_split(node: &Node) -> bool {
    SPLIT_OPS.contains(&node.op.name)
}

/// The deepest nesting of calls that are split, and the most functions that a graph gets by it: each call has functions of
/// its own, and a function may call others twice, or itself.
const MAX_DEPTH: usize = 16;
const MAX_NEW_FUNCTIONS: usize = 10_000;

/// The functions around a body.
pub(super) struct Nesting {
    /// Stands in the names of new functions.
    pub(super) prefix: String,
    depth: usize,
    /// The number of functions that the library may have.
    most: usize,
}

impl Nesting {
    /// No function.
    pub(super) fn outermost(simplified: &Simplified) -> Nesting {
        Nesting {
            prefix: String::new(),
            depth: 0,
            most: simplified.graph.functions().len() + MAX_NEW_FUNCTIONS,
        }
    }

    /// One more, of a call of this name.
    fn within(&self, prefix: String) -> Nesting {
        Nesting {
            prefix,
            depth: self.depth + 1,
            ..*self
        }
    }

    /// # Errors
    /// There are too many.
    fn check(&self, library: &GraphData, node: &Node) -> Result<(), GraphError> {
        match self.depth < MAX_DEPTH && library.functions().len() < self.most {
            true => Ok(()),
            false => Err(GraphError::of(
                node,
                Reason::Argument(format!(
                    "it uses resources of several devices through calls that nest deeper than {MAX_DEPTH}, or through \
                     more than {MAX_NEW_FUNCTIONS} functions: put the resources on one device"
                )),
            )),
        }
    }
}

/// Makes regions of the conditionals and loops of a function's body, and splits the calls in it.
type Collapse = fn(Simplified, Option<FindOp<'_>>, &Nesting) -> Result<Simplified, GraphError>;

/// Splits the calls that use resources of other devices than their own.
///
/// # Errors
/// A function uses a resource in a way that ties several devices together, such as a loop over both. Calls nest too deep.
pub(super) fn split_calls(
    simplified: Simplified,
    find: FindOp<'_>,
    nesting: &Nesting,
    collapse: Collapse,
) -> Result<Simplified, GraphError> {
    let Some(no_value) = find("FakeParam") else {
        return Ok(simplified);
    };
    let is_split = |id: NodeId| foreign_handle(&simplified, id).is_some();
    if !simplified.graph.ids().any(is_split) {
        return Ok(simplified);
    }
    let mut rebuilt = Rebuilt::of(&simplified);
    for (id, node) in simplified.graph.nodes() {
        let node = rebuilt.copied(node);
        let home = simplified.devices[id.index()];
        let here = match foreign_handle(&simplified, id) {
            None => rebuilt.push(home, node),
            Some(handle) => {
                nesting.check(&rebuilt.graph, &node)?;
                let name = format!("{}{}:", nesting.prefix, rebuilt.graph.len());
                let inner = nesting.within(name.clone());
                let bodies = bodies(&simplified, id, &mut rebuilt.graph, find, &inner, collapse)?;
                let refused = || split_error(&simplified.graph, id, handle);
                let segments = Segments::find(&bodies, home);
                let segments = segments.ok_or_else(refused)?;
                let calls = SegmentCalls {
                    call: &node,
                    bodies: &bodies,
                    segments: &segments,
                    no_value,
                };
                calls.push(&mut rebuilt, &name)
            }
        };
        rebuilt.replace_next(here);
    }
    Ok(rebuilt.finish(&simplified))
}

/// The first handle of another device that a splittable call takes.
fn foreign_handle(simplified: &Simplified, id: NodeId) -> Option<OutputId> {
    let node = simplified.graph.node(id);
    if !can_split(node) {
        return None;
    }
    let device = |n: NodeId| simplified.devices[n.index()];
    let is_foreign = |input: &&OutputId| {
        let fact = simplified.graph.fact(**input);
        fact.is_some_and(|f| f.dtype == DType::Resource) && device(input.node) != device(id)
    };
    node.inputs.iter().find(is_foreign).copied()
}

/// The functions of a call, their nodes on devices, with all calls in them split. Functions that they call are defined in
/// `library`.
fn bodies(
    simplified: &Simplified,
    id: NodeId,
    library: &mut GraphData,
    find: FindOp<'_>,
    nesting: &Nesting,
    collapse: Collapse,
) -> Result<Vec<Body>, GraphError> {
    let node = simplified.graph.node(id);
    let home = simplified.devices[id.index()];
    let mut bodies = Vec::new();
    for (number, name) in node.functions().into_iter().enumerate() {
        let function = library.function(name).cloned().ok_or_else(|| {
            GraphError::of(
                node,
                Reason::Argument(format!("function '{name}' is not defined")),
            )
        })?;
        let first = node.inputs.len().saturating_sub(function.inputs.len());
        let arguments: Vec<u32> = node.inputs[first..]
            .iter()
            .map(|i| simplified.devices[i.node.index()])
            .collect();
        let body = Simplified {
            graph: function.body.with_library_of(library),
            feeds: function.inputs.iter().map(|&i| Some(i)).collect(),
            fetches: function.outputs.clone(),
            targets: function.runs(node.op.calls),
            devices: body_devices(&function, &arguments, home),
        };
        let inner = Nesting {
            prefix: format!("{}{number}:", nesting.prefix),
            ..*nesting
        };
        let body = collapse(body, Some(find), &inner)?;
        *library = library.with_library_of(&body.graph);
        bodies.push(Body {
            placed: body,
            function,
            first_input: first,
        });
    }
    Ok(bodies)
}

fn split_error(graph: &GraphData, id: NodeId, handle: OutputId) -> GraphError {
    let node = graph.node(id);
    GraphError::of(
        node,
        Reason::Argument(format!(
            "a node of its functions, or a loop in them, uses '{}' and resources of another device: \
             put them on one device",
            graph.node(handle.node).name
        )),
    )
}
