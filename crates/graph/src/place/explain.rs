//! Why nodes are where they are, and whether they may be there.

use super::assign::Placer;
use super::error::{PlaceError, PlaceReason};
use super::placement::{Placement, Why};
use crate::node::{Node, NodeId};

impl Placer<'_> {
    /// The placement, once every node has a device.
    pub fn finish(mut self) -> Result<Placement, PlaceError> {
        self.explain();
        if self.options.deny_fallback {
            self.refuse_fallbacks()?;
        }
        Ok(Placement {
            devices: self.options.devices.into(),
            at: self.at,
            why: self.why,
        })
    }

    /// Finds out for whose sake the nodes of groups are where they are.
    fn explain(&mut self) {
        let mut leaders = std::mem::take(&mut self.first);
        let mut asked = vec![false; leaders.len()];
        let gets = |id: NodeId, node: &Node, at: &[u32]| {
            node.device
                .admits(&self.options.devices[at[id.index()] as usize])
        };
        for (id, node) in self.data.nodes() {
            if !node.device.is_empty() && gets(id, node, &self.at) {
                let root = self.groups.root(id.index());
                if !std::mem::replace(&mut asked[root], true) {
                    leaders[root] = Some(id);
                }
            }
        }
        for (id, node) in self.data.nodes() {
            let root = self.groups.root(id.index());
            let why = &mut self.why[id.index()];
            let leader = leaders[root].filter(|l| *l != id);
            *why = match leader {
                _ if *why == Why::Kept => Why::Kept,
                _ if !node.device.is_empty() && gets(id, node, &self.at) => Why::Asked,
                Some(leader) if asked[root] || node.device.is_empty() => Why::With(leader),
                _ if !node.device.is_empty() => Why::Fallback,
                _ => *why,
            };
        }
    }

    fn refuse_fallbacks(&self) -> Result<(), PlaceError> {
        for (id, node) in self.data.nodes() {
            let got = &self.options.devices[self.at[id.index()] as usize];
            let why = self.why[id.index()];
            let asks_for_type = |n: &Node| n.device.device_type.is_some();
            let better = match why {
                Why::Kept => continue,
                _ if !node.device.admits(got) => None,
                Why::Input(_) | Why::Consumers(_) | Why::Cost => continue,
                Why::With(leader) if self.why[leader.index()] == Why::Cost => continue,
                Why::With(leader) if asks_for_type(self.data.node(leader)) => continue,
                _ if asks_for_type(node) => continue,
                _ => match (self.options.kernels)(node).first() {
                    Some(&best) if got.device_type.as_deref() != Some(best) => Some(best),
                    _ => continue,
                },
            };
            let reason = PlaceReason::Fallback {
                asked: node.device.clone(),
                got: got.clone(),
                better,
            };
            return Err(PlaceError::new(node, reason));
        }
        Ok(())
    }
}
