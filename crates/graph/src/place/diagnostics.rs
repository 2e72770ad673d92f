//! Errors of the placer: the request, the existing devices, and the nearest match.

use super::assign::Placer;
use super::error::{Member, NamePart, PlaceError, PlaceReason};
use super::groups::JoinError;
use crate::device::DeviceSpec;
use crate::graph::nearest_name;
use crate::node::{Node, NodeId};

impl Placer<'_> {
    /// The error that `id` cannot share a device with `other`.
    pub(super) fn join_error(
        &mut self,
        id: NodeId,
        other: NodeId,
        resource: bool,
        join_error: JoinError,
    ) -> PlaceError {
        let roots = [id, other].map(|n| self.groups.root(n.index()));
        let members = self.members(&roots);
        let with = self.data.node(other).name.clone();
        let reason = match join_error {
            JoinError::Conflict(conflict) => PlaceReason::Conflict {
                with,
                resource,
                part: conflict.part,
                left: conflict.left,
                right: conflict.right,
                members,
            },
            JoinError::Kernels => PlaceReason::NoCommonType {
                with,
                resource,
                members,
            },
        };
        PlaceError::new(self.data.node(id), reason)
    }

    /// The nodes of the groups with these roots.
    fn members(&mut self, roots: &[usize]) -> Vec<Member> {
        let data = self.data;
        let inside = data.nodes().filter(|(id, _)| {
            let root = self.groups.root(id.index());
            roots.contains(&root)
        });
        let members = inside.map(|(_, node)| Member {
            node: node.name.clone(),
            op: node.op.name,
            origin: node.origin.clone(),
            requested: node.device.clone(),
            types: (self.options.kernels)(node).to_vec(),
        });
        members.collect()
    }

    /// The error that no device can take the group of `id`.
    pub(super) fn nothing_fits(&mut self, id: NodeId) -> PlaceError {
        let root = self.groups.root(id.index());
        let constraint = self.groups.constraint(root);
        let constraint = self.groups.constraints.get(constraint);
        let mut asked = constraint.requested.clone();
        if self.options.soft {
            let [_, softest] = constraint.relaxed();
            asked = softest;
        }
        let node = self.data.node(id);
        if self.options.devices.iter().any(|d| asked.admits(d)) {
            self.no_kernel(node, asked, Some(root))
        } else {
            self.no_such_device(node, asked)
        }
    }

    /// The error that no device which `asked` allows has a kernel for `node` and its group.
    pub(super) fn no_kernel(
        &mut self,
        node: &Node,
        asked: DeviceSpec,
        root: Option<usize>,
    ) -> PlaceError {
        let mut has = (self.options.kernels)(node).to_vec();
        let mut members = root.map_or(Vec::new(), |root| self.members(&[root]));
        has.retain(|t| members.iter().all(|m| m.types.contains(t)));
        if members.len() == 1 {
            members.clear();
        }
        let reason = PlaceReason::NoKernel {
            asked,
            has,
            types: self
                .devices
                .types()
                .iter()
                .map(|t| (*t).to_owned())
                .collect(),
            members,
        };
        PlaceError::new(node, reason)
    }

    /// The error for the part of `asked` that no device has.
    pub(super) fn no_such_device(&self, node: &Node, asked: DeviceSpec) -> PlaceError {
        let mut left: Vec<&DeviceSpec> = self.options.devices.iter().collect();
        let mut missing = NamePart::Index;
        for part in NamePart::ALL {
            let Some(wanted) = text(&asked, part) else {
                continue;
            };
            let fits = |d: &&DeviceSpec| text(d, part).as_ref() == Some(&wanted);
            if !left.iter().any(fits) {
                missing = part;
                break;
            }
            left.retain(fits);
        }
        let value = text(&asked, missing).unwrap_or_default();
        let mut exists: Vec<String> = Vec::new();
        for found in left.iter().filter_map(|d| text(d, missing)) {
            if !exists.contains(&found) {
                exists.push(found);
            }
        }
        let nearest = closest(&value, &exists).and_then(|best| {
            let fits = |d: &&&DeviceSpec| text(d, missing).as_deref() == Some(best);
            // Of those the one that agrees in most of the other parts.
            let agreeing = |d: &DeviceSpec| {
                let same = |p: &NamePart| text(&asked, *p).is_some_and(|v| text(d, *p) == Some(v));
                NamePart::ALL.iter().filter(|p| same(p)).count()
            };
            let fitting = left.iter().filter(fits);
            fitting.min_by_key(|d| std::cmp::Reverse(agreeing(d)))
        });
        let reason = PlaceReason::NoSuchDevice {
            part: missing,
            value,
            exists,
            nearest: nearest.map(|d| (*d).clone()),
            asked,
        };
        PlaceError::new(node, reason)
    }
}

/// A part of a device's name as text.
fn text(spec: &DeviceSpec, part: NamePart) -> Option<String> {
    match part {
        NamePart::Job => spec.job.as_deref().map(str::to_owned),
        NamePart::Replica => spec.replica.map(|n| n.to_string()),
        NamePart::Task => spec.task.map(|n| n.to_string()),
        NamePart::Type => spec.device_type.as_deref().map(str::to_owned),
        NamePart::Index => spec.index.map(|n| n.to_string()),
    }
}

/// The value nearest to `wanted`: numbers by value, names by spelling; a single value is the
/// nearest.
fn closest<'a>(wanted: &str, values: &'a [String]) -> Option<&'a str> {
    if let [only] = values {
        return Some(only);
    }
    if let Ok(wanted) = wanted.parse::<u32>() {
        let distance = |v: &&String| v.parse::<u32>().map_or(u32::MAX, |v| v.abs_diff(wanted));
        return values.iter().min_by_key(distance).map(String::as_str);
    }
    nearest_name(wanted, values.iter().map(String::as_str))
}
