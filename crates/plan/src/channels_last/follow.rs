//! Ops that follow their inputs into NHWC.

use smallvec::SmallVec;
use thalweg_graph::{Attr, GraphData, Node, NodeId, OutputId};

use super::conversion::{Conversion, NewInput, image_dims, value};
use super::order::{dimension, for_last, keeps_order, numbers_like};

/// Elementwise ops.
#[rustfmt::skip]
const ELEMENTWISE: &[&str] = &[
    "Abs", "Add", "AddN", "AddV2", "Cast", "Div", "Elu", "EluGrad", "Exp", "Identity", "LeakyRelu", "LeakyReluGrad", "Log",
    "Maximum", "Minimum", "Mul", "Neg", "Pow", "RealDiv", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Rsqrt", "RsqrtGrad",
    "Selu", "SeluGrad", "Sigmoid", "SigmoidGrad", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt", "SqrtGrad",
    "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad",
];

/// Returns the same op on inputs in NHWC; `None` for one that has to stay as it is.
pub(super) fn conversion(graph: &GraphData, id: NodeId, node: &Node) -> Option<Conversion> {
    match node.op.name {
        name if ELEMENTWISE.contains(&name) => elementwise(graph, id, node),
        "Pad" | "PadV2" | "MirrorPad" => by_dimension(graph, node, &[1]),
        "Slice" => by_dimension(graph, node, &[1, 2]),
        "ConcatV2" => along_dimension(graph, node, node.inputs.len() - 1),
        "Split" => along_dimension(graph, node, 0),
        "SplitV" => along_dimension(graph, node, 2),
        "Sum" | "Mean" | "Max" | "Min" | "Prod" => reduction(graph, node),
        _ => None,
    }
}

/// An operand of fewer dimensions than the images has to be one number, or one for each channel.
fn elementwise(graph: &GraphData, id: NodeId, node: &Node) -> Option<Conversion> {
    image_dims(graph, OutputId { node: id, index: 0 })?;
    let input = |&input: &OutputId| {
        let dims = graph.fact(input)?.shape.to_dims()?;
        match dims[..] {
            [_, _, _, _] => Some(NewInput::ChannelsLast),
            _ if dims.iter().all(|&d| d == 1) => Some(NewInput::AsItWas),
            [_, 1, 1] => Some(NewInput::Row),
            _ => None,
        }
    };
    Conversion::of_images(node, node.inputs.iter().map(input).collect())
}

/// Numbers for each dimension are among the inputs.
fn by_dimension(graph: &GraphData, node: &Node, numbers: &[usize]) -> Option<Conversion> {
    let input = |i: usize| match i {
        0 => image_dims(graph, node.inputs[0]).map(|_| NewInput::ChannelsLast),
        _ if numbers.contains(&i) => {
            let old = value(graph, node.inputs[i])?;
            let new = numbers_like(old, &for_last(&old.to_ints()?)?)?;
            Some(NewInput::Constant(new))
        }
        _ => Some(NewInput::AsItWas),
    };
    Conversion::of_images(node, (0..node.inputs.len()).map(input).collect())
}

/// One input is the number of a dimension, along which images are joined or cut.
fn along_dimension(graph: &GraphData, node: &Node, axis: usize) -> Option<Conversion> {
    let old = value(graph, node.inputs[axis])?;
    let [of] = old.to_ints()?[..] else {
        return None;
    };
    let new = numbers_like(old, &[dimension(of)?])?;
    let input = |i: usize| match image_dims(graph, node.inputs[i]) {
        _ if i == axis => Some(NewInput::Constant(new.clone())),
        Some(_) => Some(NewInput::ChannelsLast),
        // The sizes of parts.
        None => node.is_host_input(i).then_some(NewInput::AsItWas),
    };
    let inputs = (0..node.inputs.len()).map(input).collect();
    Some(Conversion {
        images: 0..node.outputs.len() as u32,
        ..Conversion::of_images(node, inputs)?
    })
}

/// Input 1 has the numbers of the dimensions that are left out, or kept with length 1.
fn reduction(graph: &GraphData, node: &Node) -> Option<Conversion> {
    let [images, axes] = node.inputs[..] else {
        return None;
    };
    image_dims(graph, images)?;
    let old = value(graph, axes)?;
    let numbers: Option<Vec<i64>> = old.to_ints()?.into_iter().map(dimension).collect();
    let keeps_dims = matches!(node.attrs.get("keep_dims"), Some(Attr::Bool(true)));
    let numbers = numbers.filter(|n| keeps_dims || keeps_order(n))?;
    let axes = NewInput::Constant(numbers_like(old, &numbers)?);
    let inputs = SmallVec::from_iter([NewInput::ChannelsLast, axes]);
    Some(Conversion {
        images: 0..u32::from(keeps_dims),
        ..Conversion::of_images(node, Some(inputs))?
    })
}
