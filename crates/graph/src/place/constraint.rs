//! Device constraints of groups of nodes, and how those of two groups merge.

use std::collections::HashMap;

use super::error::NamePart;
use crate::device::DeviceSpec;

/// The device constraint of a group. `requested` always includes `resource` and `assigned`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Constraint {
    /// The request of all its nodes together; soft placement may drop parts of it.
    pub requested: DeviceSpec,
    /// The request of its variables: it overrides other nodes, which move to the variable.
    pub resource: DeviceSpec,
    /// The device of an earlier placement; never dropped.
    pub assigned: DeviceSpec,
}

/// Two constraints that no device satisfies.
#[derive(Debug)]
pub(super) struct Conflict {
    pub part: NamePart,
    pub left: DeviceSpec,
    pub right: DeviceSpec,
}

impl Constraint {
    /// The constraint of a node's requested device.
    pub fn requested(requested: DeviceSpec) -> Constraint {
        Constraint {
            requested,
            ..Constraint::default()
        }
    }

    /// The constraint of a node that makes a resource.
    pub fn resource(resource: DeviceSpec) -> Constraint {
        Constraint {
            requested: resource.clone(),
            resource,
            ..Constraint::default()
        }
    }

    /// The constraint of a node that is placed already.
    pub fn assigned(assigned: DeviceSpec) -> Constraint {
        Constraint {
            requested: assigned.clone(),
            assigned,
            ..Constraint::default()
        }
    }

    /// The intersection of both. With `soft`, a device type or number in which the requests differ
    /// is dropped.
    fn merged(&self, other: &Constraint, soft: bool) -> Result<Constraint, Conflict> {
        let assigned = merge(&self.assigned, &other.assigned, false)?;
        let resource = merge(&self.resource, &other.resource, false)?;
        let mut requested = merge(&self.requested, &other.requested, soft)?;
        specialise(&mut requested, &assigned);
        specialise(&mut requested, &resource);
        Ok(Constraint {
            requested,
            resource,
            assigned,
        })
    }

    /// The constraint of a group that moves to a resource with the constraint `source`: if the
    /// requests do not go together, its own gives way.
    fn moved_to(&self, source: &Constraint) -> Result<Constraint, Conflict> {
        merge(&source.assigned, &self.assigned, false)?;
        merge(&source.resource, &self.resource, false)?;
        let mut new = self.clone();
        if merge(&source.requested, &self.requested, false).is_err() {
            new.requested = source.requested.clone();
            specialise(&mut new.requested, &self.assigned);
            specialise(&mut new.requested, &self.resource);
        }
        Ok(new)
    }

    /// The fallbacks if nothing matches the request, in order: without the type and number that no
    /// resource asked for, and then without those of resources too.
    pub fn relaxed(&self) -> [DeviceSpec; 2] {
        let without = |kept: &[&DeviceSpec]| {
            let mut spec = self.requested.clone();
            if kept.iter().all(|k| k.device_type.is_none()) {
                spec.device_type = None;
            }
            if kept.iter().all(|k| k.index.is_none()) {
                spec.index = None;
            }
            spec
        };
        [
            without(&[&self.assigned, &self.resource]),
            without(&[&self.assigned]),
        ]
    }
}

/// Both specs in one. With `soft`, a type or number in which they differ is dropped, and a type
/// takes its number with it.
fn merge(into: &DeviceSpec, other: &DeviceSpec, soft: bool) -> Result<DeviceSpec, Conflict> {
    fn join<T: Clone + PartialEq>(into: &mut Option<T>, other: &Option<T>) -> bool {
        match (&*into, other) {
            (Some(a), Some(b)) => a == b,
            (None, Some(_)) => {
                into.clone_from(other);
                true
            }
            (_, None) => true,
        }
    }
    let mut out = into.clone();
    let conflict = |part| {
        Err(Conflict {
            part,
            left: into.clone(),
            right: other.clone(),
        })
    };
    if !join(&mut out.job, &other.job) {
        return conflict(NamePart::Job);
    }
    if !join(&mut out.replica, &other.replica) {
        return conflict(NamePart::Replica);
    }
    if !join(&mut out.task, &other.task) {
        return conflict(NamePart::Task);
    }
    if !join(&mut out.device_type, &other.device_type) {
        if !soft {
            return conflict(NamePart::Type);
        }
        out.device_type = None;
        out.index = None;
        return Ok(out);
    }
    if !join(&mut out.index, &other.index) {
        if !soft {
            return conflict(NamePart::Index);
        }
        out.index = None;
    }
    Ok(out)
}

/// Sets in `spec` all parts that are set in `by`.
fn specialise(spec: &mut DeviceSpec, by: &DeviceSpec) {
    fn take<T: Clone>(into: &mut Option<T>, from: &Option<T>) {
        if from.is_some() {
            into.clone_from(from);
        }
    }
    take(&mut spec.job, &by.job);
    take(&mut spec.replica, &by.replica);
    take(&mut spec.task, &by.task);
    take(&mut spec.device_type, &by.device_type);
    take(&mut spec.index, &by.index);
}

/// Interned constraints: nodes are many, and they share few constraints.
#[derive(Debug)]
pub(super) struct Constraints {
    list: Vec<Constraint>,
    ids: HashMap<Constraint, u32>,
}

impl Constraints {
    /// The number of the empty constraint.
    pub const NONE: u32 = 0;

    pub fn new() -> Constraints {
        let none = Constraint::default();
        Constraints {
            list: vec![none.clone()],
            ids: HashMap::from([(none, Constraints::NONE)]),
        }
    }

    pub fn get(&self, id: u32) -> &Constraint {
        &self.list[id as usize]
    }

    /// The number of `constraint`.
    pub fn id(&mut self, constraint: Constraint) -> u32 {
        let list = &mut self.list;
        *self.ids.entry(constraint).or_insert_with_key(|new| {
            list.push(new.clone());
            (list.len() - 1) as u32
        })
    }

    /// The intersection of both; see [`Constraint::merged`].
    pub fn merged(&mut self, a: u32, b: u32, soft: bool) -> Result<u32, Conflict> {
        if a == b || b == Constraints::NONE {
            return Ok(a);
        }
        if a == Constraints::NONE {
            return Ok(b);
        }
        let merged = self.get(a).merged(self.get(b), soft)?;
        Ok(self.id(merged))
    }

    /// The constraint `a` of a group that moves to a resource; see [`Constraint::moved_to`].
    pub fn moved_to(&mut self, a: u32, source: u32) -> Result<u32, Conflict> {
        if a == source || a == Constraints::NONE || source == Constraints::NONE {
            return Ok(a);
        }
        let brought = self.get(a).moved_to(self.get(source))?;
        Ok(self.id(brought))
    }

    /// `true` if a group with the constraint `b` would get its job or task from one with the constraint `a`.
    pub fn names_task_alone(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.get(a).requested, &self.get(b).requested);
        a.job.is_some() && b.job.is_none() || a.task.is_some() && b.task.is_none()
    }
}
