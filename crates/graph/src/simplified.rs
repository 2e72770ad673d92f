//! `Simplified`: the result of simplification.

use crate::data::GraphData;
use crate::node::{NodeId, OutputId};

/// A graph to run, and the nodes for the feeds, fetches and targets.
#[derive(Debug)]
pub struct Simplified {
    /// The graph. Its nodes' numbers ascend along edges.
    pub graph: GraphData,
    /// By feed: its node; `None` if no fetch needs it.
    pub feeds: Vec<Option<NodeId>>,
    /// By fetch: the output that holds its value.
    pub fetches: Vec<OutputId>,
    /// By target: its node.
    pub targets: Vec<NodeId>,
    /// By node: the number of its device.
    pub devices: Vec<u32>,
}
