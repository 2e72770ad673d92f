//! Functions: graphs with arguments and results, which nodes of another graph call by name.
//!
//! Branches, loops and calls run functions. A body may use outputs of the graph around it.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::Fact;
//! use thalweg_tensor::{DType, Shape};
//!
//! let g = ops::graph();
//! let rate = ops::placeholder(&g, "rate", []);
//! let body = g.body("scaled");
//! let x = body.argument("x", &Fact::new(DType::F32, Shape::unknown()));
//! let closed = g.close_bodies(&[(body, &[x], &[x * rate])]);
//!
//! // The function takes its own argument, and then the value that it captured.
//! let function = &closed.functions[0];
//! assert_eq!((function.arguments.len(), function.results.len()), (2, 1));
//! assert_eq!(closed.captured[0].name(), "rate:0");
//!
//! let name = function.name.clone();
//! closed.functions.into_iter().for_each(|f| g.define(f));
//! assert!(g.function(&name).is_some());
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::check::check_node;
use crate::data::GraphData;
use crate::error::Reason;
use crate::graph::Graph;
use crate::node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
use crate::op::{Arg, AttrDef, Calls, Effect, Gradient, OpDef, arg, attr, type_attr};
use crate::output::{Operation, Output};
use thalweg_tensor::dtype::DType;

/// The op that stands for an argument in the body of a function.
pub static ARGUMENT: OpDef = OpDef {
    name: "_Arg",
    summary: "An argument of the function in whose body it is.",
    outputs: &[arg("output", "T")],
    attrs: &[
        type_attr("T", &DType::ALL),
        AttrDef {
            allowed: crate::op::Allowed::AtLeast(0),
            ..attr("index", crate::attr::AttrKind::Int)
        },
    ],
    shape: |_| Ok(()),
    gradient: Gradient::None,
    effect: Effect::Feed,
    ..OpDef::EMPTY
};

/// The node of this name that stands for argument `index`, with this fact.
pub fn argument_node(name: String, index: usize, fact: Fact, origin: Origin) -> Node {
    let mut attrs = Attrs::default();
    attrs.set("T", Attr::Type(fact.dtype));
    attrs.set("index", Attr::Int(index as i64));
    Node {
        name,
        op: &ARGUMENT,
        inputs: SmallVec::new(),
        controls: SmallVec::new(),
        attrs,
        device: Default::default(),
        colocation: SmallVec::new(),
        outputs: SmallVec::from_elem(fact, 1),
        origin,
    }
}

/// The deepest nesting of function calls at run time.
pub const MAX_CALL_DEPTH: usize = 64;

/// The ops that take tensors from a stack or an array and put none there.
const TAKING_OPS: [&str; 4] = [
    "StackPopV2",
    "TensorArrayReadV3",
    "TensorArrayGatherV3",
    "TensorArraySizeV3",
];

/// An argument or result of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its dtype.
    pub dtype: DType,
}

/// A graph with arguments and results.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name in the library.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Port>,
    /// Its results.
    pub results: Vec<Port>,
    /// Its body.
    pub body: GraphData,
    /// By argument: the node of the body that stands for it, an [`ARGUMENT`].
    pub inputs: Vec<NodeId>,
    /// By result: the output of the body.
    pub outputs: Vec<OutputId>,
    /// Nodes of the body that run though no result needs them, by name; see [`Function::runs`].
    pub controls: Vec<(String, NodeId)>,
    /// Its attributes, including those whose names begin with `_`.
    pub attrs: Vec<(String, Attr)>,
    /// The origin shown in descriptions and errors: a file, or a line.
    pub origin: Origin,
}

impl Function {
    /// The nodes of the body that run though no needed result depends on them. A function without a list of them that is
    /// called as a whole runs all its nodes with effects, as TensorFlow does.
    pub fn runs(&self, calls: Calls) -> Vec<NodeId> {
        if self.controls.is_empty() && calls.runs_whole() {
            let nodes = self.body.nodes();
            let effects =
                nodes.filter(|(_, n)| matches!(n.op.effect, Effect::Write | Effect::Stateful));
            return effects.map(|(id, _)| id).collect();
        }
        self.controls.iter().map(|(_, node)| *node).collect()
    }

