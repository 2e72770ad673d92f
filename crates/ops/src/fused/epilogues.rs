//! What follows a product or a convolution is done before it is stored.

use smallvec::SmallVec;
use thalweg_graph::{Node, NodeId, OutputId};

use super::work::Work;
use super::{FUSED, NODES};
use crate::epilogue::{FUSED_OPS, FusedOps};
use crate::nn::DataFormat;

/// What can be followed, and what it is then.
const PRODUCERS: &[&str] = &["MatMul", "Conv2D"];
/// Adds a bias to its first input.
const BIAS: &[&str] = &["BiasAdd", "BiasAddV1"];
/// Adds two inputs, of which one may be a bias.
const SUM: &[&str] = &["AddV2", "Add"];

/// Puts biases, and what comes right after them, into the products and convolutions before them.
pub(super) fn into_producers(work: &mut Work<'_>) {
    let activations: Vec<_> = FusedOps::activations().collect();
    for id in work.ids() {
        if let Some(last) = work.is(id, &activations)
            && let Some(ops) = FusedOps::bias_then(last.op.name)
            && let Some(sum) = work.only_for(id, 0, &[BIAS, SUM].concat())
            && let Some((producer, bias)) = biased(work, sum)
        {
            put(work, (producer, bias), Some(sum), id, ops);
        }
    }
    for id in work.ids() {
        if work.is(id, &[BIAS, SUM].concat()).is_some()
            && let Some((producer, bias)) = biased(work, id)
        {
            put(work, (producer, bias), None, id, FusedOps::BIAS);
        }
    }
}

/// The product or convolution that this node adds a bias to, and the bias.
fn biased(work: &Work<'_>, sum: NodeId) -> Option<(NodeId, OutputId)> {
    let node = work.node(sum)?;
    let sides: &[[usize; 2]] = match BIAS.contains(&node.op.name) {
        true => &[[0, 1]],
        false => &[[0, 1], [1, 0]],
    };
    sides.iter().find_map(|&[product, bias]| {
        let producer = work.only_for(sum, product, PRODUCERS)?;
        let (made, bias) = (work.node(producer)?, node.inputs[bias]);
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
        let fits = along == channel && work.dims(bias)?[..] == [dims[channel]];
        // What has its dimensions late stays as the graph says it.
        let known = made.inputs.iter().all(|&i| work.dims(i).is_some());
        (fits && known && FUSED.contains(&fact.dtype)).then_some((producer, bias))
    })
}

/// Puts a fused node in the place of `last`: of the sum with the bias, or of the activation of that sum.
fn put(
    work: &mut Work<'_>,
    (producer, bias): (NodeId, OutputId),
    sum: Option<NodeId>,
    last: NodeId,
    ops: FusedOps,
) {
    let (Some(made), Some(end)) = (work.node(producer), work.node(last)) else {
        return;
    };
    let op = match made.op.name {
        "Conv2D" => &crate::nn::FUSED_CONV_2D.def,
        _ => &crate::linalg::FUSED_MAT_MUL.def,
    };
    let mut attrs = made.attrs.clone();
    attrs.set(FUSED_OPS.name, ops.attr());
    let together = [Some(producer), sum, Some(last)].into_iter().flatten();
    attrs.set(NODES, work.names(together));
    let mut inputs: SmallVec<_> = made.inputs.clone();
    inputs.push(bias);
    let fused = Node {
        op,
        inputs,
        attrs,
        ..(**end).clone()
    };
    work.replace(last, fused);
    sum.into_iter().for_each(|sum| work.remove(sum));
    work.remove(producer);
}
