//! The node builder: describes one node, checks it and adds it to the graph.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::check::check_node;
use crate::device::{DeviceScope, DeviceSpec, scope};
use crate::error::{GraphError, Reason};
use crate::graph::{Graph, GraphState, nearest_name};
use crate::names::is_valid;
use crate::node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
use crate::output::{Operation, Output};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// Builder of one node. [`NodeBuilder::build`] adds the node.
pub struct NodeBuilder<'g> {
    graph: &'g Graph,
    op: String,
    name: Option<String>,
    inputs: SmallVec<[OutputId; 4]>,
    controls: SmallVec<[NodeId; 2]>,
    attrs: SmallVec<[(String, Attr); 4]>,
    other_graph: Option<usize>,
    origin: Origin,
    imported: Option<ImportedNode>,
}

/// The properties of a node that is copied as it is from elsewhere: from a file.
#[derive(Clone, Debug)]
pub struct ImportedNode {
    /// The origin of the node.
    pub origin: Origin,
    /// The device that it asks for; scopes fill in the parts that it leaves open.
    pub device: DeviceSpec,
    /// The nodes with which it must share a device.
    pub colocation: SmallVec<[Arc<str>; 1]>,
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
            origin: Origin::Line(origin),
            imported: None,
        }
    }

    /// Takes the node as it is in its source: its name, which must be free, is taken from the root
    /// and not from the scope, and surrounding control dependencies do not apply to it.
    pub fn imported(self, imported: ImportedNode) -> Self {
        NodeBuilder {
            origin: imported.origin.clone(),
            imported: Some(imported),
            ..self
        }
    }

    /// Leaves an input open that comes from a later node: [`Graph::close_loop`] sets it.
    pub fn open_input(mut self) -> Self {
        self.inputs.push(OPEN_INPUT);
        self
    }

    /// Adds an input.
    pub fn input(mut self, input: impl Into<Output<'g>>) -> Self {
        let input = input.into();
        if !std::ptr::eq(input.graph(), self.graph) && self.other_graph.is_none() {
            self.move_into(input.graph());
        }
        let own = match std::ptr::eq(input.graph(), self.graph) {
            true => Some(input.id()),
            false => self.graph.captured(input),
        };
        if own.is_none() && self.other_graph.is_none() {
            self.other_graph = Some(self.inputs.len());
        }
        self.inputs.push(own.unwrap_or(input.id()));
        self
    }

    /// Continues in a body that is inside the graph so far: the inputs given so far are captured
    /// there.
    fn move_into(&mut self, body: &'g Graph) {
        let outer = |i: &OutputId| body.captured(self.graph.output(*i));
        let inputs: Option<SmallVec<[OutputId; 4]>> = self.inputs.iter().map(outer).collect();
        if let Some(inputs) = inputs
            && body.is_inside(self.graph)
            && self.controls.is_empty()
        {
            self.inputs = inputs;
            self.graph = body;
        }
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

    /// Adds the node and returns its first output.
    pub fn output(self) -> Output<'g> {
        let op = self.build();
        op.output(0)
    }

    /// Adds the node and returns all of its outputs: as many as its op has, though invalid ones if
    /// it cannot be built; none then for an op whose number of outputs depends on an attribute.
    pub fn outputs(self) -> Vec<Output<'g>> {
        let graph = self.graph;
        let op = graph.registry().get(&self.op).map(|op| op.outputs);
        let built = self.build();
        if !built.is_invalid() {
            return built.outputs();
        }
        let singles = op.unwrap_or_default();
        match singles.iter().all(|o| o.count.is_none()) {
            true => vec![graph.invalid(); singles.len()],
            false => Vec::new(),
        }
    }

    /// Adds the node.
    pub fn build(self) -> Operation<'g> {
        let graph = self.graph;
        let invalid = Operation::new(graph, NodeId::INVALID);
        let failed = |i: &OutputId| i.node.is_invalid() && *i != OPEN_INPUT;
        if self.inputs.iter().any(failed) && self.other_graph.is_none() {
            return invalid;
        }
        let mut state = graph.state();
        state.unnamed = None;
        let (named, wanted) = (self.name.is_some(), self.name.as_deref());
        let wanted = wanted.unwrap_or(&self.op);
        let imported = self.imported.is_some();
        let name = match imported {
            true => wanted.to_owned(),
            false => state.scoped(wanted),
        };
        let (op, origin) = (self.op.clone(), self.origin.clone());
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
        node.name = match imported {
            true => {
                state.names.reserve(&name);
                name.clone()
            }
            false => state.names.unique(&name),
        };
        if !state.devices.is_empty() {
            // A device function is user code: it runs without the lock.
            let (scopes, thread) = (state.devices.clone(), std::thread::current().id());
            let given = match state.in_device_fn.contains(&thread) {
                true => Err(Reason::InDeviceFunction),
                false => {
                    state.in_device_fn.push(thread);
                    drop(state);
                    let given = scope::apply(&scopes, &mut node);
                    state = graph.state();
                    state.in_device_fn.retain(|t| *t != thread);
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
        // A device function that looks at names has seen this one.
        let chosen = |s: &DeviceScope| matches!(s, DeviceScope::Function(_));
        if !named && !imported && !state.devices.iter().any(chosen) {
            state.unnamed = Some((id, name));
        }
        graph.version.fetch_add(1, Ordering::Release);
        Operation::new(graph, id)
    }

    fn check(self, state: &GraphState, name: &str) -> Result<Node, Reason> {
        let op = self.graph.registry().get(&self.op).ok_or_else(|| {
            let names = self.graph.registry().iter().map(|op| op.name);
            Reason::UnknownOp {
                nearest: nearest_name(&self.op, names),
            }
        })?;
        if let Some(input) = self.other_graph {
            return Err(Reason::OtherGraph { input });
        }
        if state.finalized {
            return Err(Reason::Finalized);
        }
        match &self.imported {
            Some(_) if state.data.find(name).is_some() => return Err(Reason::NameTaken),
            Some(_) if name.is_empty() => return Err(Reason::Name),
            None if !is_valid(name) => return Err(Reason::Name),
            _ => {}
        }
        let mut attrs = Attrs::default();
        for (attr, value) in self.attrs {
            match op.attr(&attr) {
                Some(def) => attrs.set(def.name, value),
                None if attr.starts_with('_') => attrs.set(attr, value),
                None => return Err(Reason::UnknownAttr { attr }),
            }
        }
        let facts: SmallVec<[Fact; 4]> = self
            .inputs
            .iter()
            .map(|&i| {
                if i == OPEN_INPUT {
                    // For a value that enters from outside of the loop, only the dtype and the
                    // reference flag are known to hold in later iterations.
                    let outer = self.inputs.iter().find(|&&o| o != OPEN_INPUT);
                    let outer = outer.and_then(|&o| state.data.fact(o));
                    return Ok(Fact {
                        reference: outer.is_some_and(|f| f.reference),
                        ..Fact::new(outer.map_or(DType::F32, |f| f.dtype), Shape::unknown())
                    });
                }
                state.data.fact(i).cloned().ok_or_else(|| {
                    Reason::Argument(format!("there is no output {}", state.data.output_name(i)))
                })
            })
            .collect::<Result<_, _>>()?;
        let (attrs, outputs) = check_node(op, &facts, attrs)?;
        let mut controls = self.controls;
        if self.imported.is_none() {
            controls.extend(state.controls.iter().flatten().copied());
        }
        controls.retain(|c| !c.is_invalid());
        controls.sort();
        controls.dedup();
        Ok(Node {
            name: String::new(),
            op,
            inputs: self.inputs,
            controls,
            attrs,
            device: self
                .imported
                .as_ref()
                .map_or_else(Default::default, |e| e.device.clone()),
            colocation: self.imported.map_or_else(SmallVec::new, |e| e.colocation),
            outputs,
            origin: self.origin,
        })
    }
}

/// Stands for an input that is set later.
const OPEN_INPUT: OutputId = OutputId {
    node: NodeId::INVALID,
    index: u32::MAX,
};

impl Graph {
    /// Closes a loop: the input of `merge` that was left open is `from`, a NextIteration.
    pub fn close_loop<'g>(&'g self, merge: Operation<'g>, from: Output<'g>) {
        if merge.is_invalid() || from.is_invalid() {
            return;
        }
        let (at, from) = (merge.id(), from.id());
        let mut state = self.state();
        let input = state
            .data
            .get(at)
            .and_then(|n| n.inputs.iter().position(|i| *i == OPEN_INPUT));
        let dtype = |o: OutputId| state.data.fact(o).map(|f| f.dtype);
        let merged = OutputId { node: at, index: 0 };
        match input {
            Some(input) if dtype(merged) == dtype(from) => {
                Arc::make_mut(&mut state.data).close(at, input, from);
            }
            _ => {
                drop(state);
                let reason = Reason::Argument(
                    "a loop can only be closed once, by a value of the dtype that it starts with"
                        .to_owned(),
                );
                self.report(&merge.name(), "Merge", reason);
            }
        }
    }
}

