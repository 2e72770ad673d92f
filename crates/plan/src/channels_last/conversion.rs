//! A node of NHWC that stands for one of NCHW.

use std::ops::Range;

use smallvec::SmallVec;
use thalweg_graph::simplify::known;
use thalweg_graph::{Attrs, GraphData, Node, OutputId};
use thalweg_tensor::{Dims, Tensor};

/// An input of the new node.
pub(super) enum NewInput {
    /// The value of the old node's input.
    AsItWas,
    /// The same images in NHWC.
    ChannelsLast,
    /// A number for each channel, of dimensions `[channels, 1, 1]`, as a row.
    Row,
    /// Numbers for the dimensions of NHWC.
    Constant(Tensor),
}

/// The changes to a node. Outputs that are no images stay as they were.
pub(super) struct Conversion {
    pub(super) attrs: Attrs,
    pub(super) inputs: SmallVec<[NewInput; 4]>,
    /// The outputs that are images.
    pub(super) images: Range<u32>,
}

impl Conversion {
    /// A node with the same attributes and inputs of its own, whose first output is images.
    pub(super) fn of_images(node: &Node, inputs: Option<SmallVec<[NewInput; 4]>>) -> Option<Self> {
        Some(Conversion {
            attrs: node.attrs.clone(),
            inputs: inputs?,
            images: 0..1,
        })
    }
}

/// The dimensions of a value with four of them, all known.
pub(super) fn image_dims(graph: &GraphData, of: OutputId) -> Option<Dims> {
    let dims = graph.fact(of)?.shape.to_dims()?;
    (dims.len() == 4).then_some(dims)
}

/// A value that is known before the step, of a node that waits for no other: the node that reads it may have another
/// constant in its place.
pub(super) fn value(graph: &GraphData, of: OutputId) -> Option<&Tensor> {
    let node = graph.node(of.node);
    let is_free = node.controls.is_empty() && known(node);
    graph.fact(of).filter(|_| is_free)?.value.as_ref()
}
