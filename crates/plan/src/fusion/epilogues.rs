//! Fusion of epilogues: bias and batch normalization behind a GEMM or a convolution.

use smallvec::SmallVec;
use thalweg_graph::{Node, NodeId, OutputId};

use thalweg_ops::DataFormat;
use thalweg_ops::fused::{
    DTYPES, FUSED_CONV_2D, FUSED_DEPTHWISE_CONV_2D, FUSED_MAT_MUL, FusedOps, MEMBERS,
};
use thalweg_tensor::DType;

use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// Convolutions that can have an epilogue.
const CONVOLUTIONS: &[&str] = &["Conv2D", "DepthwiseConv2dNative"];
/// Ops that can have an epilogue.
const PRODUCERS: &[&str] = &["MatMul", "Conv2D", "DepthwiseConv2dNative"];
/// Adds a bias to its first input.
const BIAS: &[&str] = &["BiasAdd", "BiasAddV1"];
/// Adds two inputs, of which one may be a bias.
pub(super) const SUM: &[&str] = &["AddV2", "Add"];

/// Normalizes each channel of its first input.
pub(super) const BATCH_NORM: &[&str] = &["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"];

/// A bias behind a GEMM or a convolution.
pub(super) fn with_bias(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    graph.is(id, &[BIAS, SUM].concat())?;
    let (producer, bias) = biased(graph, id)?;
    replacement(graph, producer, &[bias], &[id], FusedOps::BIAS)
}

/// A batch normalization behind a convolution.
pub(super) fn with_batch_norm(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    graph.is(id, BATCH_NORM)?;
    let found = normalized(graph, id)?;
    let followers: SmallVec<[NodeId; 3]> = found.sum.into_iter().chain([id]).collect();
    replacement(graph, found.conv, &found.args, &followers, found.ops)
}

/// A convolution before a batch normalization, perhaps with a bias between them.
struct Normalized {
    conv: NodeId,
    sum: Option<NodeId>,
    /// The bias, and the parameters of the normalization.
    args: SmallVec<[OutputId; 5]>,
    ops: FusedOps,
}

/// Returns the convolution whose channels this batch normalization moves by a given mean and variance, where only its
/// images are used.
fn normalized(graph: &Rewriter<'_>, norm: NodeId) -> Option<Normalized> {
    let node = graph.node(norm)?;
    let sum = graph.only_for(norm, 0, &[BIAS, SUM].concat());
    let (conv, bias) = match sum {
        Some(sum) => biased(graph, sum).map(|(conv, bias)| (conv, Some(bias)))?,
        None => (graph.only_for(norm, 0, CONVOLUTIONS)?, None),
    };
    let made = graph.is(conv, CONVOLUTIONS)?;
    let channel = DataFormat::of(&made.attrs).channel(4);
    let channels = *graph.dims(node.inputs[0])?.get(channel)?;
    let alike = DataFormat::of(&node.attrs).channel(4) == channel;
    let of_channels = |&i: &OutputId| graph.dims(i).is_some_and(|d| d[..] == [channels]);
    let f32 = |&i: &OutputId| graph.fact(i).is_some_and(|f| f.dtype == DType::F32);
    let fits = node.inputs[1..].iter().all(of_channels) && node.inputs.iter().all(f32);
    let others = 1..node.outputs.len() as u32;
    let unused = !others
        .into_iter()
        .any(|index| graph.is_seen(OutputId { node: norm, index }));
    // A node whose dimensions are known only at run time stays as it is.
    let known = made.inputs.iter().all(|&i| graph.dims(i).is_some());
    let fused = !node.attrs.bool("is_training") && alike && fits && unused && known;
    let ops = match bias {
        Some(_) => FusedOps::BIAS,
        None => FusedOps::NONE,
    };
    fused.then(|| Normalized {
        conv,
        sum,
        args: bias
            .into_iter()
            .chain(node.inputs[1..].iter().copied())
            .collect(),
        ops: ops.batch_norm(node.attrs.float("epsilon")),
    })
}

/// Returns the GEMM or convolution that this node adds a bias to, and the bias.
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
        let channel = match CONVOLUTIONS.contains(&made.op.name) {
            true => format.channel(4),
            false => 1,
        };
        let along = match node.op.name {
            // Of a matrix, both formats name the columns.
            "BiasAdd" if dims.len() > 2 => DataFormat::of(&node.attrs).channel(dims.len()),
            _ => dims.len() - 1,
        };
        let fits = along == channel && graph.dims(bias)?[..] == [dims[channel]];
        // A node whose dimensions are known only at run time stays as it is.
        let known = made.inputs.iter().all(|&i| graph.dims(i).is_some());
        (fits && known && DTYPES.contains(&fact.dtype)).then_some((producer, bias))
    })
}

/// Returns a fused node in the place of the last of the nodes that follow `producer`, of which others give their output
/// to the next one alone. `args` are their other inputs.
fn replacement(
    graph: &Rewriter<'_>,
    producer: NodeId,
    args: &[OutputId],
    followers: &[NodeId],
    ops: FusedOps,
) -> Option<Replacement> {
    let (&last, between) = followers.split_last()?;
    let (made, end) = (graph.node(producer)?, graph.node(last)?);
    let op = match made.op.name {
        "Conv2D" => &FUSED_CONV_2D.def,
        "DepthwiseConv2dNative" => &FUSED_DEPTHWISE_CONV_2D.def,
        _ => &FUSED_MAT_MUL.def,
    };
    let mut attrs = made.attrs.clone();
    ops.write(&mut attrs);
    let together = [producer].into_iter().chain(followers.iter().copied());
    attrs.set(MEMBERS, graph.names(together));
    let mut inputs: SmallVec<_> = made.inputs.clone();
    inputs.extend(args.iter().copied());
    let fused = Node {
        op,
        inputs,
        attrs,
        // A batch normalization has other outputs, which nothing uses.
        outputs: end.outputs[..1].into(),
        ..(**end).clone()
    };
    let left_out = between.iter().copied().chain([producer]);
    Some(Replacement::one(last, fused, left_out))
}
