//! Calls of segments, in place of a split call.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use thalweg_tensor::{DType, Shape};

use super::segments::{Body, Segment, SegmentKey, Segments, Taken, sources};
use crate::attr::{Attr, Func};
use crate::flow::region_body::{RegionBody, distinct};
use crate::function::{Function, Port};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::OpDef;
use crate::rebuilt::Rebuilt;

/// The calls that a split call becomes.
pub(super) struct SegmentCalls<'a> {
    /// The split call, with inputs and controls of the new graph.
    pub(super) call: &'a Node,
    pub(super) bodies: &'a [Body],
    pub(super) segments: &'a Segments,
    /// Stands for a value that a branch does not compute.
    pub(super) no_value: &'static OpDef,
}

/// The calls that have been added.
#[derive(Default)]
struct Added {
    calls: FxHashMap<SegmentKey, NodeId>,
    /// By body and output: the output of a call that gives it.
    values: FxHashMap<(usize, OutputId), OutputId>,
}

impl SegmentCalls<'_> {
    /// Adds the calls, and returns the one that gives the results. `prefix` stands in the names of their functions.
    pub(super) fn push(&self, rebuilt: &mut Rebuilt, prefix: &str) -> NodeId {
        let mut added = Added::default();
        let mut last = NodeId::INVALID;
        let count = self.segments.all.len();
        for (number, (&key, segment)) in self.segments.all.iter().enumerate() {
            let is_last = number + 1 == count;
            let bodies = self.bodies.iter().enumerate();
            let names: Vec<String> = bodies
                .map(|(at, body)| format!("{}:{prefix}{number}:{at}", body.function.name))
                .collect();
            let node = self.node(segment, &added, is_last, number, &names);
            for (body, name) in names.into_iter().enumerate() {
                rebuilt
                    .graph
                    .define(self.function(body, segment, is_last, name));
            }
            last = rebuilt.push(key.1, node);
            added.calls.insert(key, last);
            for (index, &given) in segment.gives.iter().enumerate() {
                let index = index as u32;
                added.values.insert(given, OutputId { node: last, index });
            }
        }
        last
    }

    /// The call of a segment.
    fn node(
        &self,
        segment: &Segment,
        added: &Added,
        is_last: bool,
        number: usize,
        functions: &[String],
    ) -> Node {
        let call = self.call;
        let first = self.bodies.first().map_or(0, |b| b.first_input);
        let taken = segment.takes.iter().map(|taken| match taken {
            Taken::Input(i) => call.inputs[*i],
            Taken::Value(body, output) => added.values[&(*body, *output)],
        });
        let inputs = call.inputs[..first].iter().copied().chain(taken).collect();
        let waits = segment.waits.iter().filter_map(|k| added.calls.get(k));
        let outputs: SmallVec<[Fact; 1]> = match is_last {
            true => call.outputs.clone(),
            false => segment
                .gives
                .iter()
                .map(|(b, o)| self.fact(*b, *o))
                .collect(),
        };
        let name = match is_last {
            true => call.name.clone(),
            false => format!("{}/part_{number}", call.name),
        };
        Node {
            name,
            op: call.op,
            inputs,
            controls: distinct(call.controls.iter().chain(waits).copied()),
            attrs: self.attrs(segment, &outputs, functions),
            device: call.device.clone(),
            colocation: SmallVec::new(),
            outputs,
            origin: call.origin.clone(),
        }
    }

    fn attrs(&self, segment: &Segment, outputs: &[Fact], functions: &[String]) -> Attrs {
        let mut attrs = self.call.attrs.clone();
        let mut names = functions.iter();
        let mut renamed = |f: &Func| match names.next() {
            Some(name) => Func::named(name),
            None => f.clone(),
        };
        for (name, attr) in self.call.attrs.iter() {
            let new = match attr {
                Attr::Func(f) => Attr::Func(renamed(f)),
                Attr::Funcs(all) => Attr::Funcs(all.iter().map(&mut renamed).collect()),
                Attr::Types(_) if name == "Tin" => {
                    Attr::Types(segment.takes.iter().map(|t| self.dtype(*t)).collect())
                }
                Attr::Types(_) if name == "Tout" => {
                    Attr::Types(outputs.iter().map(|f| f.dtype).collect())
                }
                Attr::Shapes(_) if name == "output_shapes" => {
                    Attr::Shapes(outputs.iter().map(|f| f.shape.clone()).collect())
                }
                _ => continue,
            };
            attrs.set(name.to_owned(), new);
        }
        attrs
    }

    /// The fact of a value between two segments. The branch that does not compute it gives any shape.
    fn fact(&self, body: usize, output: OutputId) -> Fact {
        let fact = self.bodies[body].placed.graph.fact(output).cloned();
        match fact {
            Some(fact) if self.bodies.len() == 1 => fact.without_value(),
            fact => Fact::new(fact.map_or(DType::F32, |f| f.dtype), Shape::unknown()),
        }
    }

    /// The node and the fact behind a value that a segment takes, as a body sees it.
    fn source(&self, body: usize, taken: Taken) -> (&Node, Fact) {
        match taken {
            Taken::Input(input) => {
                let body = &self.bodies[body];
                let node = body.function.inputs[input - body.first_input];
                let node = body.function.body.node(node);
                (node, node.outputs[0].clone())
            }
            Taken::Value(of, output) => {
                let node = self.bodies[of].placed.graph.node(output.node);
                (node, self.fact(of, output))
            }
        }
    }

    fn dtype(&self, taken: Taken) -> DType {
        self.source(0, taken).1.dtype
    }

    /// The function of a segment for one body.
    fn function(&self, number: usize, segment: &Segment, is_last: bool, name: String) -> Function {
        let body = &self.bodies[number];
        let graph = &body.placed.graph;
        let mut part = Part {
            body,
            number,
            region: RegionBody::default(),
            taken: FxHashMap::default(),
            nodes: FxHashMap::default(),
        };
        for (index, &taken) in segment.takes.iter().enumerate() {
            let (source, fact) = self.source(number, taken);
            let name = format!("{}/argument_{index}", source.name);
            let node = part.region.push_argument(name, source, &fact);
            part.taken.insert(taken, OutputId { node, index: 0 });
        }
        for &id in &segment.nodes[number] {
            part.copy(id);
        }
        let mut results = Vec::new();
        if is_last {
            for (port, &output) in body.function.results.iter().zip(&body.placed.fetches) {
                results.push((port.clone(), part.value(output)));
            }
        }
        let given = segment.gives.iter().filter(|_| !is_last);
        for (index, &(of, output)) in given.enumerate() {
            let value = match of == number {
                true => part.value(output),
                // Another body computes it.
                false => {
                    let (source, fact) = self.source(number, Taken::Value(of, output));
                    let name = format!("{}/no_value_{index}", source.name);
                    let region = &mut part.region;
                    region.push_no_value(self.no_value, name, source, fact.dtype)
                }
            };
            let port = Port {
                name: format!("given_{index}"),
                dtype: self.fact(of, output).dtype,
            };
            results.push((port, value));
        }
        // Nodes of a segment are needed, be it by an edge of control from a later segment only.
        let own = &segment.nodes[number];
        let used: FxHashSet<NodeId> = own.iter().flat_map(|&n| sources(graph.node(n))).collect();
        let runs = own.iter().filter(|n| !used.contains(n));
        let controls = runs
            .map(|n| (graph.node(*n).name.clone(), part.nodes[n]))
            .collect();
        let mut function = part
            .region
            .function(&name, results, body.function.origin.clone());
        function.controls = controls;
        function
    }
}

