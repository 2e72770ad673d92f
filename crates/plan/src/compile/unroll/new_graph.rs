//! The graph that unrolled loops are written to.

use smallvec::SmallVec;
use thalweg_graph::check::infer;
use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, Attrs, Fact, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use super::item::Item;
use crate::checked_node::checked_node;
use crate::request::PlanContext;

/// Maximum number of elements of a list or an array.
const MAX_ELEMENTS: i64 = 1 << 16;
/// Maximum number of nodes that a graph gets beside those that it has.
const MAX_NODES: usize = 1 << 16;
/// Maximum number of elements of all lists and arrays together.
const MAX_ALL_ELEMENTS: usize = 1 << 24;
/// Maximum bytes of the constants of iterations.
const MAX_CONSTANT_BYTES: usize = 64 << 20;

/// A graph in the making.
pub(super) struct NewGraph<'a> {
    pub(super) graph: GraphData,
    /// By node: the number of its device.
    pub(super) devices: Vec<u32>,
    /// By node: `true` if it has an effect, or comes after a node that has.
    ordered: Vec<bool>,
    pub(super) context: PlanContext<'a>,
    nodes_left: usize,
    elements_left: usize,
    bytes_left: usize,
}

/// A node of the old graph, which new ones stand for.
#[derive(Clone, Copy)]
pub(super) struct OldNode<'n> {
    pub(super) id: NodeId,
    pub(super) node: &'n Node,
    /// The number of the new ones' device.
    pub(super) device: u32,
    /// The nodes of the new graph that it waits for.
    pub(super) controls: &'n [NodeId],
}

