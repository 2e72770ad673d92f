//! One node at a time: described, checked, and added.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::check::check_node;
use crate::device::{DeviceSpec, scope};
use crate::error::{GraphError, Reason};
use crate::graph::{Graph, State, nearest};
use crate::names::is_valid;
use crate::node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
use crate::output::{Operation, Output};

/// A node that is being described. [`NodeBuilder::build`] adds it.
pub struct NodeBuilder<'g> {
    graph: &'g Graph,
    op: String,
    name: Option<String>,
    inputs: SmallVec<[OutputId; 4]>,
    controls: SmallVec<[NodeId; 2]>,
    attrs: SmallVec<[(String, Attr); 4]>,
    other_graph: Option<usize>,
    origin: &'static Location<'static>,
}

impl<'g> NodeBuilder<'g> {
    pub(crate) fn new(
        graph: &'g Graph,
        op: &str,
        origin: &'static Location<'static>,
    ) -> NodeBuilder<'g> {
        NodeBuilder {
            graph,
            op: op.to_owned(),
            name: None,
            inputs: SmallVec::new(),
            controls: SmallVec::new(),
            attrs: SmallVec::new(),
            other_graph: None,
            origin,
        }
    }

    /// Adds an input.
    pub fn input(mut self, input: impl Into<Output<'g>>) -> Self {
        let input = input.into();
        if !std::ptr::eq(input.graph(), self.graph) && self.other_graph.is_none() {
            self.other_graph = Some(self.inputs.len());
        }
        self.inputs.push(input.id());
        self
    }

    /// Adds several inputs.
    pub fn inputs(self, inputs: impl IntoIterator<Item = impl Into<Output<'g>>>) -> Self {
        inputs.into_iter().fold(self, NodeBuilder::input)
    }

    /// Sets an attribute.
    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        self.attrs.push((name.to_owned(), value.into()));
        self
    }

    /// Names the node; without it the op's name is taken.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Makes the node wait for another one.
    pub fn control(mut self, node: impl Into<Operation<'g>>) -> Self {
        let node = node.into();
        if !std::ptr::eq(node.graph(), self.graph) && self.other_graph.is_none() {
            self.other_graph = Some(self.inputs.len() + self.controls.len());
        }
        self.controls.push(node.id());
        self
    }

    /// Adds the node and gives its first output.
    pub fn output(self) -> Output<'g> {
        let op = self.build();
        op.output(0)
    }

    /// Adds the node.
    pub fn build(self) -> Operation<'g> {
        let graph = self.graph;
        let invalid = Operation::new(graph, NodeId::INVALID);
        if self.inputs.iter().any(|i| i.node.is_invalid()) && self.other_graph.is_none() {
            return invalid;
        }
        let mut state = graph.state();
        let name = state.scoped(self.name.as_deref().unwrap_or(&self.op));
        let (op, origin) = (self.op.clone(), Origin::Line(self.origin));
        let error = |reason| GraphError {
            node: name.clone(),
            op,
            origin,
            reason,
        };
        let mut node = match self.check(&state, &name) {
            Ok(node) => node,
            Err(reason) => {
                state.errors.push(error(reason));
                return invalid;
            }
        };
        node.name = state.names.unique(&name);
        if !state.devices.is_empty() {
            // A device function is a user's code: it runs without the lock.
            let (scopes, thread) = (state.devices.clone(), std::thread::current().id());
            let given = match state.choosing.contains(&thread) {
                true => Err(Reason::InDeviceFunction),
                false => {
                    state.choosing.push(thread);
                    drop(state);
                    let given = scope::apply(&scopes, &mut node);
                    state = graph.state();
                    state.choosing.retain(|t| *t != thread);
                    given
                }
            };
            if let Err(reason) = given {
                let name = std::mem::take(&mut node.name);
                state.errors.push(GraphError {
                    node: name,
                    ..error(reason)
                });
                return invalid;
            }
        }
        colocate(&state, &mut node);
        let id = Arc::make_mut(&mut state.data).push(node);
        graph.version.fetch_add(1, Ordering::Release);
        Operation::new(graph, id)
    }

    fn check(self, state: &State, name: &str) -> Result<Node, Reason> {
        let op = self.graph.registry().get(&self.op).ok_or_else(|| {
            let names = self.graph.registry().iter().map(|op| op.name);
            Reason::UnknownOp {
                nearest: nearest(&self.op, names),
            }
        })?;
        if let Some(input) = self.other_graph {
            return Err(Reason::OtherGraph { input });
        }
        if state.frozen {
            return Err(Reason::Frozen);
        }
        if !is_valid(name) {
            return Err(Reason::Name);
        }
        let mut attrs = Attrs::default();
        for (attr, value) in self.attrs {
            let def = op
                .attr(&attr)
                .ok_or(Reason::UnknownAttr { attr: attr.clone() })?;
            attrs.set(def.name, value);
        }
        let facts: SmallVec<[Fact; 4]> = self
            .inputs
            .iter()
            .map(|&i| {
                state.data.fact(i).cloned().ok_or_else(|| {
                    Reason::Argument(format!("there is no output {}", state.data.output_name(i)))
                })
            })
            .collect::<Result<_, _>>()?;
        let (attrs, outputs) = check_node(op, &facts, attrs)?;
        let mut controls = self.controls;
        controls.extend(state.controls.iter().flatten().copied());
        controls.retain(|c| !c.is_invalid());
        controls.sort();
        controls.dedup();
        Ok(Node {
            name: String::new(),
            op,
            inputs: self.inputs,
            controls,
            attrs,
            device: DeviceSpec::default(),
            colocation: SmallVec::new(),
            outputs,
            origin: Origin::Line(self.origin),
        })
    }
}

/// Puts a node where those are that it is to stand with: into their groups, and on the device of
/// the innermost that has one.
fn colocate(state: &State, node: &mut Node) {
    let mut device = None;
    for &with in state.colocated.iter().rev() {
        let with = state.data.node(with);
        match &with.colocation[..] {
            [] => node.colocation.push(with.name.as_str().into()),
            groups => node.colocation.extend(groups.iter().cloned()),
        }
        if device.is_none() && !with.device.is_empty() {
            device = Some(with.device.clone());
        }
    }
    node.colocation.sort();
    node.colocation.dedup();
    if let Some(device) = device {
        node.device = device;
    }
}
