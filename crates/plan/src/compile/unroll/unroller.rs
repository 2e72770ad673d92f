//! Writes a graph anew, with iterations in place of loops, and elements in place of lists.

use std::time::Instant;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use thalweg_device::DeviceType;
use thalweg_graph::flow::makes_array;
use thalweg_graph::function::calls;
use thalweg_graph::op::{Calls, Effect};
use thalweg_graph::simplify::{Simplified, known};
use thalweg_graph::{Fact, Node, NodeId, OutputId, Renamed};
use thalweg_tensor::DType;

use super::effects::has_effects;
use super::holder_ops::{Holder, HolderOp};
use super::item::{Item, Items, Nodes};
use super::list_ops::ListOp;
use super::new_graph::{NewGraph, Source};
use crate::compile::functions::Caller;
use crate::kernels::find;

/// The values of a graph's nodes in the new graph.
#[derive(Default)]
pub(super) struct Appended {
    /// By node: its outputs.
    pub(super) values: Vec<Items>,
    /// By node: the nodes that have run when it would have.
    pub(super) done: Vec<Nodes>,
}

impl Appended {
    pub(super) fn value(&self, output: OutputId) -> Option<&Item> {
        let values = self.values.get(output.node.index())?;
        values.get(output.index as usize)
    }
}

/// A call of a function, whose nodes are appended.
pub(super) struct Call {
    /// By node that stands for an argument: its value.
    arguments: FxHashMap<NodeId, Item>,
    /// The names of the callers: each of them has random numbers of its own.
    path: String,
    /// The nodes that the call comes after, and that must not run later: its reads of variables wait for them.
    after: Nodes,
}

impl Call {
    fn name(call: Option<&Call>, node: &Node) -> String {
        match call {
            Some(call) => format!("{}/{}", call.path, node.name),
            None => node.name.clone(),
        }
    }
}

/// Writes a graph anew, with iterations in place of loops.
pub(super) struct Unroller<'a> {
    pub(super) new: NewGraph<'a>,
    /// The arrays and stacks, by number.
    holders: Vec<Holder>,
    /// The time at which it gives up.
    end: Instant,
}

