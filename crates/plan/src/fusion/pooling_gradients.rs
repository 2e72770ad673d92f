//! Gradients of max poolings: computations move to the pooled images where they can.

use smallvec::smallvec;
use thalweg_graph::{Attr, Fact, Node, NodeId, OutputId};

use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// `ReluGrad(MaxPoolGrad(x, y, dy), x)` is `MaxPoolGrad(x, y, ReluGrad(dy, y))`: the pixel that gets a window's
/// gradient is as large as the pooled one, so that the sign can be taken from the pooled images, which are smaller.
pub(super) fn relu_before_pooling(graph: &Rewriter<'_>, last: NodeId) -> Option<Replacement> {
    let relu = graph.is(last, &["ReluGrad"])?;
    let first = graph.only_for(last, 0, &["MaxPoolGrad"])?;
    let pool = graph.node(first)?;
    let [image, pooled, grad] = pool.inputs[..] else {
        return None;
    };
    let of_pool = is_gradient_of(graph, pooled.node, pool);
    if relu.inputs[1] != image || !of_pool || !relu.controls.is_empty() {
        return None;
    }
    let of_pooled = Node {
        inputs: smallvec![grad, pooled],
        outputs: smallvec![as_of(&pool.outputs[0], graph.fact(grad))],
        ..(**relu).clone()
    };
    let after = OutputId {
        node: first,
        index: 0,
    };
    let of_image = Node {
        inputs: smallvec![image, pooled, after],
        ..(**pool).clone()
    };
    Some(Replacement {
        put: smallvec![(first, of_pooled), (last, of_image)],
        ..Replacement::default()
    })
}

/// The sum of each channel of a pooling's gradient is that of the gradient that it got: each number went to one pixel.
/// It is the one rule that changes the order of a sum.
pub(super) fn sum_before_pooling(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let sum = graph.is(id, &["BiasAddGrad"])?;
    let before = sum.inputs[0].node;
    let pool = graph.is(before, &["MaxPoolGrad"])?;
    let alike = sum.attrs.get("data_format") == pool.attrs.get("data_format");
    if !alike || !pool.outputs[0].dtype.is_float() {
        return None;
    }
    let node = Node {
        inputs: smallvec![pool.inputs[2]],
        ..(**sum).clone()
    };
    let unused = graph.users(before) == [id] && graph.is_free(before);
    Some(Replacement::one(id, node, unused.then_some(before)))
}

/// A fact with the shape of another one.
pub(super) fn as_of(fact: &Fact, shape: Option<&Fact>) -> Fact {
    let mut fact = fact.clone();
    if let Some(of) = shape {
        fact.shape = of.shape.clone();
    }
    fact.value = None;
    fact
}

/// The attributes that say how windows lie.
const WINDOWS: [&str; 5] = [
    "ksize",
    "strides",
    "padding",
    "explicit_paddings",
    "data_format",
];

/// `true` if a `MaxPoolGrad` is the gradient of the `MaxPool` of this number: of the same images and windows, and with
/// dimensions that are known.
pub(super) fn is_gradient_of(graph: &Rewriter<'_>, pool: NodeId, grad: &Node) -> bool {
    let own = OutputId {
        node: pool,
        index: 0,
    };
    let [image, pooled, of_pooled] = grad.inputs[..] else {
        return false;
    };
    let Some(node) = graph.is(pool, &["MaxPool"]) else {
        return false;
    };
    // A list that is not there is empty.
    let of = |node: &Node, name| match node.attrs.get(name) {
        Some(Attr::Ints(list)) if list.is_empty() => None,
        value => value.cloned(),
    };
    let alike = WINDOWS.iter().all(|name| of(node, name) == of(grad, name));
    let dims = graph.dims(own).filter(|_| graph.dims(image).is_some());
    let known = dims.is_some() && dims == graph.dims(of_pooled);
    alike && known && node.inputs[..] == [image] && pooled == own
}
