//! Writes a graph anew, with iterations in place of loops, and elements in place of lists.

use std::collections::HashMap;
use std::time::Instant;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use thalweg_device::DeviceType;
use thalweg_graph::flow::makes_holder;
use thalweg_graph::op::{Calls, Effect};
use thalweg_graph::simplify::{Simplified, known};
use thalweg_graph::{Fact, Node, NodeId, OutputId, Renamed};
use thalweg_tensor::DType;

use super::holder_ops::{Holder, HolderOp};
use super::item::{Item, Items, Nodes};
use super::list_ops::ListOp;
use super::new_graph::{NewGraph, OldNode, lasts};
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

/// A graph, or the function of a call, whose nodes are appended.
struct OldGraph<'o> {
    from: &'o Simplified,
    call: Option<&'o Call>,
    /// The names of its functions in the library of the new graph.
    renamed: Renamed,
    /// By function: `true` if a node of it has an effect that lasts.
    effects: HashMap<&'o str, bool>,
    appended: Appended,
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
        let mut old = OldGraph {
            from,
            call,
            renamed: self.new.graph.adopt(&from.graph),
            effects: HashMap::new(),
            appended: Appended::default(),
        };
        for id in from.graph.ids() {
            let argument = call.and_then(|c| c.arguments.get(&id));
            let (values, done) = match argument {
                Some(value) => (smallvec![value.clone()], SmallVec::new()),
                None => self.node(&mut old, id, resolves(id)).ok_or(id)?,
            };
            old.appended.values.push(values);
            old.appended.done.push(done);
        }
        Ok(old.appended)
    }

    /// Appends a node; returns its outputs, and the nodes that have run when it would have. `resolves` is the device of
    /// the elements of its lists, if these become their elements.
    fn node(
        &mut self,
        old: &mut OldGraph<'_>,
        id: NodeId,
        resolves: Option<u32>,
    ) -> Option<(Items, Nodes)> {
        let node = old.from.graph.node(id);
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|&i| old.appended.value(i).cloned());
        let inputs: SmallVec<[Item; 4]> = inputs.collect::<Option<_>>()?;
        let after = node.controls.iter();
        let after = after.flat_map(|c| &old.appended.done[c.index()]);
        let controls = distinct(after.copied().collect());
        let resolves = resolves.filter(|_| has_list(node, &inputs));
        let source = OldNode {
            id,
            node,
            device: resolves.unwrap_or(old.from.devices[id.index()]),
            controls: &controls,
        };
        match resolves {
            Some(_) => self.resolve(old, source, &inputs),
            None => self.copy(old, source, &inputs),
        }
    }

    /// Copies a node that no list comes to.
    fn copy(
        &mut self,
        old: &mut OldGraph<'_>,
        source: OldNode<'_>,
        inputs: &[Item],
    ) -> Option<(Items, Nodes)> {
        let node = source.node;
        if known(node) {
            return self.constants(source, old.call.is_some());
        }
        let inputs = inputs.iter().map(Item::output);
        let mut copy = Node {
            inputs: inputs.collect::<Option<_>>()?,
            controls: SmallVec::from_slice(source.controls),
            ..node.clone()
        };
        old.renamed.rename(&mut copy.attrs);
        if let Some(call) = old.call {
            let graph = &old.from.graph;
            let has_kernel = find(self.new.context.kernels, DeviceType::Gpu, node).is_some();
            if !has_kernel || graph.has_effect(graph.node(source.id), &lasts, &mut old.effects) {
                return None;
            }
            if node.op.effect == Effect::Read {
                copy.controls.extend(call.after.iter().copied());
                copy.controls = distinct(copy.controls);
            }
            if !node.functions().is_empty() || node.op.effect == Effect::Random {
                copy.name = Call::name(Some(call), node);
            }
        }
        let count = node.outputs.len() as u32;
        let node = self.new.push(copy, source.device)?;
        let output = |index| Item::Output(OutputId { node, index });
        Some(((0..count).map(output).collect(), smallvec![node]))
    }

    /// Adds constants for the outputs of a node, which are known.
    fn constants(&mut self, source: OldNode<'_>, in_call: bool) -> Option<(Items, Nodes)> {
        let (mut items, mut nodes) = (Items::new(), Nodes::new());
        for value in source.node.outputs.iter().filter_map(|f| f.value.clone()) {
            if in_call {
                self.new.count_bytes(value.byte_size())?;
            }
            let constant = self.new.constant(source, value)?;
            items.push(Item::Output(constant));
            nodes.push(constant.node);
        }
        Some((items, nodes))
    }

    /// Returns the nodes that a node comes after, also through lists, and that must not run later.
    fn before(&self, old: &OldGraph<'_>, source: OldNode<'_>) -> Nodes {
        let inputs = source.node.inputs.iter();
        let through = inputs.flat_map(|i| &old.appended.done[i.node.index()]);
        let of_call = old.call.iter().flat_map(|c| &c.after);
        let all = through.chain(source.controls).chain(of_call).copied();
        distinct(all.filter(|&n| self.new.is_ordered(n)).collect())
    }

    /// Replaces a node that takes or makes lists.
    fn resolve(
        &mut self,
        old: &OldGraph<'_>,
        source: OldNode<'_>,
        inputs: &[Item],
    ) -> Option<(Items, Nodes)> {
        let before = self.before(old, source);
        let is_holder = |i: &Item| matches!(i, Item::Holder(_));
        let new = &mut self.new;
        let values = if matches!(source.node.op.calls, Calls::Loop) {
            self.unroll(old, source, (inputs, &before))?
        } else if source.controls.iter().any(|&c| new.is_ordered(c)) {
            // The values of a list wait for nothing.
            return None;
        } else if makes_holder(source.node.op.name) || inputs.iter().any(is_holder) {
            let holders = &mut self.holders;
            let op = HolderOp {
                new,
                holders,
                source,
                inputs,
            };
            op.outputs()?
        } else {
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
        let own = values.iter().chain(inputs);
        let own = own.filter_map(|i| Some(i.output()?.node));
        let done = distinct(before.into_iter().chain(own).collect());
        Some((values, done))
    }

    /// Appends the iterations of a loop; returns its values after the last. Reads in them come after the nodes `before`.
    fn unroll(
        &mut self,
        old: &OldGraph<'_>,
        source: OldNode<'_>,
        (inputs, before): (&[Item], &Nodes),
    ) -> Option<Items> {
        let caller = Caller {
            graph: &old.from.graph,
            id: source.id,
            device: source.device,
            context: self.new.context,
        };
        let changed = caller.changed().ok()?;
        let (condition, body) = (caller.function("cond").ok()?, caller.function("body").ok()?);
        let mut values: Items = inputs.into();
        loop {
            let facts: Vec<Option<Fact>> = values.iter().map(|v| Some(self.new.fact(v))).collect();
            let asked = caller.simplified_for(condition, &facts, (&[0], 1)).ok()?;
            let answer = asked.graph.fact(*asked.fetches.first()?)?.value.as_ref()?;
            let mut effects = HashMap::new();
            let mut nodes = asked.graph.nodes();
            if nodes.any(|(_, n)| asked.graph.has_effect(n, &lasts, &mut effects)) {
                return None;
            }
            if !answer.to_scalar::<bool>().ok()? {
                return Some(values);
            }
            let results = (&changed[..], values.len());
            let turn = caller.simplified_for(body, &facts, results).ok()?;
            let late = Instant::now() > self.end;
            self.new.count_nodes(1).filter(|()| !late)?;
            let feeds = turn.feeds.iter().zip(&values);
            let arguments = feeds.filter_map(|(&node, value)| Some((node?, value.clone())));
            let call = Call {
                arguments: arguments.collect(),
                path: Call::name(old.call, source.node),
                after: before.clone(),
            };
            let on = |_| Some(source.device);
            let appended = self.append(&turn, Some(&call), &on).ok()?;
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
    makes_list || makes_holder(node.op.name) || inputs.iter().any(|i| i.output().is_none())
}

fn distinct(mut nodes: Nodes) -> Nodes {
    nodes.sort();
    nodes.dedup();
    nodes
}
