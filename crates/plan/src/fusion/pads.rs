//! Fusion of Pad: the zeros that it puts around images become the padding of a fused convolution.

use thalweg_graph::{Attr, Node, NodeId, OutputId};
use thalweg_ops::DataFormat;
use thalweg_ops::fused::{MEMBERS, members};

use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// Convolutions that stand for several nodes already, and so name them.
const FUSED_CONVOLUTIONS: &[&str] = &["_FusedConv2D", "_FusedDepthwiseConv2dNative"];

/// A convolution of images that a Pad has made.
pub(super) fn into_convolution(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let conv = graph.is(id, FUSED_CONVOLUTIONS)?;
    let pad = graph.only_for(id, 0, &["Pad"])?;
    let [images, paddings] = graph.node(pad)?.inputs[..] else {
        return None;
    };
    let is_valid = matches!(conv.attrs.get("padding"), Some(Attr::Str(name)) if name == "VALID");
    let channel = DataFormat::of(&conv.attrs).channel(4);
    let paddings = paddings_of(graph, paddings)?;
    let only_around = [0, channel]
        .iter()
        .all(|&axis| paddings[2 * axis..][..2] == [0, 0]);
    if !is_valid || !only_around || graph.dims(images).is_none() {
        return None;
    }
    let mut attrs = conv.attrs.clone();
    attrs.set("padding", "EXPLICIT".into());
    attrs.set("explicit_paddings", Attr::Ints(paddings));
    let names = members(conv).into_iter().map(String::into_bytes);
    let all = graph.node(pad).map(|pad| pad.name.as_bytes().to_vec());
    attrs.set(MEMBERS, Attr::Strs(all.into_iter().chain(names).collect()));
    let mut inputs = conv.inputs.clone();
    inputs[0] = images;
    let node = Node {
        inputs,
        attrs,
        ..(**conv).clone()
    };
    Some(Replacement::one(id, node, [pad]))
}

/// Numbers of zeros before and behind each axis of images, if they are known.
fn paddings_of(graph: &Rewriter<'_>, paddings: OutputId) -> Option<Vec<i64>> {
    let value = graph.free_value(paddings)?;
    let numbers: Vec<i64> = match value.as_slice::<i32>() {
        Ok(numbers) => numbers.iter().map(|&n| n.into()).collect(),
        Err(_) => value.as_slice::<i64>().ok()?.to_vec(),
    };
    (numbers.len() == 8).then_some(numbers)
}
