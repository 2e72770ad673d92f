//! Structured parts of a graph, each replaced by a node that calls functions: `While`, `If`.

use smallvec::SmallVec;

use super::copied::CallOps;
use super::extractor::RegionExtractor;
use super::structured::{Form, Part};
use crate::attr::{Attr, Func};
use crate::error::GraphError;
use crate::flow::region_body::distinct;
use crate::function::Function;
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::OpDef;

/// Begins the names of functions that are made of a graph's own nodes. No function of a file has a colon in its name.
const EXTRACTED: &str = "_:";

/// `true` for the name of a function that is made of a graph's own nodes: an error in it is that of a node of the graph.
pub fn is_extracted(function: &str) -> bool {
    function.starts_with(EXTRACTED)
}

/// The call that a part becomes.
struct Call {
    op: &'static OpDef,
    attrs: Attrs,
    inputs: Vec<OutputId>,
    functions: Vec<Function>,
    /// By output: the output of the graph that it stands for, if any, and its fact.
    outputs: Vec<(Option<OutputId>, Fact)>,
}

impl RegionExtractor<'_> {
    /// Adds the call that a part becomes; `false` if it has no such form.
    pub(super) fn call(&mut self, part: &Part, ops: CallOps) -> Result<bool, GraphError> {
        let Some(call) = self.call_of(part, ops) else {
            return Ok(false);
        };
        let members = &part.members;
        let graph = &self.simplified.graph;
        let first = members[0];
        let beside = match (&part.form, self.device_node(&call.inputs, first)) {
            // Branches are split by devices later.
            (Form::Branches(_), Err(_)) => first,
            (_, found) => found?,
        };
        let inside = |n: &NodeId| members.binary_search(n).is_ok();
        let waits = members.iter().flat_map(|&m| &graph.node(m).controls);
        let waits = waits.filter(|c| !inside(c));
        let source = graph.node(first);
        let node = Node {
            name: source.name.clone(),
            op: call.op,
            inputs: call.inputs.iter().map(|&o| self.value(o)).collect(),
            controls: distinct(waits.map(|c| self.nodes[c.index()])),
            attrs: call.attrs,
            device: source.device.clone(),
            colocation: SmallVec::new(),
            outputs: call.outputs.iter().map(|(_, f)| f.clone()).collect(),
            origin: source.origin.clone(),
        };
        for function in call.functions {
            self.out.define(function);
        }
        self.regions += 1;
        let id = self.push(beside, node);
        for &member in members {
            self.nodes[member.index()] = id;
        }
        for (index, (output, _)) in call.outputs.iter().enumerate() {
            if let Some(output) = output {
                let index = index as u32;
                self.values.insert(*output, OutputId { node: id, index });
            }
        }
        Ok(true)
    }

    fn call_of(&self, part: &Part, ops: CallOps) -> Option<Call> {
        let graph = &self.simplified.graph;
        let name = |role: &str| format!("{EXTRACTED}{role}:{}{}", self.prefix, self.regions);
        match &part.form {
            Form::Unstructured => None,
            Form::Loop(found) => {
                let (cond, body) = (name("cond"), name("body"));
                let call = found.call(graph, ops, (&cond, &body))?;
                let mut attrs = shapes(call.outputs.iter().map(|(_, f)| f));
                attrs.set("T", types(call.outputs.iter().map(|(_, f)| f)));
                attrs.set("cond", Attr::Func(Func::named(&cond)));
                attrs.set("body", Attr::Func(Func::named(&body)));
                attrs.set("parallel_iterations", Attr::Int(10));
                Some(Call {
                    op: ops.repeat,
                    attrs,
                    inputs: call.inputs,
                    functions: vec![call.condition, call.body],
                    outputs: call.outputs,
                })
            }
            Form::Branches(found) => {
                let (no, yes) = (name("else"), name("then"));
                let call = found.call(graph, ops, [&no, &yes])?;
                let facts: Option<Vec<&Fact>> =
                    call.inputs.iter().map(|&o| graph.fact(o)).collect();
                let facts = facts?;
                let mut attrs = shapes(call.outputs.iter().map(|(_, f)| f));
                attrs.set("Tcond", Attr::Type(facts.first()?.dtype));
                attrs.set("Tin", types(facts[1..].iter().copied()));
                attrs.set("Tout", types(call.outputs.iter().map(|(_, f)| f)));
                attrs.set("then_branch", Attr::Func(Func::named(&yes)));
                attrs.set("else_branch", Attr::Func(Func::named(&no)));
                let outputs = call.outputs.into_iter().map(|(o, fact)| (Some(o), fact));
                Some(Call {
                    op: ops.branch,
                    attrs,
                    inputs: call.inputs,
                    functions: call.functions.into(),
                    outputs: outputs.collect(),
                })
            }
        }
    }
}

fn types<'f>(facts: impl Iterator<Item = &'f Fact>) -> Attr {
    Attr::Types(facts.map(|f| f.dtype).collect())
}

/// Attributes with the shapes of a call's outputs.
fn shapes<'f>(facts: impl Iterator<Item = &'f Fact>) -> Attrs {
    let mut attrs = Attrs::default();
    attrs.set(
        "output_shapes",
        Attr::Shapes(facts.map(|f| f.shape.clone()).collect()),
    );
    attrs
}
