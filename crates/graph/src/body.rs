//! Bodies of functions under construction: graphs inside another graph, which may use outputs of
//! the graphs around them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::data::GraphData;
use crate::error::Reason;
use crate::function::{Function, Port, argument_node};
use crate::graph::Graph;
use crate::node::{Fact, Node, NodeId, Origin, OutputId};
use crate::op::Effect;
use crate::output::Output;
use crate::scopes::Pop;

/// Append-only list of bodies: a body that was added stays at its address for as long as its graph
/// lives.
#[derive(Default)]
pub(crate) struct BodyList(OnceLock<Box<BodyLink>>);

struct BodyLink {
    body: Graph,
    next: BodyList,
}

impl BodyList {
    fn add(&self, body: Graph) -> &Graph {
        let mut link = Some(Box::new(BodyLink {
            body,
            next: BodyList::default(),
        }));
        let mut at = self;
        loop {
            if let Some(own) = link.take() {
                link = at.0.set(own).err();
            }
            if let Some(set) = at.0.get() {
                if link.is_none() {
                    return &set.body;
                }
                at = &set.next;
            }
        }
    }
}

impl BodyList {
    /// The body at this address.
    fn at(&self, address: usize) -> Option<&Graph> {
        let mut link = self.0.get();
        while let Some(found) = link {
            if std::ptr::from_ref(&found.body) as usize == address {
                return Some(&found.body);
            }
            link = found.next.0.get();
        }
        None
    }
}

impl Drop for BodyList {
    fn drop(&mut self) {
        // Drops the links in a loop: dropping a long list recursively would overflow the stack.
        let mut next = self.0.take();
        while let Some(mut link) = next {
            next = link.next.0.take();
        }
    }
}

/// The surroundings of a body: its function's name, and the library and graphs around it.
#[derive(Default)]
pub(crate) struct BodyContext {
    /// The name of the function whose body it is.
    name: String,
    /// The functions of the library at the time when the body was begun.
    functions: Arc<BTreeMap<String, Arc<Function>>>,
    /// The graphs around it, by address.
    graphs: Vec<usize>,
}

/// An output of an outer graph that a body uses.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    graph: usize,
    output: OutputId,
    fact: Fact,
    /// The node of the body that stands for it.
    node: NodeId,
}

/// Finished bodies as functions, and the values that they captured from the graph that they were
/// begun in.
pub struct ClosedBodies<'g> {
    /// The function of each body.
    pub functions: Vec<Function>,
    /// The arguments that every one of the functions takes after its own.
    pub captured: Vec<Output<'g>>,
}

fn address(graph: &Graph) -> usize {
    std::ptr::from_ref(graph) as usize
}

impl Graph {
    /// Begins the body of a function whose name starts with `name`. Nodes built in it may use
    /// outputs of this graph: these become arguments.
    pub fn body(&self, name: &str) -> &Graph {
        let mut body = Graph::with_registry(self.registry().clone());
        let name = {
            let mut state = self.state();
            let scoped = state.scoped(name);
            state.names.unique(&scoped)
        };
        body.body_context.graphs = self.body_context.graphs.clone();
        body.body_context.graphs.push(address(self));
        body.body_context.name = match &*self.body_context.name {
            "" => name.replace('/', "_"),
            outer => format!("{outer}_{}", name.replace('/', "_")),
        };
        let mut functions = BTreeMap::clone(&self.body_context.functions);
        let own = self.snapshot();
        functions.extend(own.functions().iter().map(|(n, f)| (n.clone(), f.clone())));
        body.body_context.functions = Arc::new(functions);
        if let Some(seed) = self.seed() {
            body.set_seed(seed);
        }
        self.bodies.add(body)
    }

