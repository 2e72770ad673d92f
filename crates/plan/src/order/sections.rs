//! Critical sections of a step: those of one mutex run one after the other, in one order.
//!
//! Reads and updates of a variable have an order in a step. If two sections with such nodes began in any order, the one
//! that holds the mutex could wait for a node of the other one.

use rustc_hash::FxHashMap;
use thalweg_graph::{GraphData, NodeId, OutputId};

/// A critical section.
pub(super) struct Section {
    /// The node that locks the mutex.
    pub(super) lock: NodeId,
    /// The nodes that end the lock.
    pub(super) ends: Vec<NodeId>,
}

/// The sections of each mutex, in the order of `nodes`.
pub(super) fn sections(
    graph: &GraphData,
    nodes: impl Iterator<Item = NodeId>,
) -> Vec<Vec<Section>> {
    let mut all: Vec<Vec<Section>> = Vec::new();
    let mut of: FxHashMap<OutputId, usize> = FxHashMap::default();
    for lock in nodes.filter(|&n| graph.node(n).op.name == "MutexLock") {
        let Some(&mutex) = graph.node(lock).inputs.first() else {
            continue;
        };
        let consumes = |n: &NodeId| graph.node(*n).op.name == "ConsumeMutexLock";
        let ends = graph.consumers(lock).filter(consumes).collect();
        let number = *of.entry(mutex).or_insert(all.len());
        if number == all.len() {
            all.push(Vec::new());
        }
        all[number].push(Section { lock, ends });
    }
    all
}

/// Lets each section wait for the end of the one before it of the same mutex, in the order of a step.
pub(crate) fn order_sections(graph: &mut GraphData, order: &[NodeId]) {
    let place: FxHashMap<NodeId, usize> = order.iter().copied().zip(0..).collect();
    for sections in sections(graph, order.iter().copied()) {
        for pair in sections.windows(2) {
            for &end in &pair[0].ends {
                // A section inside of another one has no order.
                if place.get(&end) < place.get(&pair[1].lock) {
                    graph.wait_for(pair[1].lock, end);
                }
            }
        }
    }
}