/// The part of a body that a segment runs, under construction.
struct Part<'a> {
    body: &'a Body,
    number: usize,
    region: RegionBody,
    taken: FxHashMap<Taken, OutputId>,
    nodes: FxHashMap<NodeId, NodeId>,
}

impl Part<'_> {
    /// Copies a node; the nodes that it uses are here, are taken, or are constants.
    fn copy(&mut self, id: NodeId) -> NodeId {
        let mut node = Node::clone(self.body.placed.graph.node(id));
        node.inputs = node.inputs.iter().map(|&i| self.value(i)).collect();
        let controls = node.controls.iter().filter_map(|c| self.nodes.get(c));
        node.controls = distinct(controls.copied());
        let here = self.region.graph.push(node);
        self.nodes.insert(id, here);
        here
    }

    /// The output of the part for one of the body.
    fn value(&mut self, output: OutputId) -> OutputId {
        let taken = match self.body.argument(output.node) {
            Some(argument) => Taken::Input(self.body.first_input + argument),
            None => Taken::Value(self.number, output),
        };
        if let Some(&here) = self.taken.get(&taken) {
            return here;
        }
        let node = match self.nodes.get(&output.node) {
            Some(&here) => here,
            None => self.copy(output.node),
        };
        OutputId { node, ..output }
    }
}