impl<'a> Unroller<'a> {
    pub(super) fn new(new: NewGraph<'a>, end: Instant) -> Unroller<'a> {
        Unroller {
            new,
            holders: Vec::new(),
            end,
        }
    }

    /// Appends the nodes of a graph, or of a function that is called; `resolves` returns the device of the elements for a
    /// node whose lists become their elements.
    ///
    /// # Errors
    /// The node that is in the way.
    pub(super) fn append(
        &mut self,
        from: &Simplified,
        call: Option<&Call>,
        resolves: &dyn Fn(NodeId) -> Option<u32>,
    ) -> Result<Appended, NodeId> {
        let mut appended = Appended::default();
        let renamed = self.new.graph.adopt(&from.graph);
        for (id, node) in from.graph.nodes() {
            let argument = call.and_then(|c| c.arguments.get(&id));
            let (values, done) = match argument {
                Some(value) => (smallvec![value.clone()], SmallVec::new()),
                None => {
                    let inputs = node.inputs.iter().map(|&i| appended.value(i).cloned());
                    let inputs: SmallVec<[Item; 4]> = inputs.collect::<Option<_>>().ok_or(id)?;
                    let after = node.controls.iter().map(|c| &appended.done[c.index()]);
                    let mut controls: Nodes = after.flatten().copied().collect();
                    controls.sort();
                    controls.dedup();
                    let source = |device| Source {
                        node,
                        device,
                        controls: &controls,
                    };
                    let found = match resolves(id).filter(|_| has_list(node, &inputs)) {
                        Some(device) => {
                            let before = self.before((node, &controls), &appended, call);
                            self.resolve((from, id), source(device), (&inputs, &before), call)
                        }
                        None => {
                            let source = source(from.devices[id.index()]);
                            self.copy((from, &renamed), source, &inputs, call)
                        }
                    };
                    found.ok_or(id)?
                }
            };
            appended.values.push(values);
            appended.done.push(done);
        }
        Ok(appended)
    }

    /// Copies a node that no list comes to.
    fn copy(
        &mut self,
        (from, renamed): (&Simplified, &Renamed),
        source: Source<'_>,
        inputs: &[Item],
        call: Option<&Call>,
    ) -> Option<(Items, Nodes)> {
        let node = source.node;
        if known(node) {
            let values = node.outputs.iter().filter_map(|f| f.value.clone());
            if call.is_some() {
                let bytes = values.clone().map(|v| v.byte_size()).sum();
                self.new.count_bytes(bytes)?;
            }
            let values: Option<SmallVec<[OutputId; 2]>> = values
                .map(|value| self.new.constant(source, value))
                .collect();
            let values = values?;
            let done = values.iter().map(|o| o.node).collect();
            return Some((values.into_iter().map(Item::Output).collect(), done));
        }
        let inputs = inputs.iter().map(Item::output);
        let mut copy = Node {
            inputs: inputs.collect::<Option<_>>()?,
            controls: SmallVec::from_slice(source.controls),
            ..node.clone()
        };
        renamed.rename(&mut copy.attrs);
        if let Some(call) = call {
            if node.op.effect == Effect::Read {
                copy.controls.extend(call.after.iter().copied());
                copy.controls.sort();
                copy.controls.dedup();
            }
            let has_kernel = find(self.new.context.kernels, DeviceType::Gpu, node).is_some();
            if !has_kernel || has_effects(&from.graph, node) {
                return None;
            }
            let calls = !calls(node.attrs.iter().map(|(_, a)| a)).is_empty();
            if calls || node.op.effect == Effect::Random {
                copy.name = Call::name(Some(call), node);
            }
        }
        let count = node.outputs.len() as u32;
        let node = self.new.push(copy, source.device)?;
        let output = |index| Item::Output(OutputId { node, index });
        Some(((0..count).map(output).collect(), smallvec![node]))
    }

    /// Returns the nodes that a node comes after, also through lists, and that must not run later.
    fn before(
        &self,
        (node, controls): (&Node, &[NodeId]),
        appended: &Appended,
        call: Option<&Call>,
    ) -> Nodes {
        let through = node.inputs.iter();
        let through = through.flat_map(|i| &appended.done[i.node.index()]);
        let of_call = call.iter().flat_map(|c| &c.after);
        let all = through.chain(controls).chain(of_call).copied();
        let mut before: Nodes = all.filter(|&n| self.new.is_ordered(n)).collect();
        before.sort();
        before.dedup();
        before
    }

    /// Replaces a node that takes or makes lists; `before` has the nodes that it comes after.
    fn resolve(
        &mut self,
        (from, id): (&Simplified, NodeId),
        source: Source<'_>,
        (inputs, before): (&[Item], &Nodes),
        call: Option<&Call>,
    ) -> Option<(Items, Nodes)> {
        let is_holder = |i: &Item| matches!(i, Item::Holder(_));
        let values = if matches!(source.node.op.calls, Calls::Loop) {
            self.unroll((from, id), source, (inputs, before), call)?
        } else if source.controls.iter().any(|&c| self.new.is_ordered(c)) {
            // The values of a list wait for nothing.
            return None;
        } else if makes_array(source.node.op.name) || inputs.iter().any(is_holder) {
            self.on_holder(source, inputs)?
        } else {
            let new = &mut self.new;
            let op = ListOp {
                new,
                source,
                inputs,
            };
            op.outputs()?
        };
        let said = &source.node.outputs;
        let fits = |(value, said): (&Item, &Fact)| self.new.fact(value).dtype == said.dtype;
        if values.len() != said.len() || !values.iter().zip(said).all(fits) {
            return None;
        }
        let mut done = before.clone();
        done.extend(
            values
                .iter()
                .chain(inputs)
                .filter_map(|i| Some(i.output()?.node)),
        );
        done.sort();
        done.dedup();
        Some((values, done))
    }

    fn on_holder(&mut self, source: Source<'_>, inputs: &[Item]) -> Option<Items> {
        let op = HolderOp {
            new: &mut self.new,
            holders: &mut self.holders,
            source,
            inputs,
        };
        op.outputs()
    }

    /// Appends the iterations of a loop; returns its values after the last.
    fn unroll(
        &mut self,
        (from, id): (&Simplified, NodeId),
        source: Source<'_>,
        (inputs, before): (&[Item], &Nodes),
        call: Option<&Call>,
    ) -> Option<Items> {
        let context = self.new.context;
        let caller = Caller {
            graph: &from.graph,
            id,
            device: source.device,
            context,
        };
        let changed = caller.changed().ok()?;
        let (condition, body) = (caller.function("cond").ok()?, caller.function("body").ok()?);
        let mut values: Items = inputs.into();
        loop {
            let facts: Vec<Option<Fact>> = values.iter().map(|v| Some(self.new.fact(v))).collect();
            let asked = caller.simplified_for(condition, &facts, (&[0], 1)).ok()?;
            let answer = asked.graph.fact(*asked.fetches.first()?)?.value.as_ref()?;
            if asked
                .graph
                .nodes()
                .any(|(_, n)| has_effects(&asked.graph, n))
            {
                return None;
            }
            if !answer.to_scalar::<bool>().ok()? {
                return Some(values);
            }
            let turn = caller
                .simplified_for(body, &facts, (&changed, values.len()))
                .ok()?;
            let late = Instant::now() > self.end;
            self.new.count_nodes(1).filter(|()| !late)?;
            let feeds = turn.feeds.iter().zip(&values);
            let arguments = feeds.filter_map(|(&node, value)| Some((node?, value.clone())));
            let call = Call {
                arguments: arguments.collect(),
                path: Call::name(call, source.node),
                after: before.clone(),
            };
            let appended = self
                .append(&turn, Some(&call), &|_| Some(source.device))
                .ok()?;
            for (&i, &result) in changed.iter().zip(&turn.fetches) {
                let value = appended.value(result)?.clone();
                if self.new.fact(&value).dtype != self.new.fact(&values[i]).dtype {
                    return None;
                }
                values[i] = value;
            }
        }
    }
}

/// `true` if a list, an array or a stack comes to a node, or out of it.
fn has_list(node: &Node, inputs: &[Item]) -> bool {
    let makes_list = node.outputs.iter().any(|f| f.dtype == DType::Variant);
    makes_list || makes_array(node.op.name) || inputs.iter().any(|i| i.output().is_none())
}