    /// `true` if the nodes of the body only take tensors from the stack or array behind an argument.
    pub fn only_takes_from(&self, argument: usize) -> bool {
        let takes = |node: NodeId| TAKING_OPS.contains(&self.body.node(node).op.name);
        let input = self.inputs.get(argument);
        input.is_some_and(|&input| self.body.consumers(input).all(takes))
    }

    /// Removes the attributes that describe its arguments, such as TensorFlow's `_input_shapes`: for a copy with others.
    pub fn drop_argument_attrs(&mut self) {
        self.attrs.retain(|(name, _)| name != "_input_shapes");
    }

    /// By argument: `true` if a call updates the variable whose handle the argument is. Functions
    /// that the body calls are looked up in `library`.
    pub fn updates(&self, library: &GraphData) -> Vec<bool> {
        self.find_updates(library, 0, &mut HashMap::new())
    }

    /// As [`Function::updates`]; `known` caches the results of functions, each of which is visited
    /// once.
    fn find_updates<'a>(
        &'a self,
        library: &'a GraphData,
        depth: usize,
        known: &mut HashMap<&'a str, Vec<bool>>,
    ) -> Vec<bool> {
        if let Some(found) = known.get(self.name.as_str()) {
            return found.clone();
        }
        if depth > MAX_CALL_DEPTH {
            // No session runs functions this deep.
            return vec![true; self.inputs.len()];
        }
        let mut found = vec![false; self.inputs.len()];
        // A recursive call is taken to update all its arguments.
        known.insert(&self.name, vec![true; self.inputs.len()]);
        // By node: the argument whose handle it passes on.
        let mut handle: Vec<Option<usize>> = vec![None; self.body.len()];
        for (argument, input) in self.inputs.iter().enumerate() {
            if let Some(at) = handle.get_mut(input.index()) {
                *at = Some(argument);
            }
        }
        for (id, node) in self.body.nodes() {
            let resource = |o: &OutputId| {
                let of = self.body.fact(*o);
                of.is_some_and(|f| f.dtype == DType::Resource || f.reference)
            };
            let behind: Vec<Option<usize>> = node
                .inputs
                .iter()
                .map(|i| {
                    handle
                        .get(i.node.index())
                        .copied()
                        .flatten()
                        .filter(|_| resource(i))
                })
                .collect();
            if node
                .outputs
                .iter()
                .any(|f| f.dtype == DType::Resource || f.reference)
                && handle[id.index()].is_none()
            {
                handle[id.index()] = behind.iter().copied().flatten().next();
            }
            if node.op.effect == Effect::Write {
                behind.iter().flatten().for_each(|&a| found[a] = true);
                continue;
            }
            for function in node.functions() {
                let Some(called) = library.function(function) else {
                    continue;
                };
                let inner = called.find_updates(library, depth + 1, known);
                // Arguments are the last inputs: the inputs before them choose the function.
                let first = behind.len().saturating_sub(inner.len());
                for (of, updated) in behind[first..].iter().zip(inner) {
                    if let (Some(argument), true) = (of, updated) {
                        found[*argument] = true;
                    }
                }
            }
        }
        known.insert(&self.name, found.clone());
        found
    }
}

impl Node {
    /// The names of the functions that it calls.
    pub fn functions(&self) -> Vec<&str> {
        calls(self.attrs.iter().map(|(_, a)| a))
    }
}

