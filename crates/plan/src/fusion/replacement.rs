//! Replacements: the changes that fusion rules propose.

use smallvec::SmallVec;
use thalweg_graph::{Node, NodeId};

/// Nodes that take the places of others, and nodes that are left out for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacement {
    /// The nodes that change: the node whose place each takes, and the new one.
    pub(super) put: SmallVec<[(NodeId, Node); 2]>,
    /// The nodes that nothing uses any more.
    pub(super) left_out: SmallVec<[NodeId; 4]>,
    /// A node that is left out though nodes that stay use it, and the node whose outputs of the same numbers they use from
    /// now on.
    pub(super) redirected: Option<(NodeId, NodeId)>,
}

/// Why a replacement is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A node that is not there.
    Missing(NodeId),
    /// An output that others use would have another dtype or shape.
    Output(NodeId, usize),
    /// An op with an effect would come, go or change.
    Effect(NodeId),
    /// A node would wait for other nodes, or no longer for those that it waits for.
    Controls(NodeId),
    /// An input that is not there, or that comes later.
    Input(NodeId, usize),
    /// A node that is fetched, waited for, or still used would be left out.
    Used(NodeId),
}

impl Replacement {
    /// One node in the place of `last`, for which others are left out.
    pub(super) fn one(
        last: NodeId,
        node: Node,
        left_out: impl IntoIterator<Item = NodeId>,
    ) -> Replacement {
        Replacement {
            put: SmallVec::from_iter([(last, node)]),
            left_out: left_out.into_iter().collect(),
            redirected: None,
        }
    }

    pub(super) fn changes(&self, id: NodeId) -> bool {
        self.put.iter().any(|(put, _)| *put == id) || self.left_out.contains(&id)
    }
}
