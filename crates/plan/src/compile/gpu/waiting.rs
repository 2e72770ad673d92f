//! Nodes that wait for others, to be launched together.

use smallvec::SmallVec;
use thalweg_device::Operand;
use thalweg_device::gpu::{Launch, Launches};
use thalweg_graph::NodeId;

/// The launches of a node, and the facts that they were made for.
pub(super) struct Work {
    pub(super) launches: Launches,
    pub(super) inputs: SmallVec<[Operand; 4]>,
    pub(super) outputs: SmallVec<[Operand; 2]>,
}

/// A node that waits.
pub(super) struct WaitingNode {
    pub(super) id: NodeId,
    pub(super) work: Work,
    /// The waiting nodes that it depends on.
    pub(super) after: SmallVec<[NodeId; 2]>,
    /// Bytes of its inputs, which are kept for it.
    pub(super) bytes: usize,
}

impl WaitingNode {
    pub(super) fn launch(&self) -> &Launch {
        &self.work.launches.list[0]
    }
}

/// The time at which a node is built.
pub(super) enum Turn {
    /// Later: it waits.
    Later,
    /// Now, with its launches if it has any.
    Now(Option<Work>),
}
