//! The reasons of a placement, and the check of `deny_fallback`.

use super::assign::Placer;
use super::error::{PlaceError, PlaceReason};
use super::placement::{Placement, PlacementReason};
use super::requests::requested;
use crate::node::{Node, NodeId};

impl Placer<'_> {
    /// Returns the placement, once every node has a device.
    pub fn finish(mut self) -> Result<Placement, PlaceError> {
        self.explain();
        if self.options.deny_fallback {
            self.refuse_fallbacks()?;
        }
        Ok(Placement {
            devices: self.options.devices.into(),
            at: self.at,
            why: self.why,
            dropped_colocations: self.dropped_colocations,
        })
    }

    /// Finds the node that determined the device of each group: the first that asks for the device
    /// and gets it, or else the one that was placed first.
    fn explain(&mut self) {
        let mut leaders = std::mem::take(&mut self.first);
        let mut asked = vec![false; leaders.len()];
        let asking = std::mem::take(&mut self.asking);
        for &id in &asking {
            let root = self.groups.root(id.index());
            if self.gets_what_it_asks(id) && !std::mem::replace(&mut asked[root], true) {
                leaders[root] = Some(id);
            }
        }
        for id in self.data.ids() {
            let root = self.groups.root(id.index());
            let why = &mut self.why[id.index()];
            if let Some(leader) = leaders[root]
                && leader != id
                && *why != PlacementReason::Kept
            {
                *why = PlacementReason::With(leader);
            }
        }
        for id in asking {
            let root = self.groups.root(id.index());
            if self.why[id.index()] == PlacementReason::Kept {
                continue;
            }
            if self.gets_what_it_asks(id) {
                self.why[id.index()] = PlacementReason::Asked;
            } else if !asked[root] {
                self.why[id.index()] = PlacementReason::Fallback;
            }
        }
    }

    fn gets_what_it_asks(&self, id: NodeId) -> bool {
        let got = &self.options.devices[self.at[id.index()] as usize];
        requested(self.data, self.data.node(id)).admits(got)
    }

    fn refuse_fallbacks(&self) -> Result<(), PlaceError> {
        for (id, node) in self.data.nodes() {
            let got = &self.options.devices[self.at[id.index()] as usize];
            let why = self.why[id.index()];
            let asks_for_type = |n: &Node| requested(self.data, n).device_type.is_some();
            let asked = requested(self.data, node);
            let better = match why {
                PlacementReason::Kept => continue,
                _ if !asked.admits(got) => None,
                PlacementReason::Input(_) | PlacementReason::Consumers(_) => continue,
                PlacementReason::With(leader) if asks_for_type(self.data.node(leader)) => continue,
                _ if asks_for_type(node) => continue,
                _ => match (self.options.kernels)(node).first() {
                    Some(&best) if got.device_type.as_deref() != Some(best) => Some(best),
                    _ => continue,
                },
            };
            let reason = PlaceReason::Fallback {
                asked: asked.into_owned(),
                got: got.clone(),
                better,
            };
            return Err(PlaceError::new(node, reason));
        }
        Ok(())
    }
}
