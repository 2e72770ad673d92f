//! Fusion behind fused nodes: a residual and an activation become the end of the epilogue.

use smallvec::SmallVec;
use thalweg_graph::{Attr, Node, NodeId, OutputId};
use thalweg_ops::DataFormat;
use thalweg_ops::fused::{FusedOps, HARD_SWISH, MEMBERS, SWISH, members};

use super::epilogues::SUM;
use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// Nodes with an epilogue.
const FUSED: &[&str] = &["_FusedMatMul", CONVOLUTION, "_FusedDepthwiseConv2dNative"];
/// The node that may have a residual.
const CONVOLUTION: &str = "_FusedConv2D";

/// The sum of a fused convolution and a tensor of its dimensions.
pub(super) fn with_residual(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let node = graph.is(id, SUM)?;
    let sides = [0, 1].into_iter().filter_map(|side| {
        let conv = graph.only_for(id, side, &[CONVOLUTION])?;
        Some((conv, *node.inputs.get(1 - side)?))
    });
    // The convolution moves to the sum: the last one has the shortest way.
    let (conv, residual) = sides.max_by_key(|(conv, _)| conv.index())?;
    let made = graph.node(conv)?;
    let (output, fact) = (&made.outputs[0], graph.fact(residual)?);
    let fits = graph.dims(residual)? == output.shape.to_dims()? && !fact.reference;
    let images = graph.dims(made.inputs[0])?;
    let channel = DataFormat::of(&made.attrs).channel(4);
    // The filter has as many channels as the images, where there is one group.
    let ungrouped = graph.dims(made.inputs[1])?[2] == images[channel];
    let ops = FusedOps::parse(&made.attrs).ok()?.residual()?;
    let keeps = keeps_memory(graph, conv, id, &images);
    (fits && ungrouped && keeps).then(|| replacement(graph, conv, &[residual], &[id], ops))?
}

/// `true` if a convolution can be computed in the place of the sum without more values being kept: its images are no
/// larger than its result, or nothing is computed between.
fn keeps_memory(graph: &Rewriter<'_>, conv: NodeId, sum: NodeId, images: &[usize]) -> bool {
    let elements = |dims: &[usize]| dims.iter().product::<usize>();
    let result = graph.dims(OutputId {
        node: conv,
        index: 0,
    });
    let mut between = (conv.index() + 1..sum.index()).map(|i| graph.id(i));
    let is_nothing = |id| graph.node(id).is_none_or(|n| n.inputs.is_empty());
    result.is_some_and(|result| elements(images) <= elements(&result)) || between.all(is_nothing)
}

/// An activation behind a fused node: an op, or the product of the value and its gate.
pub(super) fn with_activation(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let names: Vec<_> = FusedOps::activations().collect();
    if let Some(last) = graph.is(id, &names) {
        let fused = graph.only_for(id, 0, FUSED)?;
        let ops = FusedOps::parse(&graph.node(fused)?.attrs).ok()?;
        return replacement(graph, fused, &[], &[id], ops.then(last.op.name)?);
    }
    let product = graph.is(id, &["Mul"])?;
    let gated = [0, 1].into_iter().find_map(|side| {
        let (x, gate) = (*product.inputs.get(side)?, 1 - side);
        swish(graph, id, x, gate).or_else(|| hard_swish(graph, id, x, gate))
    });
    let Gated {
        value,
        gate,
        activation,
    } = gated?;
    let made = graph.is(value.node, FUSED)?;
    let first = *gate.first()?;
    // Nothing but the gate and the product reads the value.
    let reads = |user: &NodeId| *user == first || *user == id;
    let alone = graph.users(value.node).iter().all(reads) && graph.is_free(value.node);
    let same_shape = product.outputs[0].shape == made.outputs[0].shape;
    let fits = made.outputs.len() == 1 && same_shape && graph.together(id, value.node);
    let ops = FusedOps::parse(&made.attrs).ok()?.then(activation)?;
    let followers: SmallVec<[NodeId; 4]> = gate.into_iter().chain([id]).collect();
    (alone && fits).then(|| replacement(graph, value.node, &[], &followers, ops))?
}

/// The product of a value and a function of it.
struct Gated {
    value: OutputId,
    /// The nodes of the function, in order.
    gate: SmallVec<[NodeId; 3]>,
    /// Its name in fused nodes.
    activation: &'static str,
}

/// `x sigmoid(x)`.
fn swish(graph: &Rewriter<'_>, product: NodeId, value: OutputId, gate: usize) -> Option<Gated> {
    let sigmoid = graph.only_for(product, gate, &["Sigmoid"])?;
    let same = graph.node(sigmoid)?.inputs[..] == [value];
    same.then(|| Gated {
        value,
        gate: [sigmoid].into_iter().collect(),
        activation: SWISH,
    })
}

/// `x (Relu6(x + 3) / 6)`, with a product by the rounded sixth.
fn hard_swish(
    graph: &Rewriter<'_>,
    product: NodeId,
    value: OutputId,
    gate: usize,
) -> Option<Gated> {
    let scaled = graph.only_for(product, gate, &["Mul"])?;
    let relu = with_constant(graph, scaled, 1.0 / 6.0)?;
    let relu = graph.only_for(scaled, relu, &["Relu6"])?;
    let moved = graph.only_for(relu, 0, SUM)?;
    let input = with_constant(graph, moved, 3.0)?;
    let same = graph.node(moved)?.inputs[input] == value;
    same.then(|| Gated {
        value,
        gate: [moved, relu, scaled].into_iter().collect(),
        activation: HARD_SWISH,
    })
}

/// The other input of a node of two, of which one is this number.
fn with_constant(graph: &Rewriter<'_>, id: NodeId, number: f64) -> Option<usize> {
    let inputs = &graph.node(id)?.inputs;
    let is_number = |&i: &OutputId| {
        graph.free_value(i).is_some_and(|value| {
            match (value.as_slice::<f32>(), value.as_slice::<f64>()) {
                (Ok(numbers), _) => numbers == [number as f32],
                (_, Ok(numbers)) => numbers == [number],
                _ => false,
            }
        })
    };
    let at = inputs.iter().position(is_number)?;
    (inputs.len() == 2).then_some(1 - at)
}

/// Returns the fused node with a longer epilogue, in the place of the last of the nodes behind it, of which others give
/// their output to these alone. `args` are their other inputs.
fn replacement(
    graph: &Rewriter<'_>,
    fused: NodeId,
    args: &[OutputId],
    followers: &[NodeId],
    ops: FusedOps,
) -> Option<Replacement> {
    let (&last, between) = followers.split_last()?;
    let (made, end) = (graph.node(fused)?, graph.node(last)?);
    let mut attrs = made.attrs.clone();
    ops.write(&mut attrs);
    let names = members(made).into_iter().map(String::into_bytes);
    let Attr::Strs(more) = graph.names(followers.iter().copied()) else {
        return None;
    };
    attrs.set(MEMBERS, Attr::Strs(names.chain(more).collect()));
    let mut inputs = made.inputs.clone();
    inputs.extend(args.iter().copied());
    let node = Node {
        op: made.op,
        inputs,
        attrs,
        ..(**end).clone()
    };
    let left_out = between.iter().copied().chain([fused]);
    Some(Replacement::one(last, node, left_out))
}
