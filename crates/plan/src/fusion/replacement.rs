//! What a fusion rule returns, and what is checked of it.

use smallvec::SmallVec;
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::known;
use thalweg_graph::{Node, NodeId, OutputId};

use super::rewriter::Rewriter;

/// Nodes that take the places of others, and nodes that are left out for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacement {
    /// The nodes that change: whose place each takes, and what stands there from now on.
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

    /// Looks whether the graph means the same afterwards to all nodes that stay: dtypes, shapes, effects and the order.
    ///
    /// # Errors
    /// What would be different.
    pub(super) fn check(&self, graph: &Rewriter<'_>) -> Result<(), Refused> {
        for (id, node) in &self.put {
            self.check_put(graph, *id, node)?;
        }
        for &id in &self.left_out {
            let node = graph.node(id).ok_or(Refused::Missing(id))?;
            if node.op.effect != Effect::Pure {
                return Err(Refused::Effect(id));
            }
            // Users that change are checked by their new inputs.
            let redirected = self.redirected.is_some_and(|(from, _)| from == id);
            let users_change = graph.users(id).iter().all(|&user| self.changes(user));
            if !graph.is_free(id) || !(users_change || redirected) {
                return Err(Refused::Used(id));
            }
        }
        match self.redirected {
            Some((from, to)) => self.check_redirected(graph, from, to),
            None => Ok(()),
        }
    }

    /// Looks whether the users of a node that stay can use the outputs of another one.
    fn check_redirected(
        &self,
        graph: &Rewriter<'_>,
        from: NodeId,
        to: NodeId,
    ) -> Result<(), Refused> {
        if !self.left_out.contains(&from) {
            return Err(Refused::Used(from));
        }
        let put = self.put.iter().find(|(put, _)| *put == to);
        let target = put.map(|(_, node)| node);
        let target = target.or_else(|| graph.node(to).map(|n| &**n));
        let target = target.ok_or(Refused::Missing(to))?;
        let users = graph.users(from).iter().filter(|&&u| !self.changes(u));
        for &user in users {
            let node = graph.node(user).ok_or(Refused::Missing(user))?;
            for (i, input) in node.inputs.iter().enumerate() {
                if input.node != from {
                    continue;
                }
                let same = graph
                    .fact(*input)
                    .zip(target.outputs.get(input.index as usize))
                    .is_some_and(|(a, b)| a.dtype == b.dtype && a.shape == b.shape);
                if !same || to.index() >= user.index() {
                    return Err(Refused::Input(user, i));
                }
            }
        }
        Ok(())
    }

    fn check_put(&self, graph: &Rewriter<'_>, id: NodeId, node: &Node) -> Result<(), Refused> {
        let old = graph.node(id).ok_or(Refused::Missing(id))?;
        if (old.op.effect, node.op.effect) != (Effect::Pure, Effect::Pure) {
            return Err(Refused::Effect(id));
        }
        if old.controls != node.controls {
            return Err(Refused::Controls(id));
        }
        // Where only nodes that change too see the outputs, they may be others.
        let inner = !graph.is_held(id) && graph.users(id).iter().all(|&user| self.changes(user));
        for (i, fact) in old.outputs.iter().enumerate() {
            let same = node
                .outputs
                .get(i)
                .is_some_and(|f| f.dtype == fact.dtype && f.shape == fact.shape);
            let output = OutputId {
                node: id,
                index: i as u32,
            };
            // One that goes may be one that nothing uses.
            if !same && !inner && graph.is_seen(output) {
                return Err(Refused::Output(id, i));
            }
        }
        for (i, input) in node.inputs.iter().enumerate() {
            let put = self.put.iter().find(|(put, _)| *put == input.node);
            let source = match put {
                Some((_, node)) => Some(node),
                None => graph.node(input.node).map(|n| &**n),
            };
            let there = source.is_some_and(|n| (input.index as usize) < n.outputs.len());
            let stays = !self.left_out.contains(&input.node);
            let before = input.node.index() < id.index() || source.is_some_and(known);
            if !(there && stays && before) {
                return Err(Refused::Input(id, i));
            }
        }
        Ok(())
    }
}
