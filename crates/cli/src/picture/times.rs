//! Times of a graph's nodes, from a trace.

use std::collections::HashMap;

use thalweg_graph::{GraphData, NodeId};
use thalweg_session::Trace;

/// Microseconds of nodes by name; empty without a trace.
#[derive(Default)]
pub(crate) struct NodeTimes {
    us: HashMap<String, f64>,
    total: f64,
}

impl NodeTimes {
    pub(crate) fn of_trace(trace: &Trace) -> NodeTimes {
        let mut times = NodeTimes::default();
        for (event, (us, around)) in trace.events.iter().zip(trace.own_times()) {
            // The nodes of a branch are in a graph of their own.
            let event = around.unwrap_or(event);
            // Of nodes that were computed together, the first is the one that takes long: a product, a convolution.
            let node = event.members.first().unwrap_or(&event.node);
            *times.us.entry(node.clone()).or_default() += us;
            times.total += us;
        }
        times
    }

    /// Microseconds of these nodes.
    pub(crate) fn of(&self, data: &GraphData, nodes: &[NodeId]) -> f64 {
        if self.us.is_empty() {
            return 0.0;
        }
        let own = nodes
            .iter()
            .filter_map(|&id| self.us.get(&data.node(id).name));
        own.sum()
    }

    /// Their share of all; `None` without a trace.
    pub(crate) fn share(&self, data: &GraphData, nodes: &[NodeId]) -> Option<f64> {
        (self.total > 0.0).then(|| self.of(data, nodes) / self.total)
    }
}