impl GraphData {
    /// `true` if a node has an effect for which `is` is `true`; one that calls functions has those of their nodes.
    /// `known` caches the results of functions: for one library, and one `is`. A call that is too deep, or of a function
    /// that calls itself, is taken to have it.
    pub fn has_effect<'a>(
        &'a self,
        node: &'a Node,
        is: &dyn Fn(Effect) -> bool,
        known: &mut HashMap<&'a str, bool>,
    ) -> bool {
        self.has_effect_at(node, is, known, 0)
    }

    fn has_effect_at<'a>(
        &'a self,
        node: &'a Node,
        is: &dyn Fn(Effect) -> bool,
        known: &mut HashMap<&'a str, bool>,
        depth: usize,
    ) -> bool {
        let called = node.functions();
        if called.is_empty() || depth > MAX_CALL_DEPTH {
            return depth > MAX_CALL_DEPTH || is(node.op.effect);
        }
        called.into_iter().any(|name| {
            if let Some(&found) = known.get(name) {
                return found;
            }
            // Holds for a function that calls itself.
            known.insert(name, true);
            let mut nodes = self.function(name).into_iter().flat_map(|f| f.body.nodes());
            let found = nodes.any(|(_, n)| self.has_effect_at(n, is, known, depth + 1));
            known.insert(name, found);
            found
        })
    }

    /// `true` if a node updates the variable behind a handle, or calls a function that does.
    pub fn updates(&self, node: NodeId, handle: OutputId) -> bool {
        let node = self.node(node);
        let mut at = (0..node.inputs.len()).filter(|&i| node.inputs[i] == handle);
        if node.op.effect == Effect::Write {
            return at.next().is_some();
        }
        let called = node.functions();
        let called: Vec<Vec<bool>> = called
            .into_iter()
            .filter_map(|name| Some(self.function(name)?.updates(self)))
            .collect();
        // The arguments of a function are the last inputs.
        let updated = |i: usize, f: &Vec<bool>| {
            let argument = (i + f.len()).checked_sub(node.inputs.len());
            argument.and_then(|a| f.get(a)).copied().unwrap_or(true)
        };
        at.any(|i| called.iter().any(|f| updated(i, f)))
    }
}

/// The names of the functions among these attributes.
pub fn calls<'a>(attrs: impl Iterator<Item = &'a Attr>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for attr in attrs {
        match attr {
            Attr::Func(f) => names.push(f.name.as_str()),
            Attr::Funcs(all) => names.extend(all.iter().map(|f| f.name.as_str())),
            _ => {}
        }
    }
    names
}

impl Graph {
    /// Adds a function to the graph's library, in place of one of the same name.
    pub fn define(&self, function: Function) {
        let mut state = self.state();
        Arc::make_mut(&mut state.data).define(function);
    }

    /// The function of this name in the graph's library; a body has those of the graph that it was
    /// begun in.
    pub fn function(&self, name: &str) -> Option<Arc<Function>> {
        let own = self.state().data.function(name).cloned();
        own.or_else(|| self.function_around(name))
    }
}

impl Function {
    /// Adds an argument, after the others.
    pub fn push_argument(&mut self, graph: &Graph, fact: &Fact) -> OutputId {
        let attrs = [("T", fact.dtype.into())];
        let index = self.inputs.len() as i64;
        let node = self.push(graph, &ARGUMENT, &[], &attrs, index);
        if let Some(node) = self.body.node_mut(node) {
            node.outputs = SmallVec::from_elem(fact.clone().without_value(), 1);
        }
        self.inputs.push(node);
        self.arguments.push(Port {
            name: format!("argument_{index}"),
            dtype: fact.dtype,
        });
        OutputId { node, index: 0 }
    }

    /// Adds a result, after the others.
    pub fn push_result(&mut self, output: OutputId, fact: &Fact) {
        self.results.push(Port {
            name: format!("result_{}", self.outputs.len()),
            dtype: fact.dtype,
        });
        self.outputs.push(output);
    }

    /// Adds a placeholder for an unused value of this dtype and shape.
    pub fn push_unused(&mut self, graph: &Graph, fact: &Fact) -> OutputId {
        let attrs = [
            ("dtype", fact.dtype.into()),
            ("shape", fact.shape.clone().into()),
        ];
        self.push_node(graph, "FakeParam", &[], &attrs)
    }

