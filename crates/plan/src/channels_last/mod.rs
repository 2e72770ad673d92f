//! Channels last on GPUs: the images of convolutions move from NCHW to NHWC.
//!
//! cuDNN's fastest engines of half precision read images whose channels come last, and bring others into that order before
//! each convolution and back after it. This pass keeps the images between convolutions in that order. An op with attribute
//! `data_format` gets NHWC; elementwise ops, concatenations and the like follow their inputs; a Transpose stands only where
//! another op makes or needs the order of the user's graph. The graph stays as it is where these Transposes, less those of
//! the user's that they replace, would move more than half of the bytes of the convolutions' images. An input that waits for
//! other nodes is never replaced by a constant, although its value is known.

mod conversion;
mod converter;
mod follow;
mod image_ops;
mod order;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Node, NodeId};

use crate::request::PlanContext;
use converter::Converter;

/// Returns the graph with the images of convolutions on GPUs in NHWC, where that pays.
pub(crate) fn with_channels_last(simplified: Simplified, context: PlanContext<'_>) -> Simplified {
    let on_gpu = |id: NodeId| {
        let device = context.devices.get(simplified.devices[id.index()] as usize);
        device.is_some_and(|d| d.gpu().is_some())
    };
    let is_first = |(id, node): (NodeId, &Arc<Node>)| {
        on_gpu(id) && image_ops::is_convolution(node) && image_ops::is_channels_first(node)
    };
    if !simplified.graph.nodes().any(is_first) {
        return simplified;
    }
    let converted = Converter::new(&simplified, context).run(&on_gpu);
    converted.unwrap_or(simplified)
}
