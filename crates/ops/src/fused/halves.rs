//! Of a convolution, only what a max pooling makes of it is stored.

use thalweg_graph::{Attr, Attrs, Node, NodeId};

use super::work::Work;
use super::{FUSED_OPS, NODES};
use crate::nn::DataFormat;

/// What a fused convolution says of a max pooling of two by two pixels.
pub(crate) const POOL: &[u8] = b"MaxPool";

/// Puts max poolings of two by two pixels, which lie side by side from the image's corner on, into the convolutions
/// before them, where nothing else uses those. Where a gradient is computed something does.
pub(super) fn into_convolutions(work: &mut Work<'_>) {
    for id in work.ids() {
        if work.is(id, &["MaxPool"]).is_some()
            && let Some(conv) = work.only_for(id, 0, &["_FusedConv2D"])
            && fits(work, id, conv)
        {
            put(work, conv, id);
        }
    }
}

/// Whether a pooling is one that the convolution before it can do.
fn fits(work: &Work<'_>, pool: NodeId, conv: NodeId) -> bool {
    let (Some(pool), Some(conv)) = (work.node(pool), work.node(conv)) else {
        return false;
    };
    let format = DataFormat::of(&pool.attrs);
    let two = |name| format.pair(&pool.attrs, name).is_ok_and(|p| p == [2, 2]);
    let Some(dims) = conv.outputs[0].shape.to_dims() else {
        return false;
    };
    // Beyond an even number of lines and columns there is nothing to pad.
    let even = format.spatial().iter().all(|&axis| dims[axis] % 2 == 0);
    let pads = match pool.attrs.get("padding") {
        Some(Attr::Str(padding)) if padding == "VALID" => false,
        Some(Attr::Str(padding)) if padding == "SAME" => !even,
        _ => true,
    };
    let halved = match conv.attrs.get(FUSED_OPS.name) {
        Some(Attr::Strs(names)) => names.iter().any(|name| name == POOL),
        _ => false,
    };
    let names = |attrs: &Attrs| DataFormat::of(attrs).name();
    !halved && two("ksize") && two("strides") && !pads && names(&pool.attrs) == names(&conv.attrs)
}

/// Puts a convolution that halves what it stores in the place of the pooling.
fn put(work: &mut Work<'_>, conv: NodeId, pool: NodeId) {
    let (Some(made), Some(end)) = (work.node(conv), work.node(pool)) else {
        return;
    };
    let mut attrs = made.attrs.clone();
    for (name, more) in [(FUSED_OPS.name, POOL), (NODES, end.name.as_bytes())] {
        let mut list = match made.attrs.get(name) {
            Some(Attr::Strs(list)) => list.clone(),
            _ => Vec::new(),
        };
        list.push(more.to_vec());
        attrs.set(name, Attr::Strs(list));
    }
    let fused = Node {
        op: made.op,
        inputs: made.inputs.clone(),
        attrs,
        ..(**end).clone()
    };
    work.replace(pool, fused);
    work.remove(conv);
}
