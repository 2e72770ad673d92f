//! Epilogues: what follows a GEMM or a convolution is done to its sums before they are stored.

use smallvec::SmallVec;
use thalweg_graph::{Node, NodeId, OutputId};

use thalweg_ops::DataFormat;
use thalweg_ops::fused::{DTYPES, FUSED_CONV_2D, FUSED_MAT_MUL, FUSED_OPS, FusedOps, MEMBERS};

use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// What can be followed, and what it is then.
const PRODUCERS: &[&str] = &["MatMul", "Conv2D"];
/// Adds a bias to its first input.
const BIAS: &[&str] = &["BiasAdd", "BiasAddV1"];
/// Adds two inputs, of which one may be a bias.
const SUM: &[&str] = &["AddV2", "Add"];

/// An activation behind a bias behind a GEMM or a convolution.
pub(super) fn with_activation(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let activations: Vec<_> = FusedOps::activations().collect();
    let last = graph.is(id, &activations)?;
    let ops = FusedOps::bias_then(last.op.name)?;
    let sum = graph.only_for(id, 0, &[BIAS, SUM].concat())?;
    let biased = biased(graph, sum)?;
    replacement(graph, biased, Some(sum), id, ops)
}

/// A bias behind a GEMM or a convolution.
pub(super) fn with_bias(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    graph.is(id, &[BIAS, SUM].concat())?;
    replacement(graph, biased(graph, id)?, None, id, FusedOps::BIAS)
}

/// The GEMM or convolution that this node adds a bias to, and the bias.
fn biased(graph: &Rewriter<'_>, sum: NodeId) -> Option<(NodeId, OutputId)> {
    let node = graph.node(sum)?;
    let sides: &[[usize; 2]] = match BIAS.contains(&node.op.name) {
        true => &[[0, 1]],
        false => &[[0, 1], [1, 0]],
    };
    sides.iter().find_map(|&[gemm, bias]| {
        let producer = graph.only_for(sum, gemm, PRODUCERS)?;
        let (made, bias) = (graph.node(producer)?, node.inputs[bias]);
        let fact = &made.outputs[0];
        let dims = fact.shape.to_dims()?;
        let format = DataFormat::of(&made.attrs);
        let channel = match made.op.name {
            "Conv2D" => format.channel(4),
            _ => 1,
        };
        let along = match node.op.name {
            // Of a matrix, both formats name the columns.
            "BiasAdd" if dims.len() > 2 => DataFormat::of(&node.attrs).channel(dims.len()),
            _ => dims.len() - 1,
        };
        let fits = along == channel && graph.dims(bias)?[..] == [dims[channel]];
        // What has its dimensions late stays as the graph says it.
        let known = made.inputs.iter().all(|&i| graph.dims(i).is_some());
        (fits && known && DTYPES.contains(&fact.dtype)).then_some((producer, bias))
    })
}

/// A fused node in the place of `last`: of the sum with the bias, or of the activation of that sum.
fn replacement(
    graph: &Rewriter<'_>,
    (producer, bias): (NodeId, OutputId),
    sum: Option<NodeId>,
    last: NodeId,
    ops: FusedOps,
) -> Option<Replacement> {
    let (made, end) = (graph.node(producer)?, graph.node(last)?);
    let op = match made.op.name {
        "Conv2D" => &FUSED_CONV_2D.def,
        _ => &FUSED_MAT_MUL.def,
    };
    let mut attrs = made.attrs.clone();
    attrs.set(FUSED_OPS.name, ops.attr());
    let together = [Some(producer), sum, Some(last)].into_iter().flatten();
    attrs.set(MEMBERS, graph.names(together));
    let mut inputs: SmallVec<_> = made.inputs.clone();
    inputs.push(bias);
    let fused = Node {
        op,
        inputs,
        attrs,
        ..(**end).clone()
    };
    let left_out = sum.into_iter().chain([producer]);
    Some(Replacement::one(last, fused, left_out))
}
