//! Max poolings that store the argmax of each window for their gradient.

use smallvec::{SmallVec, smallvec};
use thalweg_graph::{Attr, Fact, Node, NodeId, OutputId};
use thalweg_ops::fused::{MAX_POOL_GRAD_STORED_ARGMAX, MAX_POOL_STORE_ARGMAX};
use thalweg_tensor::DType;

use super::pooling_gradients::{as_of, is_gradient_of};
use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// A max pooling whose gradient is computed in the same step stores the argmax of each window, and the gradient reads it.
pub(super) fn stored(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let pool = graph.is(id, &["MaxPool"])?;
    let of_own = |user: &&NodeId| {
        let grad = graph.is(**user, &["MaxPoolGrad"]);
        grad.is_some_and(|g| is_gradient_of(graph, id, g) && graph.together(id, **user))
    };
    let mut grads: Vec<NodeId> = graph.users(id).iter().filter(of_own).copied().collect();
    grads.dedup();
    let window = match pool.attrs.get("ksize") {
        Some(Attr::Ints(window)) => window.iter().product::<i64>(),
        _ => return None,
    };
    let fits = (1..=i64::from(u8::MAX) + 1).contains(&window);
    if grads.is_empty() || !fits || !pool.outputs[0].dtype.is_float() {
        return None;
    }
    let which = Fact {
        dtype: DType::U8,
        ..as_of(&pool.outputs[0], None)
    };
    let storing = Node {
        op: &MAX_POOL_STORE_ARGMAX.def,
        outputs: smallvec![pool.outputs[0].clone(), which],
        ..(**pool).clone()
    };
    let which = OutputId { node: id, index: 1 };
    let reading = grads.into_iter().filter_map(|grad| {
        let node = graph.node(grad)?;
        let by_argmax = Node {
            op: &MAX_POOL_GRAD_STORED_ARGMAX.def,
            inputs: smallvec![node.inputs[2], which],
            ..(**node).clone()
        };
        Some((grad, by_argmax))
    });
    let mut put: SmallVec<_> = smallvec![(id, storing)];
    put.extend(reading);
    Some(Replacement {
        put,
        ..Replacement::default()
    })
}
