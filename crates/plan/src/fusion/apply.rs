//! Checks a replacement and applies it to the graph.

use thalweg_graph::op::Effect;
use thalweg_graph::simplify::known;
use thalweg_graph::{Node, NodeId, OutputId};

use super::replacement::{Refused, Replacement};
use super::rewriter::Rewriter;

impl Rewriter<'_> {
    /// Changes the graph as a rule proposes, if nodes that stay mean the same afterwards.
    pub(super) fn apply(&mut self, replacement: Replacement) {
        let checked = replacement.check(self);
        debug_assert_eq!(checked, Ok(()), "{replacement:?}");
        if checked.is_ok() {
            for (id, node) in replacement.put {
                self.replace(id, node);
            }
            if let Some((from, to)) = replacement.redirected {
                self.redirect(from, to);
            }
            // Each is used by those behind it.
            let mut left_out = replacement.left_out;
            left_out.sort_unstable();
            left_out.into_iter().rev().for_each(|id| self.remove(id));
        }
    }
}

impl Replacement {
    /// Checks that the graph means the same afterwards to all nodes that stay: dtypes, shapes, effects and the order.
    ///
    /// # Errors
    /// The first difference.
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

    /// Checks that the users of a node that stay can use the outputs of another one.
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
