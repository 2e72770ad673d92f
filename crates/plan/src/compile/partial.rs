//! Partial runs: steps whose feeds come, and whose fetches go, one by one while they run.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use thalweg_graph::partition::{RECV, REMOTE, SEND};
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Attr, Attrs, Node, NodeId};
use thalweg_tensor::DType;

/// The channel of a client that gives the feeds of a step, and takes its fetches, in pieces: below the
/// numbers of those between tasks.
pub fn client_channel(number: usize) -> i64 {
    -1 - number as i64
}

/// The same step with receives in place of its feeds and sends behind its fetches, through channels with the numbers of
/// [`client_channel`]: first the feeds, which are those of `simplified`, then the fetches. They are placed on device
/// `home`, if it is given, or else with the node that they belong to.
pub fn with_client_channels(simplified: Simplified, home: Option<u32>) -> Simplified {
    let mut graph = simplified.graph.empty();
    let mut devices = simplified.devices;
    let channel = |node: &mut Node, number: usize, dtype: DType| {
        node.attrs.set("T", dtype.into());
        let channel = client_channel(number);
        node.attrs.set("channel", Attr::Int(channel));
        node.attrs.set(REMOTE, Attr::Bool(true));
    };
    let feeds = simplified.feeds.len();
    for (at, mut arc) in simplified.graph.into_nodes().enumerate() {
        let fed = |f: &Option<NodeId>| f.is_some_and(|n| n.index() == at);
        if let Some(number) = simplified.feeds.iter().position(fed) {
            let node = Arc::make_mut(&mut arc);
            let dtype = node.outputs[0].dtype;
            (node.op, node.attrs) = (&RECV, Attrs::default());
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
            op: &SEND,
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
