//! Use counts of the outputs of a graph.

use thalweg_graph::{GraphData, OutputId};

/// Number of uses of each output of a graph.
pub(super) struct Uses {
    starts: Vec<u32>,
    counts: Vec<u32>,
}

impl Uses {
    pub(super) fn new(graph: &GraphData) -> Uses {
        let mut starts = Vec::with_capacity(graph.len());
        let mut outputs = 0;
        for (_, node) in graph.nodes() {
            starts.push(outputs);
            outputs += node.outputs.len() as u32;
        }
        Uses {
            starts,
            counts: vec![0; outputs as usize],
        }
    }

    pub(super) fn at(&self, output: OutputId) -> usize {
        (self.starts[output.node.index()] + output.index) as usize
    }

    pub(super) fn add(&mut self, output: OutputId) {
        let at = self.at(output);
        self.counts[at] += 1;
    }

    pub(super) fn of(&self, output: OutputId) -> u32 {
        self.counts[self.at(output)]
    }
}
