//! The parts of a step, one for each task that takes part.

use thalweg_graph::{GraphData, NodeId, OutputId};

/// The part of a step that one task runs.
#[derive(Clone, Debug)]
pub struct TaskPart {
    /// The number of the task.
    pub task: u32,
    /// Its nodes, in the order of the step.
    pub graph: GraphData,
    /// By node: the number of its device among all of the cluster.
    pub devices: Vec<u32>,
    /// The feeds that it uses: their numbers in the step, and their nodes here.
    pub feeds: Vec<(usize, NodeId)>,
    /// Its fetches: their numbers in the step, and their outputs here.
    pub fetches: Vec<(usize, OutputId)>,
    /// `true` if every value has memory of its own: the feeds come while the step runs, and a value that is waited for
    /// must not wait for memory that only a later one frees.
    pub separate_memory: bool,
}

/// An edge between two tasks; its number is the `channel` of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskChannel {
    /// The task that sends.
    pub from: u32,
    /// The task that receives.
    pub to: u32,
}

/// A step in parts.
#[derive(Clone, Debug)]
pub struct TaskPartition {
    /// By task that takes part.
    pub parts: Vec<TaskPart>,
    /// By number.
    pub channels: Vec<TaskChannel>,
}
