//! Max poolings and their gradients in one step.

use smallvec::smallvec;
use thalweg_graph::{Attr, Fact, Node, NodeId, OutputId};
use thalweg_tensor::DType;

use super::work::Work;
use crate::nn::{MAX_POOL_GRAD_WHICH, MAX_POOL_WHICH};

/// `ReluGrad(MaxPoolGrad(x, y, dy), x)` is `MaxPoolGrad(x, y, ReluGrad(dy, y))`: what a window gives its gradient to is as
/// large as what it was pooled to, so that the sign can be looked at there, where there is less of it.
pub(super) fn gradients_before_pools(work: &mut Work<'_>) {
    for last in work.ids() {
        let Some(relu) = work.is(last, &["ReluGrad"]).cloned() else {
            continue;
        };
        let Some(first) = work.only_for(last, 0, &["MaxPoolGrad"]) else {
            continue;
        };
        let Some(pool) = work.node(first).cloned() else {
            continue;
        };
        let [image, pooled, grad] = pool.inputs[..] else {
            continue;
        };
        let of_pool = is_gradient_of(work, pooled.node, &pool);
        if relu.inputs[1] != image || !of_pool || !relu.controls.is_empty() {
            continue;
        }
        let of_pooled = Node {
            inputs: smallvec![grad, pooled],
            outputs: smallvec![as_of(&pool.outputs[0], work.fact(grad))],
            ..(*relu).clone()
        };
        let after = OutputId {
            node: first,
            index: 0,
        };
        let of_image = Node {
            inputs: smallvec![image, pooled, after],
            ..(*pool).clone()
        };
        work.replace(first, of_pooled);
        work.replace(last, of_image);
    }
}

/// A fact with the shape of another one.
fn as_of(fact: &Fact, shape: Option<&Fact>) -> Fact {
    let mut fact = fact.clone();
    if let Some(of) = shape {
        fact.shape = of.shape.clone();
    }
    fact.value = None;
    fact
}

/// What says how windows lie.
const WINDOWS: [&str; 5] = [
    "ksize",
    "strides",
    "padding",
    "explicit_paddings",
    "data_format",
];

/// Whether a `MaxPoolGrad` is the gradient of the `MaxPool` of this number: of the same images and windows, and with
/// dimensions that are known.
fn is_gradient_of(work: &Work<'_>, pool: NodeId, grad: &Node) -> bool {
    let own = OutputId {
        node: pool,
        index: 0,
    };
    let [image, pooled, of_pooled] = grad.inputs[..] else {
        return false;
    };
    let Some(node) = work.is(pool, &["MaxPool"]) else {
        return false;
    };
    // A list that is not there is empty.
    let of = |node: &Node, name| match node.attrs.get(name) {
        Some(Attr::Ints(list)) if list.is_empty() => None,
        value => value.cloned(),
    };
    let alike = WINDOWS.iter().all(|name| of(node, name) == of(grad, name));
    let dims = work.dims(own).filter(|_| work.dims(image).is_some());
    let known = dims.is_some() && dims == work.dims(of_pooled);
    alike && known && node.inputs[..] == [image] && pooled == own
}

/// The sum of each channel of the gradient of a pooling is that of what it was given: each number went to one pixel.
pub(super) fn sums_before_pools(work: &mut Work<'_>) {
    for id in work.ids() {
        let Some(sum) = work.is(id, &["BiasAddGrad"]).cloned() else {
            continue;
        };
        let before = sum.inputs[0].node;
        let Some(pool) = work.is(before, &["MaxPoolGrad"]).cloned() else {
            continue;
        };
        let alike = sum.attrs.get("data_format") == pool.attrs.get("data_format");
        if alike && pool.outputs[0].dtype.is_float() {
            let inputs = smallvec![pool.inputs[2]];
            work.replace(
                id,
                Node {
                    inputs,
                    ..(*sum).clone()
                },
            );
            if work.users(before).is_empty() && work.is_free(before) {
                work.remove(before);
            }
        }
    }
}

/// Lets poolings note which pixel of each window is the largest, where their gradient is computed too.
pub(super) fn by_number(work: &mut Work<'_>) {
    for id in work.ids() {
        let Some(pool) = work.is(id, &["MaxPool"]).cloned() else {
            continue;
        };
        let of_own = |user: &&NodeId| {
            let grad = work.is(**user, &["MaxPoolGrad"]);
            grad.is_some_and(|g| is_gradient_of(work, id, g) && work.together(id, **user))
        };
        let mut grads: Vec<NodeId> = work.users(id).iter().filter(of_own).copied().collect();
        grads.dedup();
        let window = match pool.attrs.get("ksize") {
            Some(Attr::Ints(window)) => window.iter().product::<i64>(),
            _ => continue,
        };
        let fits = (1..=i64::from(u8::MAX) + 1).contains(&window);
        if grads.is_empty() || !fits || !pool.outputs[0].dtype.is_float() {
            continue;
        }
        let which = Fact {
            dtype: DType::U8,
            ..as_of(&pool.outputs[0], None)
        };
        for grad in grads {
            let Some(node) = work.node(grad).cloned() else {
                continue;
            };
            let which = OutputId { node: id, index: 1 };
            let by_number = Node {
                op: &MAX_POOL_GRAD_WHICH.def,
                inputs: smallvec![node.inputs[2], which],
                ..(*node).clone()
            };
            work.replace(grad, by_number);
        }
        let noting = Node {
            op: &MAX_POOL_WHICH.def,
            outputs: smallvec![pool.outputs[0].clone(), which],
            ..(*pool).clone()
        };
        work.replace(id, noting);
    }
}
