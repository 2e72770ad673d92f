//! Ops on images with attribute `data_format`.

use thalweg_graph::simplify::known;
use thalweg_graph::{Attr, Attrs, GraphData, Node};
use thalweg_tensor::DType;

use super::conversion::{Conversion, NewInput, image_dims, value};
use super::order::{for_last, numbers_like};

/// The images of an op.
struct Images {
    /// The inputs that are images.
    inputs: &'static [usize],
    /// The input with the dimensions of the images that it makes.
    dims: Option<usize>,
    /// `true` if its first output is images.
    makes: bool,
}

fn images(op: &str) -> Option<Images> {
    let (inputs, dims, makes): (&[usize], _, _) = match op {
        "Conv2D"
        | "DepthwiseConv2dNative"
        | "BiasAdd"
        | "MaxPool"
        | "AvgPool"
        | "FusedBatchNorm"
        | "FusedBatchNormV2"
        | "FusedBatchNormV3" => (&[0], None, true),
        "Conv2DBackpropInput" | "DepthwiseConv2dNativeBackpropInput" => (&[2], Some(0), true),
        "Conv2DBackpropFilter" | "DepthwiseConv2dNativeBackpropFilter" => (&[0, 2], None, false),
        "FusedBatchNormGrad" | "FusedBatchNormGradV2" | "FusedBatchNormGradV3" => {
            (&[0, 1], None, true)
        }
        "MaxPoolGrad" => (&[0, 1, 2], None, true),
        "AvgPoolGrad" => (&[1], Some(0), true),
        "BiasAddGrad" => (&[0], None, false),
        _ => return None,
    };
    Some(Images {
        inputs,
        dims,
        makes,
    })
}

/// `true` for a convolution or one of its gradients.
pub(super) fn is_convolution(node: &Node) -> bool {
    let name = node.op.name;
    name.starts_with("Conv2D") || name.starts_with("DepthwiseConv2d")
}

/// Dtypes that tensor cores take from images whose channels come last.
const DTYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

/// `true` for a node of NCHW that is computed in the step.
pub(super) fn is_channels_first(node: &Node) -> bool {
    let format = node.attrs.get("data_format");
    let first = matches!(format, Some(Attr::Str(name)) if name == "NCHW");
    let dtype = node.attrs.dtype("T");
    first && dtype.is_some_and(|d| DTYPES.contains(&d)) && !known(node)
}

/// Lists with a number, or two, for each dimension of the images.
const BY_DIMENSION: [&str; 4] = ["strides", "dilations", "ksize", "explicit_paddings"];

fn attrs_for_last(node: &Node) -> Option<Attrs> {
    let mut attrs = node.attrs.clone();
    attrs.set("data_format", "NHWC".into());
    for name in BY_DIMENSION {
        match node.attrs.get(name) {
            Some(Attr::Ints(list)) if !list.is_empty() => {
                attrs.set(name, Attr::Ints(for_last(list)?));
            }
            _ => {}
        }
    }
    Some(attrs)
}

/// Returns the same op on images in NHWC; `None` for another op, for NHWC, and where dimensions are not known.
pub(super) fn conversion(graph: &GraphData, node: &Node) -> Option<Conversion> {
    let images = images(node.op.name)?;
    let is_first = is_channels_first(node);
    let known_dims = |&i: &usize| image_dims(graph, node.inputs[i]).is_some();
    (is_first && images.inputs.iter().all(known_dims)).then_some(())?;
    let input = |i: usize| match images.dims {
        Some(at) if at == i => {
            let old = value(graph, node.inputs[i])?;
            let numbers = old.to_ints().filter(|n| n.len() == 4)?;
            let numbers = numbers_like(old, &for_last(&numbers)?)?;
            Some(NewInput::Constant(numbers))
        }
        _ if images.inputs.contains(&i) => Some(NewInput::ChannelsLast),
        _ => Some(NewInput::AsItWas),
    };
    let inputs: Option<_> = (0..node.inputs.len()).map(input).collect();
    Some(Conversion {
        attrs: attrs_for_last(node)?,
        inputs: inputs?,
        images: 0..u32::from(images.makes),
    })
}
