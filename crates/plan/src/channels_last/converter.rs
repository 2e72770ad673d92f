//! The graph in which images have their channels last.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_graph::check::infer;
use thalweg_graph::simplify::{Simplified, known};
use thalweg_graph::{Attr, Attrs, Fact, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::{Shape, Tensor};

use super::conversion::{Conversion, NewInput, image_dims, value};
use super::order::{TO_FIRST, TO_LAST, permuted};
use super::{follow, image_ops};
use crate::checked_node::checked_node;
use crate::request::PlanContext;

/// Writes the new graph, node by node. A value of the old graph may be in the new one as it was, in NHWC, or both.
pub(super) struct Converter<'a> {
    old: &'a Simplified,
    context: PlanContext<'a>,
    graph: GraphData,
    devices: Vec<u32>,
    /// By node of the old graph: the one that stands for it.
    nodes: Vec<NodeId>,
    /// Values as they were, where the node that stands for theirs has others.
    as_they_were: FxHashMap<OutputId, OutputId>,
    /// Values in NHWC, by device.
    channels_last: FxHashMap<(OutputId, u32), OutputId>,
    /// Bytes that Transposes of this pass read, and those of the old graph that are left out.
    transposed: usize,
    left_out: usize,
    /// Bytes of the images that convolutions read and write.
    convolved: usize,
}