impl Graph {
    /// Names the node of an output, if it is the last node that was built, under its op's name, and
    /// has no other output. Returns `true` if it was named.
    pub(crate) fn name_last(&self, output: OutputId, name: &str) -> bool {
        let mut state = self.state();
        let Some((last, wanted)) = state.unnamed.take() else {
            return false;
        };
        let name = state.scoped(name);
        let outputs = state.data.get(last).map_or(0, |n| n.outputs.len());
        if last != output.node || outputs != 1 || state.finalized || !is_valid(&name) {
            return false;
        }
        // The scopes around the call apply to the node that has the name.
        let node = state.data.node(last);
        let mut controls = state.controls.iter().flatten().filter(|c| !c.is_invalid());
        if !controls.all(|c| node.controls.contains(c)) {
            return false;
        }
        let old = state.data.node(last).name.clone();
        state.names.release(&wanted, &old);
        let name = state.names.unique(&name);
        Arc::make_mut(&mut state.data).rename(last, name);
        self.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Gives a node more inputs and outputs, after those that it has, and other attributes: a call
    /// of functions that are to return more than before. Existing uses of the node are unchanged.
    pub fn extend_call<'g>(
        &'g self,
        operation: Operation<'g>,
        inputs: &[Output<'g>],
        attrs: Vec<(&'static str, Attr)>,
    ) {
        if operation.is_invalid() || inputs.iter().any(|i| i.is_invalid()) {
            return;
        }
        let mut state = self.state();
        let mut node = Node::clone(state.data.node(operation.id()));
        node.inputs.extend(inputs.iter().map(|i| i.id()));
        for (name, value) in attrs {
            node.attrs.set(name, value);
        }
        let facts: SmallVec<[Fact; 4]> = node
            .inputs
            .iter()
            .filter_map(|&i| state.data.fact(i).cloned())
            .collect();
        match check_node(node.op, &facts, std::mem::take(&mut node.attrs)) {
            Ok((attrs, outputs)) => {
                node.attrs = attrs;
                node.outputs = outputs;
                Arc::make_mut(&mut state.data).replace(operation.id(), node);
                self.version.fetch_add(1, Ordering::Release);
            }
            Err(reason) => state.errors.push(GraphError {
                node: node.name,
                op: node.op.name.to_owned(),
                origin: node.origin,
                reason,
            }),
        }
    }
}

/// Colocates a node: adds it to the groups of the nodes of the surrounding scopes, and puts it on
/// the device of the innermost one that has a device.
fn colocate(state: &GraphState, node: &mut Node) {
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
