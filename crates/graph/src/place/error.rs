//! Why a graph cannot be placed.

use std::fmt::Write;

use thiserror::Error;

use super::groups::Groups;
use super::{Place, dtypes};
use crate::data::GraphData;
use crate::device::DeviceSpec;
use crate::dtype::DType;
use crate::graph::nearest;
use crate::node::{Node, NodeId, Origin};

/// A member of a group that cannot be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The node.
    pub node: String,
    /// Its op.
    pub op: String,
    /// The line that made it.
    pub origin: Origin,
    /// What it asks for.
    pub requested: DeviceSpec,
    /// The types of devices that have its kernel.
    pub types: Vec<&'static str>,
}

/// What there is none of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The job.
    Job,
    /// The replica of the job.
    Replica,
    /// The task of the job.
    Task,
    /// A device of the type in the task.
    Type,
    /// The device's number among those of its type.
    Index,
}

impl Missing {
    fn what(self) -> &'static str {
        match self {
            Missing::Job => "no such job",
            Missing::Replica => "no such replica",
            Missing::Task => "no such task",
            Missing::Type => "no device of this type",
            Missing::Index => "no device of this number",
        }
    }
}

/// Why a graph cannot be placed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// A device that does not exist.
    #[error(
        "node '{node}' ({op}), made at {origin}, asks for {requested}: there is {}{}; there are {}",
        .missing.what(), meant(.nearest), list(.devices)
    )]
    NoDevice {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// What it, or its group, asks for.
        requested: DeviceSpec,
        /// What of it there is none of.
        missing: Missing,
        /// The device with the most similar name.
        nearest: Option<DeviceSpec>,
        /// The devices that exist.
        devices: Vec<DeviceSpec>,
    },
    /// A node without a kernel where it asks to be.
    #[error(
        "node '{node}' ({op}), made at {origin}: there is no kernel for {} on {}{}",
        names(.dtypes), asked(.requested), elsewhere(.types)
    )]
    NoKernel {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// The dtypes of its inputs and outputs.
        dtypes: Vec<DType>,
        /// What it asks for.
        requested: DeviceSpec,
        /// The types of devices that have one.
        types: Vec<&'static str>,
    },
    /// Nodes that must be on one device and cannot.
    #[error("these nodes must be on one device, but have different {what}:{}", lines(.members))]
    Conflict {
        /// What they contradict each other in.
        what: &'static str,
        /// All of them.
        members: Vec<Member>,
    },
    /// A node that would have run on a lesser type of device than it asks for.
    #[error(
        "node '{node}' ({op}), made at {origin}, asks for {requested} and would run on {found}: ask for that, or allow the session to fall back"
    )]
    Fallback {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// What it asks for.
        requested: DeviceSpec,
        /// Where it would have run.
        found: DeviceSpec,
    },
}

fn meant(nearest: &Option<DeviceSpec>) -> String {
    nearest
        .as_ref()
        .map_or(String::new(), |n| format!(", did you mean {n}?"))
}

/// The most devices that an error lists.
const MOST_LISTED: usize = 16;

fn list(devices: &[DeviceSpec]) -> String {
    let shown = devices.iter().take(MOST_LISTED);
    let mut text = shown
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if devices.len() > MOST_LISTED {
        let _ = write!(text, " and {} more", devices.len() - MOST_LISTED);
    }
    text
}

fn names(dtypes: &[DType]) -> String {
    let names: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
    names.join(", ")
}

fn asked(requested: &DeviceSpec) -> String {
    if requested.is_empty() {
        "any device".to_owned()
    } else {
        requested.to_string()
    }
}

fn elsewhere(types: &[&str]) -> String {
    if types.is_empty() {
        ": Cast its inputs".to_owned()
    } else {
        format!(": there is one on {}", types.join(" and "))
    }
}

/// The most members that an error lists.
const MOST_MEMBERS: usize = 32;