impl<'a> Converter<'a> {
    pub(super) fn new(old: &'a Simplified, context: PlanContext<'a>) -> Converter<'a> {
        Converter {
            old,
            context,
            graph: old.graph.empty(),
            devices: Vec::with_capacity(old.devices.len()),
            nodes: Vec::with_capacity(old.devices.len()),
            as_they_were: FxHashMap::default(),
            channels_last: FxHashMap::default(),
            transposed: 0,
            left_out: 0,
            convolved: 0,
        }
    }

    /// Returns the new graph; `None` if it would not pay, or the old one is not in order.
    pub(super) fn run(mut self, on_gpu: &dyn Fn(NodeId) -> bool) -> Option<Simplified> {
        let old = self.old;
        for (id, node) in old.graph.nodes() {
            let inputs = node.inputs.iter().map(|i| i.node);
            let mut before = inputs.chain(node.controls.iter().copied());
            before.all(|n| n < id).then_some(())?;
            let conversion = match on_gpu(id) {
                true => self.conversion(id, node),
                false => None,
            };
            match conversion {
                Some(conversion) => self.convert(id, node, conversion)?,
                None if on_gpu(id) && self.leave_out_transpose(id, node) => {}
                None => self.copy(id, node)?,
            }
        }
        let fetches = old.fetches.iter().map(|&o| self.as_it_was(o));
        let fetches: Option<Vec<OutputId>> = fetches.collect();
        let fetches = fetches?;
        let more = self.transposed.saturating_sub(self.left_out);
        (more.saturating_mul(2) <= self.convolved).then_some(())?;
        let node = |n: &NodeId| self.nodes[n.index()];
        Some(Simplified {
            feeds: old.feeds.iter().map(|f| f.as_ref().map(node)).collect(),
            targets: old.targets.iter().map(node).collect(),
            fetches,
            graph: self.graph,
            devices: self.devices,
        })
    }

    /// Returns the changes to a node; `None` if it has to stay as it is.
    fn conversion(&self, id: NodeId, node: &Node) -> Option<Conversion> {
        let device = self.old.devices[id.index()];
        let is_last = |i: &OutputId| self.channels_last.contains_key(&(*i, device));
        match image_ops::conversion(&self.old.graph, node) {
            Some(conversion) => Some(conversion),
            None if !known(node) && node.inputs.iter().any(is_last) => {
                follow::conversion(&self.old.graph, id, node)
            }
            None => None,
        }
    }

    /// Adds a node as it was.
    fn copy(&mut self, id: NodeId, node: &Node) -> Option<()> {
        let mut copy = node.clone();
        for (input, &old) in copy.inputs.iter_mut().zip(&node.inputs) {
            *input = self.as_it_was(old)?;
        }
        self.push_for(id, copy);
        Some(())
    }

    /// Adds the node of NHWC that stands for a node.
    fn convert(&mut self, id: NodeId, node: &Node, conversion: Conversion) -> Option<()> {
        let device = self.old.devices[id.index()];
        let mut new = node.clone();
        let mut image_bytes = 0;
        for (i, (to, &old)) in conversion.inputs.into_iter().zip(&node.inputs).enumerate() {
            new.inputs[i] = match to {
                NewInput::AsItWas => self.as_it_was(old)?,
                NewInput::ChannelsLast => {
                    image_bytes = self
                        .old
                        .graph
                        .fact(old)
                        .map_or(0, bytes)
                        .saturating_add(image_bytes);
                    self.in_channels_last(old, device)?
                }
                NewInput::Row => self.row(node, device, old)?,
                NewInput::Constant(tensor) => self.constant(node, device, tensor)?,
            };
        }
        new.attrs = conversion.attrs;
        let facts: Option<SmallVec<[Fact; 4]>> = (new.inputs.iter())
            .map(|&i| self.graph.fact(i).cloned())
            .collect();
        let inferred = infer(new.op, &facts?, &new.attrs).ok()?;
        let images = conversion.images;
        for (index, fact) in inferred.into_iter().enumerate() {
            if images.contains(&(index as u32)) {
                let dims = node.outputs[index].shape.to_dims()?;
                let dims: SmallVec<[usize; 4]> = TO_LAST.iter().map(|&d| dims[d]).collect();
                image_bytes = bytes(&node.outputs[index]).saturating_add(image_bytes);
                new.outputs[index] = Fact {
                    shape: fact.shape.merge(&Shape::known(&dims))?,
                    ..new.outputs[index].clone().without_value()
                };
            }
        }
        if image_ops::is_convolution(node) {
            self.convolved = self.convolved.saturating_add(image_bytes);
        }
        let to = self.push_for(id, new);
        for index in images {
            let (own, new) = (OutputId { node: id, index }, OutputId { node: to, index });
            self.channels_last.insert((own, device), new);
        }
        Some(())
    }

    /// Leaves out a Transpose of the user's graph between NCHW and NHWC, if the other order is there; `false` for another node.
    fn leave_out_transpose(&mut self, id: NodeId, node: &Node) -> bool {
        if node.op.name != "Transpose" || known(node) || !node.controls.is_empty() {
            return false;
        }
        if self.old.targets.contains(&id) || self.old.feeds.contains(&Some(id)) {
            return false;
        }
        let (own, device) = (
            OutputId { node: id, index: 0 },
            self.old.devices[id.index()],
        );
        // A value whose dimensions the step alone knows cannot be brought back.
        if image_dims(&self.old.graph, own).is_none() {
            return false;
        }
        let (from, order) = (node.inputs[0], value(&self.old.graph, node.inputs[1]));
        let order = order.and_then(Tensor::to_ints).unwrap_or_default();
        let is = |places: [usize; 4]| order.iter().copied().eq(places.map(|p| p as i64));
        let here = self.old.devices[from.node.index()] == device;
        if is(TO_LAST)
            && let Some(&last) = self.channels_last.get(&(from, device))
        {
            self.as_they_were.insert(own, last);
        } else if is(TO_FIRST)
            && here
            && let Some(last) = self.as_it_was(from)
        {
            self.channels_last.insert((own, device), last);
        } else {
            return false;
        }
        self.left_out = bytes(&node.outputs[0]).saturating_add(self.left_out);
        // Nothing asks for it but by these.
        self.nodes.push(self.nodes[from.node.index()]);
        true
    }

    /// Returns a value of the old graph as it was.
    fn as_it_was(&mut self, old: OutputId) -> Option<OutputId> {
        if let Some(&there) = self.as_they_were.get(&old) {
            return Some(there);
        }
        let device = self.old.devices[old.node.index()];
        let new = match self.channels_last.get(&(old, device)) {
            Some(&last) => self.transposed(old, last, (TO_FIRST, device))?,
            None => OutputId {
                node: self.nodes[old.node.index()],
                ..old
            },
        };
        self.as_they_were.insert(old, new);
        Some(new)
    }

    /// Returns images of the old graph in NHWC, on a device.
    fn in_channels_last(&mut self, old: OutputId, device: u32) -> Option<OutputId> {
        if let Some(&there) = self.channels_last.get(&(old, device)) {
            return Some(there);
        }
        let first = self.as_it_was(old)?;
        let last = self.transposed(old, first, (TO_LAST, device))?;
        self.channels_last.insert((old, device), last);
        Some(last)
    }

    /// Adds the Transpose of a value of the new graph to another order of dimensions, which stands for one of the old graph.
    /// Images of one channel or one pixel have the same elements in both orders.
    fn transposed(
        &mut self,
        old: OutputId,
        from: OutputId,
        (order, device): ([usize; 4], u32),
    ) -> Option<OutputId> {
        let source = self.old.graph.node(old.node);
        let fact = self.graph.fact(from)?;
        let dims = image_dims(&self.graph, from)?;
        let to = order.map(|d| dims[d]);
        let [_, channels, lines, columns] = match order {
            TO_LAST => [dims[0], dims[1], dims[2], dims[3]],
            _ => to,
        };
        let same = channels == 1 || (lines, columns) == (1, 1);
        let known = value(&self.graph, from).and_then(|value| match same {
            true => value.reshaped(&to).ok(),
            false => permuted(value, order),
        });
        if let Some(known) = known {
            return self.constant(source, device, known);
        }
        let (op, numbers) = match same {
            true => ("Reshape", to),
            false => ("Transpose", order),
        };
        if !same {
            self.transposed = bytes(fact).saturating_add(self.transposed);
        }
        let numbers: Option<Vec<i64>> = numbers.iter().map(|&n| n.try_into().ok()).collect();
        let numbers = self.constant(source, device, Tensor::vector(&numbers?))?;
        self.add(source, device, op, &[from, numbers], Attrs::default())
    }

    /// Returns numbers of dimensions `[channels, 1, 1]` as a row, which is added to images in NHWC.
    fn row(&mut self, node: &Node, device: u32, old: OutputId) -> Option<OutputId> {
        let from = self.as_it_was(old)?;
        let channels = *self.graph.fact(from)?.shape.to_dims()?.first()?;
        if let Some(value) = value(&self.graph, from) {
            let value = value.reshaped(&[channels]).ok()?;
            return self.constant(node, device, value);
        }
        let dims = Tensor::vector(&[i64::try_from(channels).ok()?]);
        let dims = self.constant(node, device, dims)?;
        self.add(node, device, "Reshape", &[from, dims], Attrs::default())
    }

    fn constant(&mut self, source: &Node, device: u32, value: Tensor) -> Option<OutputId> {
        let mut attrs = Attrs::default();
        attrs.set("dtype", value.dtype().into());
        attrs.set("value", Attr::Tensor(value));
        self.add(source, device, "Const", &[], attrs)
    }

    /// Adds a node of an op, named after the node of the old graph that it is for; returns its first output.
    fn add(
        &mut self,
        source: &Node,
        device: u32,
        op: &str,
        inputs: &[OutputId],
        attrs: Attrs,
    ) -> Option<OutputId> {
        let name = format!("{}/{op}", source.name);
        let op = &self.context.kernels.get(op)?.def;
        let node = checked_node(&self.graph, op, name, inputs, attrs, source)?;
        self.devices.push(device);
        let node = self.graph.push(node);
        Some(OutputId { node, index: 0 })
    }

    /// Adds the node that stands for one of the old graph.
    fn push_for(&mut self, id: NodeId, mut node: Node) -> NodeId {
        (node.controls.iter_mut()).for_each(|c| *c = self.nodes[c.index()]);
        self.devices.push(self.old.devices[id.index()]);
        let new = self.graph.push(node);
        self.nodes.push(new);
        new
    }
}

fn bytes(fact: &Fact) -> usize {
    let elements = fact.shape.elements().unwrap_or(0);
    elements.saturating_mul(fact.dtype.size())
}
