//! What nodes were measured to cost, for a placement that makes steps short.

use std::collections::HashMap;

use thalweg_graph::place::Link;

use crate::trace::Trace;

/// Measured costs: with them a session places nodes that ask for nothing so that a step is short.
#[derive(Clone, Debug)]
pub struct StepCosts {
    /// By node's name: nanoseconds.
    nodes: HashMap<String, u64>,
    link: Link,
}

impl StepCosts {
    /// From the trace of a step, run on one device, say, and what it takes to get a value from one
    /// device to another.
    pub fn new(trace: &Trace, link: Link) -> StepCosts {
        let mut nodes = HashMap::new();
        for event in &trace.events {
            let nanoseconds = (event.duration_us * 1e3) as u64;
            // What each of several nodes took that were computed together is not known: they share it.
            let share = nanoseconds / event.members.len().max(1) as u64;
            for member in &event.members {
                nodes.insert(member.clone(), share);
            }
            if event.members.is_empty() {
                nodes.insert(event.node.clone(), nanoseconds);
            }
        }
        StepCosts { nodes, link }
    }

    /// The nanoseconds of a node; none for one that was not measured, as it costs next to nothing.
    pub(crate) fn node(&self, name: &str) -> u64 {
        self.nodes.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn link(&self) -> Link {
        self.link
    }
}
