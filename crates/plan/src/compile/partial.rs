//! Steps whose feeds come, and whose fetches go, one by one while they run.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use thalweg_graph::partition::Ends;
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Attr, Attrs, Node, NodeId};
use thalweg_tensor::DType;

use crate::task_ends::client_channel;

/// The same step with receives in place of its feeds and sends behind its fetches, through channels with
/// the numbers of [`client_channel`]: first the feeds, which are had of `simplified`, then the fetches.
/// They stand on device `home`, if it is given, or else where what they belong to does.
pub fn in_pieces(simplified: Simplified, ends: Ends, home: Option<u32>) -> Simplified {
    let mut graph = simplified.graph.empty();
    let mut devices = simplified.devices;
    let channel = |node: &mut Node, number: usize, dtype: DType| {
        node.attrs.set("T", dtype.into());
        let channel = client_channel(number);
        node.attrs.set("channel", Attr::Int(channel));
    };
    let feeds = simplified.feeds.len();
    for (at, mut arc) in simplified.graph.into_nodes().enumerate() {
        let fed = |f: &Option<NodeId>| f.is_some_and(|n| n.index() == at);
        if let Some(number) = simplified.feeds.iter().position(fed) {
            let node = Arc::make_mut(&mut arc);
            let dtype = node.outputs[0].dtype;
            (node.op, node.attrs) = (ends.recv, Attrs::default());
            channel(node, number, dtype);
            devices[at] = home.unwrap_or(devices[at]);
        }
        graph.push(arc);
    }
    for (number, &output) in simplified.fetches.iter().enumerate() {
        let source = graph.node(output.node);
        let dtype = source.outputs[output.index as usize].dtype;
        let mut node = Node {
            name: format!("{}/_fetch_{number}", source.name),
            op: ends.send,
            inputs: smallvec![output],
            controls: SmallVec::new(),
            attrs: Attrs::default(),
            device: source.device.clone(),
            colocation: SmallVec::new(),
            outputs: SmallVec::new(),
            origin: source.origin.clone(),
        };
        node.attrs.set("N", Attr::Int(1));
        channel(&mut node, feeds + number, dtype);
        devices.push(home.unwrap_or(devices[output.node.index()]));
        graph.push(node);
    }
    Simplified {
        graph,
        feeds: Vec::new(),
        fetches: Vec::new(),
        targets: Vec::new(),
        devices,
    }
}