impl<'a> NewGraph<'a> {
    /// An empty graph in which one of so many nodes is written anew, with the library of that one.
    pub(super) fn like(old: &GraphData, context: PlanContext<'a>) -> NewGraph<'a> {
        NewGraph {
            graph: old.empty(),
            devices: Vec::new(),
            ordered: Vec::new(),
            context,
            nodes_left: MAX_NODES + old.len(),
            elements_left: MAX_ALL_ELEMENTS,
            bytes_left: MAX_CONSTANT_BYTES,
        }
    }

    /// `true` for a node that has an effect, or comes after one that has.
    pub(super) fn is_ordered(&self, node: NodeId) -> bool {
        self.ordered.get(node.index()).copied().unwrap_or(true)
    }

    /// Counts nodes that are simplified; `None` if there are too many.
    pub(super) fn count_nodes(&mut self, nodes: usize) -> Option<()> {
        self.nodes_left = self.nodes_left.checked_sub(nodes)?;
        Some(())
    }

    /// Counts the elements of a new list or array; `None` if there are too many.
    pub(super) fn count_elements(&mut self, elements: usize) -> Option<()> {
        self.elements_left = self.elements_left.checked_sub(elements)?;
        Some(())
    }

    /// Counts the bytes of a constant; `None` if there are too many.
    pub(super) fn count_bytes(&mut self, bytes: usize) -> Option<()> {
        self.bytes_left = self.bytes_left.checked_sub(bytes)?;
        Some(())
    }

    fn append(&mut self, node: Node, device: u32) -> Option<NodeId> {
        self.count_nodes(1)?;
        let effects = lasts(node.op.effect);
        let inputs = node.inputs.iter().map(|i| i.node);
        let mut before = inputs.chain(node.controls.iter().copied());
        let ordered = effects || before.any(|n| self.is_ordered(n));
        self.ordered.push(ordered);
        self.devices.push(device);
        Some(self.graph.push(node))
    }

    /// Returns the fact of a value; a list is a scalar variant.
    pub(super) fn fact(&self, item: &Item) -> Fact {
        let known = item.output().and_then(|o| self.graph.fact(o));
        let dtype = match item {
            Item::Holder(_) => DType::Resource,
            _ => DType::Variant,
        };
        known
            .cloned()
            .unwrap_or_else(|| Fact::new(dtype, Shape::scalar()))
    }

    /// Returns a value that is known before the step.
    fn value(&self, item: &Item) -> Option<&Tensor> {
        self.graph.fact(item.output()?)?.value.as_ref()
    }

    /// Returns integers that are known before the step.
    pub(super) fn ints(&self, item: &Item) -> Option<Vec<i64>> {
        self.value(item)?.to_ints()
    }

    /// Returns an integer that is known before the step.
    pub(super) fn int(&self, item: &Item) -> Option<i64> {
        match self.ints(item)?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Returns a shape that is given as integers, -1 for an unknown dimension, or as the scalar -1.
    pub(super) fn shape(&self, item: &Item) -> Option<Shape> {
        let value = self.value(item)?;
        let dims = value.to_ints()?;
        match value.dims() {
            [] if dims[..] == [-1] => Some(Shape::unknown()),
            [_] => Some(Shape::partial(
                dims.iter().map(|&d| usize::try_from(d).ok()),
            )),
            _ => None,
        }
    }

    /// Adds a node whose inputs are of this graph; its shapes are inferred for them.
    pub(super) fn push(&mut self, mut node: Node, device: u32) -> Option<NodeId> {
        let facts: Option<SmallVec<[Fact; 4]>> = node
            .inputs
            .iter()
            .map(|&i| self.graph.fact(i).cloned())
            .collect();
        let mut outputs = infer(node.op, &facts?, &node.attrs).ok()?;
        for (new, old) in outputs.iter_mut().zip(&node.outputs) {
            new.shape = new.shape.merge(&old.shape)?;
        }
        node.outputs = outputs;
        self.append(node, device)
    }

    /// Adds a node of an op; returns its first output.
    pub(super) fn add(
        &mut self,
        source: OldNode<'_>,
        op: &str,
        inputs: &[OutputId],
        attrs: impl IntoIterator<Item = (&'static str, Attr)>,
    ) -> Option<OutputId> {
        let op = &self.context.kernels.get(op)?.def;
        let mut given = Attrs::default();
        for (name, value) in attrs {
            given.set(name, value);
        }
        let like = source.node;
        let node = checked_node(&self.graph, op, like.name.clone(), inputs, given, like)?;
        let node = Node {
            controls: SmallVec::from_slice(source.controls),
            ..node
        };
        let node = self.append(node, source.device)?;
        Some(OutputId { node, index: 0 })
    }

    pub(super) fn constant(&mut self, source: OldNode<'_>, value: Tensor) -> Option<OutputId> {
        let dtype = value.dtype().into();
        let attrs = [("dtype", dtype), ("value", Attr::Tensor(value))];
        self.add(source, "Const", &[], attrs)
    }

    /// Adds zeros of this shape, which must be known.
    pub(super) fn zeros(
        &mut self,
        source: OldNode<'_>,
        dtype: DType,
        shape: &Shape,
    ) -> Option<OutputId> {
        let dims: Vec<i64> = shape.to_dims()?.iter().map(|&d| d as i64).collect();
        let dims = self.constant(source, Tensor::vector(&dims))?;
        let zero = self.constant(source, Tensor::zeros(dtype, &[]).ok()?)?;
        self.add(source, "Fill", &[dims, zero], [])
    }

    /// Adds the rows of a tensor; returns the shape of one, too.
    pub(super) fn unpacked(
        &mut self,
        source: OldNode<'_>,
        tensor: &Item,
    ) -> Option<(Vec<OutputId>, Shape)> {
        let tensor = tensor.output()?;
        let dims = self.graph.fact(tensor)?.shape.to_dims()?;
        let (&count, row) = dims.split_first()?;
        let row = Shape::known(row);
        if count == 0 {
            return Some((Vec::new(), row));
        }
        let num = i64::try_from(count).ok().filter(|&n| n <= MAX_ELEMENTS)?;
        let attrs = [("num", Attr::Int(num)), ("axis", Attr::Int(0))];
        let node = self.add(source, "Unpack", &[tensor], attrs)?.node;
        let rows = (0..count as u32).map(|index| OutputId { node, index });
        Some((rows.collect(), row))
    }

    /// Adds the tensor of these rows; `row` is the shape of one, if there are none.
    pub(super) fn packed(
        &mut self,
        source: OldNode<'_>,
        rows: &[OutputId],
        (dtype, row): (DType, &Shape),
    ) -> Option<OutputId> {
        if rows.is_empty() {
            let dims: Vec<usize> = std::iter::once(0).chain(row.to_dims()?).collect();
            return self.constant(source, Tensor::zeros(dtype, &dims).ok()?);
        }
        let attrs = [
            ("N", Attr::Int(rows.len() as i64)),
            ("axis", Attr::Int(0)),
            ("T", dtype.into()),
        ];
        self.add(source, "Pack", rows, attrs)
    }

    /// Adds the sum of two values.
    pub(super) fn sum(
        &mut self,
        source: OldNode<'_>,
        parts: [OutputId; 2],
        dtype: DType,
    ) -> Option<OutputId> {
        let attrs = [("N", Attr::Int(2)), ("T", dtype.into())];
        self.add(source, "AddN", &parts, attrs)
    }
}

/// `true` for an effect that other nodes, or other steps, may see: the order of such nodes matters.
pub(super) fn lasts(effect: Effect) -> bool {
    !matches!(
        effect,
        Effect::Pure
            | Effect::Random
            | Effect::Handle
            | Effect::Feed
            | Effect::Read
            | Effect::Control
    )
}

/// Checks a number of elements.
pub(super) fn count(n: i64) -> Option<usize> {
    (0..=MAX_ELEMENTS).contains(&n).then_some(n as usize)
}