    /// Runs `build` so that nodes that this thread builds in this graph go into `body`, which was
    /// begun in it.
    pub fn build_in<'g, R>(&'g self, body: &'g Graph, build: impl FnOnce() -> R) -> R {
        let entry = (std::thread::current().id(), address(body));
        self.state().open_bodies.push(entry);
        let _pop = Pop(self, |s| {
            let own = std::thread::current().id();
            if let Some(at) = s.open_bodies.iter().rposition(|(thread, _)| *thread == own) {
                s.open_bodies.remove(at);
            }
        });
        build()
    }

    /// The graph that receives the nodes that this thread builds in this graph: itself, or a body
    /// of it.
    pub(crate) fn innermost(&self) -> &Graph {
        let open = {
            let state = self.state();
            if state.open_bodies.is_empty() {
                return self;
            }
            let own = std::thread::current().id();
            let last = state
                .open_bodies
                .iter()
                .rev()
                .find(|(thread, _)| *thread == own);
            last.map(|(_, body)| *body)
        };
        match open.and_then(|body| self.bodies.at(body)) {
            Some(body) => body.innermost(),
            None => self,
        }
    }

    /// `true` if nodes that this thread builds in this graph go into the body of a function: of a
    /// branch or a loop, which runs as often as a step needs it.
    pub fn is_in_body(&self) -> bool {
        !self.innermost().body_context.graphs.is_empty()
    }

    /// The function of this name that was in scope when this body was begun.
    pub(crate) fn function_around(&self, name: &str) -> Option<Arc<Function>> {
        self.body_context.functions.get(name).cloned()
    }

    /// Adds an argument to a body.
    pub fn argument(&self, name: &str, fact: &Fact) -> Output<'_> {
        let node = self.argument_node(name, fact);
        self.operation(node).output(0)
    }

    fn argument_node(&self, name: &str, fact: &Fact) -> NodeId {
        let fact = Fact {
            reference: false,
            ..fact.clone().without_value()
        };
        let origin = Origin::Other("the argument of a function".into());
        let mut state = self.state();
        let name = state.names.unique(name);
        Arc::make_mut(&mut state.data).push(argument_node(name, 0, fact, origin))
    }

    /// `true` if this is a body that was begun in `outer`, or in a body of it.
    pub(crate) fn is_inside(&self, outer: &Graph) -> bool {
        self.body_context.graphs.contains(&address(outer))
    }

    /// The node output that stands in this body for an output of an outer graph; `None` if that
    /// graph is not around this body.
    pub(crate) fn captured(&self, outer: Output<'_>) -> Option<OutputId> {
        let graph = address(outer.graph());
        if !self.body_context.graphs.contains(&graph) {
            return None;
        }
        if outer.is_invalid() {
            return Some(outer.id());
        }
        let data = outer.graph().snapshot();
        let source = data.get(outer.id().node)?;
        if source.inputs.is_empty()
            && source.op.effect == Effect::Pure
            && source.outputs.iter().all(|f| f.value.is_some())
        {
            // A constant is rebuilt in the body, so that its value is known there.
            let mut node = self.op(source.op.name).name(&source.name);
            for (name, value) in source.attrs.iter() {
                node = node.attr(name, value.clone());
            }
            return Some(node.build().output(outer.id().index).id());
        }
        Some(self.capture(graph, outer.id(), &outer.fact(), &source.name))
    }

    fn capture(&self, graph: usize, output: OutputId, fact: &Fact, name: &str) -> OutputId {
        let known = |c: &&Capture| c.graph == graph && c.output == output;
        let found = self.state().captures.iter().find(known).map(|c| c.node);
        let node = found.unwrap_or_else(|| {
            let node = self.argument_node(name, fact);
            self.state().captures.push(Capture {
                graph,
                output,
                fact: fact.clone(),
                node,
            });
            node
        });
        OutputId { node, index: 0 }
    }

    /// Finishes bodies that were begun here: each with its own arguments, and its results, which
    /// may be outputs of this graph. All take the same captured values, in the same order.
    #[track_caller]
    pub fn close_bodies<'g>(
        &'g self,
        bodies: &[(&'g Graph, &[Output<'g>], &[Output<'g>])],
    ) -> ClosedBodies<'g> {
        let mut results: Vec<Vec<OutputId>> = Vec::new();
        for (body, _, given) in bodies {
            let own = |o: &Output<'g>| match std::ptr::eq(o.graph(), *body) {
                true => o.id(),
                false => body.captured(*o).unwrap_or_else(|| {
                    let reason = Reason::OtherGraph { input: 0 };
                    self.fail(&o.name(), "function", reason).id()
                }),
            };
            results.push(given.iter().map(own).collect());
            let errors = body.errors();
            self.state().errors.extend(errors);
        }
        // Every body takes the values that any of them has captured.
        let mut captures: Vec<Capture> = Vec::new();
        for (body, ..) in bodies {
            for capture in &body.state().captures {
                let same = |c: &Capture| c.graph == capture.graph && c.output == capture.output;
                if !captures.iter().any(same) {
                    captures.push(capture.clone());
                }
            }
        }
        let here = |c: &Capture| match c.graph == address(self) {
            true => self.output(c.output),
            false => self.output(self.capture(c.graph, c.output, &c.fact, "captured")),
        };
        let captured: Vec<Output<'g>> = captures.iter().map(here).collect();
        let mut functions = Vec::new();
        for ((body, arguments, _), results) in bodies.iter().zip(results) {
            let mut inputs: Vec<NodeId> = arguments.iter().map(|a| a.id().node).collect();
            for c in &captures {
                inputs.push(body.capture(c.graph, c.output, &c.fact, "captured").node);
            }
            let data = body.snapshot();
            self.adopt(data.functions());
            functions.push(function(&body.body_context.name, &data, inputs, results));
        }
        ClosedBodies {
            functions,
            captured,
        }
    }

    /// Takes over the functions of a body.
    fn adopt(&self, functions: &BTreeMap<String, Arc<Function>>) {
        if functions.is_empty() {
            return;
        }
        let mut state = self.state();
        let data = Arc::make_mut(&mut state.data);
        let own = Arc::make_mut(&mut data.functions);
        own.extend(functions.iter().map(|(n, f)| (n.clone(), f.clone())));
    }
}

fn function(name: &str, data: &GraphData, inputs: Vec<NodeId>, outputs: Vec<OutputId>) -> Function {
    let port = |o: OutputId| Port {
        name: data.get(o.node).map_or(String::new(), |n| n.name.clone()),
        dtype: data.fact(o).map_or(thalweg_tensor::DType::F32, |f| f.dtype),
    };
    let has_effect = |n: &Node| {
        matches!(
            n.op.effect,
            Effect::Write | Effect::Stateful | Effect::Blocking | Effect::Collective
        )
    };
    let controls = data.nodes().filter(|(_, n)| has_effect(n));
    Function {
        name: name.to_owned(),
        arguments: inputs
            .iter()
            .map(|&node| port(OutputId { node, index: 0 }))
            .collect(),
        results: outputs.iter().map(|&o| port(o)).collect(),
        controls: controls.map(|(id, n)| (n.name.clone(), id)).collect(),
        body: data.clone(),
        inputs,
        outputs,
        attrs: Vec::new(),
        origin: Origin::Other("a function that was built".into()),
    }
}
