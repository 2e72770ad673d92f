//! Fusion of a Relu, or a sum and a Relu, into the batch normalization before it, and of the Relu's gradient into that of
//! the normalization.

use smallvec::SmallVec;
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::known;
use thalweg_graph::{Fact, Node, NodeId, OutputId};
use thalweg_ops::fused::{FUSED_BATCH_NORM_EX, FUSED_BATCH_NORM_GRAD_EX, MEMBERS};
use thalweg_tensor::{DType, Shape};

use super::epilogues::BATCH_NORM;
use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// Adds two values.
const SUM: &[&str] = &["AddV2", "Add", "AddN"];

/// A batch normalization whose images a Relu alone uses, or the sum of them with another value whose Relu alone it is for.
struct Found {
    norm: NodeId,
    sum: Option<(NodeId, OutputId)>,
    relu: NodeId,
}

/// A Relu behind a batch normalization, or behind the sum of one and another value of its dimensions.
pub(super) fn with_relu(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    graph.is(id, &["Relu"])?;
    let found = match graph.first_only_for(id, 0, BATCH_NORM) {
        Some(norm) => Found {
            norm,
            sum: None,
            relu: id,
        },
        None => summed(graph, id)?,
    };
    let node = graph.node(found.norm)?;
    // GPUs have a kernel for images of halves too.
    let is_image = |i: &OutputId| *i == node.inputs[0] && graph.cpu(id).is_none();
    let f32 = |i: &OutputId| is_image(i) || graph.fact(*i).is_some_and(|f| f.dtype == DType::F32);
    // A node whose dimensions are known only at run time stays as it is.
    let fits = |i: &OutputId| f32(i) && graph.dims(*i).is_some();
    node.inputs.iter().all(fits).then_some(())?;
    placed(graph, &found)
}

/// The gradient of a batch normalization behind the gradient of a Relu, which the normalization has in its own pass: the
/// values that the Relu has left out are found again. Only GPUs have a kernel for it.
pub(super) fn gradient_with_relu(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let node = graph.is(id, &["FusedBatchNormGradV3"])?;
    let relu = graph.only_for(id, 0, &["ReluGrad"])?;
    let [behind, seen] = graph.node(relu)?.inputs[..] else {
        return None;
    };
    let norm = graph.is(seen.node, &[FUSED_BATCH_NORM_EX.def.name])?;
    let output = |index| OutputId {
        node: seen.node,
        index,
    };
    let fits = seen.index == 0
        && norm.attrs.int("num_side_inputs") == 0
        && norm.attrs.bool("is_training")
        && ["epsilon", "data_format"]
            .iter()
            .all(|a| norm.attrs.get(a) == node.attrs.get(a))
        && norm.inputs[..2] == node.inputs[1..3]
        && node.inputs[3..5] == [output(3), output(4)]
        && graph.is_free(id)
        && graph.together(id, seen.node);
    fits.then_some(())?;
    let mut inputs = node.inputs.clone();
    inputs[0] = behind;
    inputs.push(norm.inputs[2]);
    let mut attrs = node.attrs.clone();
    attrs.set(MEMBERS, graph.names([relu, id].into_iter()));
    let fused = Node {
        op: &FUSED_BATCH_NORM_GRAD_EX.def,
        inputs,
        attrs,
        ..(**node).clone()
    };
    Some(Replacement::one(id, fused, [relu]))
}

/// The sum that this Relu is of, where it is of a batch normalization and another value. Of two normalizations the later
/// one is taken: the other is there by then.
fn summed(graph: &Rewriter<'_>, relu: NodeId) -> Option<Found> {
    let sum = graph.only_for(relu, 0, SUM)?;
    let [a, b] = graph.node(sum)?.inputs[..] else {
        return None;
    };
    let dims = graph.dims(a)?;
    if graph.dims(b)? != dims {
        return None;
    }
    let norms = [(0, b), (1, a)].into_iter().filter_map(|(i, side)| {
        let norm = graph.first_only_for(sum, i, BATCH_NORM)?;
        Some((norm, side))
    });
    let (norm, side) = norms.max_by_key(|(norm, _)| norm.index())?;
    Some(Found {
        norm,
        sum: Some((sum, side)),
        relu,
    })
}

/// The fused node takes the place of the normalization, so that users of its moments stay behind it. Where the other
/// value comes later, or the Relu has to stay where it is, it takes that of the Relu, if all uses of the moments come
/// later. Either way no more memory is taken: a value that is kept for longer, or made earlier, is as large as the one
/// that is not made at all. A variable's value is not kept for longer: an update between would have to copy it.
fn placed(graph: &Rewriter<'_>, found: &Found) -> Option<Replacement> {
    let &Found { norm, sum, relu } = found;
    let there =
        |o: OutputId| o.node.index() < norm.index() || graph.node(o.node).is_some_and(|n| known(n));
    let early = graph.is_free(relu) && sum.is_none_or(|(_, side)| there(side));
    let read = graph.node(graph.node(norm)?.inputs[0].node)?.op.effect == Effect::Read;
    if !early && read {
        return None;
    }
    let (place, gone) = if early { (norm, relu) } else { (relu, norm) };
    let between = sum.map(|(sum, _)| sum);
    let replacement = Replacement {
        left_out: between.into_iter().chain([gone]).collect(),
        put: SmallVec::from_iter([(place, fused(graph, found, place)?)]),
        redirected: Some((gone, place)),
    };
    let users = graph.users(gone).iter();
    let mut staying = users.filter(|&&user| !replacement.changes(user));
    let behind = staying.all(|user| user.index() > place.index());
    behind.then_some(replacement)
}

/// Returns the node that computes all of it, in the place of one of them.
fn fused(graph: &Rewriter<'_>, found: &Found, place: NodeId) -> Option<Node> {
    let &Found { norm, sum, relu } = found;
    let node = graph.node(norm)?;
    let mut attrs = node.attrs.clone();
    attrs.set("U", DType::F32.into());
    attrs.set("num_side_inputs", i64::from(sum.is_some()).into());
    attrs.set("activation_mode", "Relu".into());
    let together = [norm].into_iter().chain(sum.map(|(sum, _)| sum));
    attrs.set(MEMBERS, graph.names(together.chain([relu])));
    let mut inputs = node.inputs.clone();
    inputs.extend(sum.map(|(_, side)| side));
    let mut outputs = node.outputs.clone();
    // The op has the outputs of the newest version.
    if outputs.len() == 5 {
        outputs.push(Fact {
            shape: Shape::scalar(),
            value: None,
            ..outputs[4].clone()
        });
    }
    Some(Node {
        op: &FUSED_BATCH_NORM_EX.def,
        inputs,
        attrs,
        outputs,
        ..(**graph.node(place)?).clone()
    })
}
