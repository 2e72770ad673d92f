//! Import of the nodes of a file's graph, or of a function's body, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_graph::{Attr, DeviceSpec, Graph, ImportedNode, NodeBuilder, NodeId, Origin, OutputId};

use crate::attr;
use crate::error::{ImportError, Problem, ValueError};
use crate::import::functions::Functions;
use crate::import::inline;
use crate::import::input_names::{Input, InputNames};
use crate::import::order::Dependencies;
use crate::messages::{NodeDef, OpDef};
use crate::names::{self, prefixed};
use crate::survey::is_harmless;
use crate::tensor::Budget;

/// The prefix of a node's name in the attribute for colocation.
const LOCATION: &str = "loc:@";

/// The source and the target of nodes.
pub(super) struct NodeSource<'a> {
    pub file: &'a str,
    /// The function whose body they are in.
    pub function: Option<&'a str>,
    pub origin: Origin,
    pub prefix: &'a str,
}

impl NodeSource<'_> {
    fn name(&self, node: &str) -> String {
        prefixed(self.function.unwrap_or_default(), node)
    }

    fn problem(&self, node: &NodeDef, problem: Problem) -> ImportError {
        ImportError::Node {
            origin: self.file.to_owned(),
            node: self.name(&node.name),
            op: node.op.clone(),
            problem,
        }
    }
}

/// A node that was built.
#[derive(Clone, Copy)]
pub(super) struct BuiltNode<'d> {
    pub id: NodeId,
    /// The number of its outputs.
    pub outputs: usize,
    /// For a node whose op in the file is a function: the function's signature.
    pub function: Option<&'d OpDef>,
}

/// The back edge of a loop.
struct BackEdge<'d> {
    merge: NodeId,
    position: usize,
    node: &'d NodeDef,
    from: Input<'d>,
}

/// The state of adding nodes.
pub(super) struct Nodes<'a, 'd> {
    pub graph: &'a Graph,
    pub place: NodeSource<'a>,
    pub input_names: InputNames<'a>,
    pub functions: &'a mut Functions<'d>,
    pub budget: &'a mut Budget,
    /// In a function's body: the attributes that the function is used with.
    pub given: &'a BTreeMap<String, Attr>,
    pub made: BTreeMap<&'d str, BuiltNode<'d>>,
}