    /// Adds a node to the body; returns its first output. `graph` provides the ops, and keeps the
    /// error of a mistake.
    pub fn push_node(
        &mut self,
        graph: &Graph,
        op: &str,
        inputs: &[OutputId],
        attrs: &[(&'static str, Attr)],
    ) -> OutputId {
        let node = match graph.registry().get(op) {
            Some(op) => self.push(graph, op, inputs, attrs, self.body.len() as i64),
            None => {
                graph.report(op, op, Reason::UnknownOp { nearest: None });
                NodeId::INVALID
            }
        };
        OutputId { node, index: 0 }
    }

    fn push(
        &mut self,
        graph: &Graph,
        op: &'static OpDef,
        inputs: &[OutputId],
        attrs: &[(&'static str, Attr)],
        index: i64,
    ) -> NodeId {
        let mut own = Attrs::default();
        for (name, value) in attrs {
            own.set(*name, value.clone());
        }
        if op.attr("index").is_some() {
            own.set("index", Attr::Int(index));
        }
        let facts: Vec<Fact> = inputs
            .iter()
            .filter_map(|&i| self.body.fact(i).cloned())
            .collect();
        let name = format!("{}_kept_{index}", op.name.trim_start_matches('_'));
        match check_node(op, &facts, own) {
            Ok((attrs, outputs)) => self.body.push(Node {
                name,
                op,
                inputs: inputs.into(),
                controls: SmallVec::new(),
                attrs,
                device: Default::default(),
                colocation: SmallVec::new(),
                outputs,
                origin: self.origin.clone(),
            }),
            Err(reason) => {
                graph.report(&name, op.name, reason);
                NodeId::INVALID
            }
        }
    }

    /// The values of the body that `wanted` depend on and that differ in each run, so that a
    /// gradient cannot recompute them. Reads of variables are not among them.
    ///
    /// # Errors
    /// The name of a node whose value cannot be kept: one with an effect.
    pub fn unrepeatable(&self, wanted: &[OutputId]) -> Result<Vec<OutputId>, String> {
        let needed = self.body.needed(wanted.iter().map(|o| o.node), |_| false);
        let mut kept = Vec::new();
        for (id, node) in self.body.nodes().filter(|(id, _)| needed[id.index()]) {
            match node.op.effect {
                Effect::Random => {
                    let outputs = 0..node.outputs.len() as u32;
                    kept.extend(outputs.map(|index| OutputId { node: id, index }));
                }
                Effect::Stateful | Effect::Blocking | Effect::Collective | Effect::Write
                    if !node.outputs.is_empty() =>
                {
                    return Err(node.name.clone());
                }
                _ => {}
            }
        }
        Ok(kept)
    }

    /// Rebuilds the nodes that `wanted` depend on in `graph`; `given` maps outputs of the body,
    /// mainly its arguments, to their replacements. Returns the outputs for `wanted`.
    pub fn inline<'g>(
        &self,
        graph: &'g Graph,
        given: &HashMap<OutputId, Output<'g>>,
        wanted: &[OutputId],
    ) -> Vec<Output<'g>> {
        let roots = wanted.iter().filter(|o| !given.contains_key(o));
        let needed = self
            .body
            .needed(roots.map(|o| o.node), |o| given.contains_key(&o));
        let mut made: HashMap<NodeId, Operation<'g>> = HashMap::new();
        let at = |made: &HashMap<NodeId, Operation<'g>>, o: OutputId| match given.get(&o) {
            Some(&output) => output,
            None => made
                .get(&o.node)
                .map_or(graph.invalid(), |n| n.output(o.index)),
        };
        for id in self.body.topological_order(&needed) {
            let node = self.body.node(id);
            if std::ptr::eq(node.op, &ARGUMENT) {
                continue;
            }
            let mut built = graph.op(node.op.name).name(&node.name);
            for &input in &node.inputs {
                built = built.input(at(&made, input));
            }
            for control in node.controls.iter().filter_map(|c| made.get(c)) {
                built = built.control(*control);
            }
            for (name, value) in node.attrs.iter() {
                built = built.attr(name, value.clone());
            }
            made.insert(id, built.build());
        }
        wanted.iter().map(|&o| at(&made, o)).collect()
    }
}

/// The argument list of an op that calls functions: as many tensors as attribute `Tin` has dtypes.
pub const ARGUMENTS: Arg = crate::op::args_of("input", "Tin");
/// The results of an op that calls functions.
pub const RESULTS: Arg = crate::op::args_of("output", "Tout");