fn lines(members: &[Member]) -> String {
    let mut text = String::new();
    for m in members.iter().take(MOST_MEMBERS) {
        let _ = write!(
            text,
            "\n  '{}' ({}), made at {}, asks for {}, has kernels on {}",
            m.node,
            m.op,
            m.origin,
            asked(&m.requested),
            m.types.join(" and ")
        );
    }
    if members.len() > MOST_MEMBERS {
        let _ = write!(text, "\n  and {} more", members.len() - MOST_MEMBERS);
    }
    text
}

/// The types of devices that have a node's kernel.
fn types(options: &Place<'_>, node: &Node) -> Vec<&'static str> {
    let all = options.types.iter().copied();
    all.filter(|t| (options.kernels)(node, t)).collect()
}

pub(super) fn no_kernel(node: &Node, dtypes: Vec<DType>, types: Vec<&'static str>) -> PlaceError {
    PlaceError::NoKernel {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        dtypes,
        requested: node.device.clone(),
        types,
    }
}

pub(super) fn fallback(node: &Node, requested: &DeviceSpec, found: &DeviceSpec) -> PlaceError {
    PlaceError::Fallback {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        requested: requested.clone(),
        found: found.clone(),
    }
}

pub(super) fn conflict(
    data: &GraphData,
    options: &Place<'_>,
    members: &[NodeId],
    what: &'static str,
) -> PlaceError {
    let members = members.iter().map(|&id| {
        let node = data.node(id);
        Member {
            node: node.name.clone(),
            op: node.op.name.to_owned(),
            origin: node.origin.clone(),
            requested: node.device.clone(),
            types: types(options, node),
        }
    });
    PlaceError::Conflict {
        what,
        members: members.collect(),
    }
}

/// The error of a node for whose group there is no device.
pub(super) fn nowhere(
    data: &GraphData,
    options: &Place<'_>,
    groups: &mut Groups<'_>,
    id: NodeId,
) -> PlaceError {
    let requested = groups.requested(id);
    let Some(missing) = missing(options.devices, &requested) else {
        // The device is there: it is a kernel that is missing, of this node or of another one of
        // its group.
        let members = groups.members(id);
        let lacks = |&&m: &&NodeId| {
            let kinds = types(options, data.node(m));
            let kind = requested.device_type.as_deref();
            !kinds.iter().any(|t| kind.is_none_or(|k| k == *t))
        };
        let of = members.iter().find(lacks).copied().unwrap_or(id);
        let node = data.node(of);
        let mut error = no_kernel(node, dtypes(data, node), types(options, node));
        if let PlaceError::NoKernel { requested: r, .. } = &mut error {
            *r = requested;
        }
        return error;
    };
    // The member that asks for what is missing.
    let members = groups.members(id);
    let asks = |m: &&NodeId| !data.node(**m).device.is_empty();
    let node = data.node(members.iter().find(asks).copied().unwrap_or(id));
    let canonical: Vec<String> = options.devices.iter().map(ToString::to_string).collect();
    let full = options.devices.first().map(|d| requested.or(d).to_string());
    let closest =
        full.and_then(|f| nearest(&f, canonical.iter().map(String::as_str)).map(str::to_owned));
    let at = closest.and_then(|n| canonical.iter().position(|c| *c == n));
    PlaceError::NoDevice {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        requested,
        missing,
        nearest: at.map(|i| options.devices[i].clone()),
        devices: options.devices.to_vec(),
    }
}

/// What of a request no device has, asked from the job down.
fn missing(devices: &[DeviceSpec], requested: &DeviceSpec) -> Option<Missing> {
    let mut part = DeviceSpec::default();
    let none = |part: &DeviceSpec| !devices.iter().any(|d| part.admits(d));
    part.job = requested.job.clone();
    if none(&part) {
        return Some(Missing::Job);
    }
    part.replica = requested.replica;
    if none(&part) {
        return Some(Missing::Replica);
    }
    part.task = requested.task;
    if none(&part) {
        return Some(Missing::Task);
    }
    part.device_type = requested.device_type.clone();
    if none(&part) {
        return Some(Missing::Type);
    }
    part.index = requested.index;
    none(&part).then_some(Missing::Index)
}