impl<'a, 'd> Nodes<'a, 'd> {
    /// Adds nodes in topological order. Mistakes that the graph finds are kept by it.
    pub(super) fn add(&mut self, defs: &'d [NodeDef]) -> Result<(), ImportError> {
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, node) in defs.iter().enumerate() {
            if !names::is_valid(&node.name) {
                let problem = Problem::Name(names::MAX_NAME_BYTES);
                return Err(self.place.problem(node, problem));
            }
            if at.insert(&node.name, index).is_some() || self.made.contains_key(&*node.name) {
                return Err(self.place.problem(node, Problem::Duplicate));
            }
        }
        let mut inputs: Vec<Vec<Input<'d>>> = Vec::with_capacity(defs.len());
        let mut waits = Dependencies { of: Vec::new() };
        for node in defs {
            let own = self.inputs(node).map_err(|p| self.place.problem(node, p))?;
            let mut of = Vec::with_capacity(own.len());
            for (input, text) in own.iter().zip(&node.input) {
                let Some(name) = input.node() else { continue };
                match at.get(name) {
                    Some(&from) if goes_back(&defs[from], node, *input) => {}
                    Some(&from) => of.push(from),
                    None if self.made.contains_key(name) => {}
                    None => {
                        let problem = Problem::NoNode(text.clone());
                        return Err(self.place.problem(node, problem));
                    }
                }
            }
            waits.of.push(of);
            inputs.push(own);
        }
        let order = waits.order().map_err(|cycle| ImportError::Cycle {
            origin: self.place.file.to_owned(),
            nodes: cycle
                .iter()
                .map(|&i| self.place.name(&defs[i].name))
                .collect(),
        })?;
        let mut back = Vec::new();
        for index in order {
            let node = &defs[index];
            let made = self
                .node(node, &inputs[index], &mut back)
                .map_err(|p| self.place.problem(node, p))?;
            self.made.insert(&node.name, made);
        }
        for BackEdge {
            merge,
            position,
            node,
            from,
        } in back
        {
            let text = node.input.get(position).map_or("", |t| t);
            let from = self
                .output(from, text)
                .map_err(|p| self.place.problem(node, p))?;
            if let Some(from) = from {
                let merge = self.graph.operation(merge);
                self.graph.close_loop(merge, self.graph.output(from));
            }
        }
        Ok(())
    }

    /// Parses the inputs of a node, with replacements applied.
    fn inputs(&mut self, node: &'d NodeDef) -> Result<Vec<Input<'d>>, Problem> {
        let mut controls = false;
        let mut all = Vec::with_capacity(node.input.len());
        for text in &node.input {
            let input = self
                .input_names
                .read(text)
                .ok_or_else(|| Problem::Input(text.clone()))?;
            let control = input.is_control();
            if controls && !control {
                return Err(Problem::Input(text.clone()));
            }
            controls = control;
            all.push(input);
        }
        Ok(all)
    }

    /// Adds a node.
    fn node(
        &mut self,
        node: &'d NodeDef,
        inputs: &[Input<'d>],
        back: &mut Vec<BackEdge<'d>>,
    ) -> Result<BuiltNode<'d>, Problem> {
        let registry = self.graph.registry().clone();
        let op = registry.get(&node.op);
        let mut colocation = SmallVec::new();
        let mut attrs = self.attrs(node, op, &mut colocation)?;
        let imported = ImportedNode {
            origin: self.place.origin.clone(),
            device: DeviceSpec::parse(&node.device)?,
            colocation,
        };
        let call = match op {
            Some(_) => None,
            None => self.call(&node.op, &mut attrs)?,
        };
        let name = call.map_or(&*node.op, |(op, _)| op);
        if let Some(built) = self.inlined(node, inputs, name, &attrs, &imported)? {
            let function = call.and_then(|(_, function)| function);
            return Ok(BuiltNode { function, ..built });
        }
        let mut builder = self
            .graph
            .op(name)
            .name(&prefixed(self.place.prefix, &node.name))
            .imported(imported);
        let mut open = Vec::new();
        for (position, (&input, text)) in inputs.iter().zip(&node.input).enumerate() {
            if self.is_open(input) {
                builder = builder.open_input();
                open.push(position);
            } else {
                builder = self.connected(builder, input, text)?;
            }
        }
        for (attr, value) in attrs {
            builder = builder.attr(&attr, value);
        }
        let made = builder.build();
        back.extend(open.into_iter().map(|position| BackEdge {
            merge: made.id(),
            position,
            node,
            from: inputs[position],
        }));
        Ok(BuiltNode {
            id: made.id(),
            outputs: made.outputs().len(),
            function: call.and_then(|(_, function)| function),
        })
    }

    /// Adds the nodes of the function that a node calls, if it is to be inlined.
    fn inlined(
        &mut self,
        node: &'d NodeDef,
        inputs: &[Input<'d>],
        op: &str,
        attrs: &[(String, Attr)],
        imported: &ImportedNode,
    ) -> Result<Option<BuiltNode<'d>>, Problem> {
        if self.place.function.is_some() || inputs.iter().any(|i| self.is_open(*i)) {
            return Ok(None);
        }
        let attrs = attrs.iter().map(|(name, attr)| (&**name, attr));
        let function = self.functions.inlined(op, attrs, self.budget);
        let Some(function) = function.map_err(inline::problem)? else {
            return Ok(None);
        };
        let mut call = inline::Call {
            name: prefixed(self.place.prefix, &node.name),
            node: imported.clone(),
            arguments: Vec::new(),
            controls: Vec::new(),
        };
        for (&input, text) in inputs.iter().zip(&node.input) {
            match input {
                Input::Control(from) => call.controls.extend(self.made.get(from).map(|m| m.id)),
                Input::GivenControl(from) => call.controls.push(from),
                _ => {
                    let from = self.output(input, text)?;
                    call.arguments
                        .push(from.unwrap_or(self.graph.invalid().id()));
                }
            }
        }
        if call.arguments.len() != function.inputs.len() {
            let problem = format!(
                "it takes {}, and the call gives {}",
                function.inputs.len(),
                call.arguments.len()
            );
            return Err(Problem::Inline(problem));
        }
        let id = self.functions.inline(call, &function, 0, self.budget);
        Ok(Some(BuiltNode {
            id: id.map_err(inline::problem)?,
            outputs: function.outputs.len(),
            function: None,
        }))
    }

    /// The attributes of a node, whose functions are marked as used; the names of the nodes that it
    /// is colocated with are put in `colocation`.
    fn attrs(
        &mut self,
        node: &NodeDef,
        op: Option<&thalweg_graph::OpDef>,
        colocation: &mut SmallVec<[Arc<str>; 1]>,
    ) -> Result<Vec<(String, Attr)>, Problem> {
        let mut attrs = Vec::with_capacity(node.attr.len());
        for (name, value) in &node.attr {
            let mut cx = attr::AttrCx {
                budget: self.budget,
                given: self.given,
            };
            let def = op.and_then(|op| op.attr(name));
            let unknown = op.is_some() && def.is_none() && !name.starts_with('_');
            if unknown && is_harmless(name, value) {
                continue;
            }
            let wrong = |value| Problem::Attr {
                attr: name.clone(),
                value,
            };
            let mut value = attr::from_proto(value, def.map(|d| d.kind), &mut cx).map_err(wrong)?;
            if name == "_class" {
                self.take_locations(&mut value, colocation);
                if matches!(&value, Attr::Strs(rest) if rest.is_empty()) {
                    continue;
                }
            }
            self.functions.resolve(&mut value, self.budget)?;
            attrs.push((name.clone(), value));
        }
        Ok(attrs)
    }

    /// The call for a node whose op is a function, or that requests the gradient of one: an op, and
    /// the signature of a function of the file. `None` if there is no such function.
    fn call(
        &mut self,
        op: &str,
        attrs: &mut Vec<(String, Attr)>,
    ) -> Result<Option<(&'static str, Option<&'d OpDef>)>, Problem> {
        if op == names::SYMBOLIC_GRADIENT {
            return Ok(Some((self.functions.call_gradient(attrs)?, None)));
        }
        let call = self.functions.call(op, attrs, self.budget)?;
        Ok(call.map(|(op, function)| (op, Some(function))))
    }

    /// `true` if an input comes from a node that is not built yet: only the source of a back edge
    /// can be.
    fn is_open(&self, input: Input<'_>) -> bool {
        let missing = |from| !self.made.contains_key(from);
        !input.is_control() && input.node().is_some_and(missing)
    }

    /// Adds one more input or control input to the node.
    fn connected(
        &self,
        builder: NodeBuilder<'a>,
        input: Input<'_>,
        text: &str,
    ) -> Result<NodeBuilder<'a>, Problem> {
        let graph = self.graph;
        Ok(match input {
            Input::Control(from) => {
                let from = self.made.get(from).map_or(NodeId::INVALID, |m| m.id);
                builder.control(graph.operation(from))
            }
            Input::GivenControl(from) => builder.control(graph.operation(from)),
            _ => {
                let from = self.output(input, text)?;
                builder.input(from.map_or(graph.invalid(), |o| graph.output(o)))
            }
        })
    }

    /// The output that an input names; `None` if its node could not be built, which the graph has
    /// kept.
    fn output(&self, input: Input<'_>, text: &str) -> Result<Option<OutputId>, Problem> {
        let missing = || Problem::NoNode(text.to_owned());
        let (name, index) = match input {
            Input::Given(output) => return Ok(Some(output)),
            Input::Control(_) | Input::GivenControl(_) => {
                return Err(Problem::Input(text.to_owned()));
            }
            Input::Output(name, index) => (name, Some(index)),
            Input::Named(name, port, index) => {
                let made = self.made.get(name).ok_or_else(missing)?;
                (name, self.port(made, port, index))
            }
        };
        let made = self.made.get(name).ok_or_else(missing)?;
        if made.id.is_invalid() {
            return Ok(None);
        }
        match index.filter(|&i| (i as usize) < made.outputs) {
            Some(index) => Ok(Some(OutputId {
                node: made.id,
                index,
            })),
            None => Err(Problem::NoOutput {
                input: text.to_owned(),
                node: self.place.name(name),
                outputs: made.outputs,
            }),
        }
    }

    /// The index of the node's output for tensor `index` of its op's output `port`.
    fn port(&self, made: &BuiltNode<'_>, port: &str, index: u32) -> Option<u32> {
        if let Some(function) = made.function {
            let at = function.output_arg.iter().position(|r| r.name == port);
            return at
                .filter(|_| index == 0)
                .and_then(|i| u32::try_from(i).ok());
        }
        let data = self.graph.snapshot();
        let node = data.get(made.id)?;
        let mut first = 0;
        for arg in node.op.outputs {
            let repeats = u32::try_from(arg.repeats(&node.attrs)).ok()?;
            if arg.name == port {
                return (index < repeats).then(|| first + index);
            }
            first += repeats;
        }
        None
    }

    /// Takes the names of colocated nodes out of a node's `_class`.
    fn take_locations(&self, class: &mut Attr, colocation: &mut SmallVec<[Arc<str>; 1]>) {
        let Attr::Strs(all) = class else { return };
        all.retain(|item| {
            let text = std::str::from_utf8(item).ok();
            let Some(name) = text.and_then(|t| t.strip_prefix(LOCATION)) else {
                return true;
            };
            colocation.push(prefixed(self.place.prefix, name).into());
            false
        });
        colocation.sort();
        colocation.dedup();
    }
}

/// `true` if `node` gets this input from a later iteration of a loop.
fn goes_back(from: &NodeDef, node: &NodeDef, input: Input<'_>) -> bool {
    matches!(&*from.op, "NextIteration" | "RefNextIteration")
        && matches!(&*node.op, "Merge" | "RefMerge")
        && !matches!(input, Input::Control(_))
}

/// The output of a function's body that the text of a result names.
pub(super) fn result(nodes: &Nodes<'_, '_>, text: &str) -> Result<Option<OutputId>, Problem> {
    let input = InputNames::Body
        .read(text)
        .ok_or_else(|| Problem::Input(text.to_owned()))?;
    nodes.output(input, text)
}

impl From<ValueError> for Problem {
    fn from(value: ValueError) -> Problem {
        Problem::Attr {
            attr: "f".to_owned(),
            value,
        }
    }
}
