//! Errors of placement.

use std::fmt;

use thiserror::Error;

use crate::device::DeviceSpec;
use crate::node::{Node, Origin};

/// A node that cannot be placed.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("node '{node}' ({op}), made at {origin}, cannot be placed: {reason}")]
pub struct PlaceError {
    /// The node.
    pub node: String,
    /// Its op.
    pub op: &'static str,
    /// The line that made it.
    pub origin: Origin,
    /// The reason.
    pub reason: PlaceReason,
}

impl PlaceError {
    pub(super) fn new(node: &Node, reason: PlaceReason) -> PlaceError {
        PlaceError {
            node: node.name.clone(),
            op: node.op.name,
            origin: node.origin.clone(),
            reason,
        }
    }
}

/// A part of a device's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamePart {
    /// The job.
    Job,
    /// The replica.
    Replica,
    /// The task.
    Task,
    /// The device's type.
    Type,
    /// The device's number.
    Index,
}

impl NamePart {
    pub(super) const ALL: [NamePart; 5] = [
        NamePart::Job,
        NamePart::Replica,
        NamePart::Task,
        NamePart::Type,
        NamePart::Index,
    ];
}

impl fmt::Display for NamePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NamePart::Job => "job",
            NamePart::Replica => "replica",
            NamePart::Task => "task",
            NamePart::Type => "device type",
            NamePart::Index => "device number",
        })
    }
}

/// A node of a group that must share one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub node: String,
    /// Its op.
    pub op: &'static str,
    /// The line that made it.
    pub origin: Origin,
    /// The device that it asks for.
    pub requested: DeviceSpec,
    /// The device types that have a kernel for it.
    pub types: Vec<&'static str>,
}

/// The reason why a node cannot be placed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PlaceReason {
    /// There is no device at all.
    #[error("there are no devices: give the session at least one")]
    NoDevices,
    /// No device has the requested name.
    #[error(
        "there is no {part} {value}, which {asked} asks for; there is {}{}",
        some(.exists),
        .nearest.as_ref().map_or(String::new(), |n| format!(": did you mean {n}?"))
    )]
    NoSuchDevice {
        /// The request of the node and its group.
        asked: DeviceSpec,
        /// The first part of it that no device has, together with the parts before it.
        part: NamePart,
        /// The value of that part.
        value: String,
        /// The values that exist for that part.
        exists: Vec<String>,
        /// The nearest existing device.
        nearest: Option<DeviceSpec>,
    },
    /// No allowed device is of a type with a kernel.
    #[error(
        "there is no kernel for it{} on {}; {}",
        group(.members.len()),
        if .asked.is_empty() { "any device".to_owned() } else { .asked.to_string() },
        kernels(.has, .types)
    )]
    NoKernel {
        /// The request of the node and its group.
        asked: DeviceSpec,
        /// The device types that have kernels for the node and its group.
        has: Vec<&'static str>,
        /// The existing device types.
        types: Vec<String>,
        /// The nodes of its group, itself included; empty if it is alone.
        members: Vec<Member>,
    },
    /// It must share a device with another node, but they ask for different devices.
    #[error(
        "it must stand with '{with}', but one asks for {left} and the other for {right}, \
         which differ in the {part}: change one of them, or do not colocate them{}",
        list(.members)
    )]
    Conflict {
        /// The other node.
        with: String,
        /// `true` if a variable's handle ties them, not colocation.
        resource: bool,
        /// The part in which they differ.
        part: NamePart,
        /// The request of the one, with its group.
        left: DeviceSpec,
        /// The request of the other, with its group.
        right: DeviceSpec,
        /// All nodes that would share a device.
        members: Vec<Member>,
    },
    /// It must share a device with another node, but no device type has kernels for both.
    #[error(
        "it must stand with '{with}', but no device type has kernels for both and all that \
         stands with them: do not colocate them{}",
        list(.members)
    )]
    NoCommonType {
        /// The other node.
        with: String,
        /// `true` if a variable's handle ties them, not colocation.
        resource: bool,
        /// All nodes that would share a device.
        members: Vec<Member>,
    },
    /// It would run on another device than was requested, or than is best, and `deny_fallback`
    /// forbids that.
    #[error(
        "it would run on {got} and not on {}, which deny_fallback forbids: ask for a device that \
         can be had, or allow the fallback",
        wanted(.asked, .better)
    )]
    Fallback {
        /// Its request.
        asked: DeviceSpec,
        /// The device that it would get.
        got: DeviceSpec,
        /// The better device type that has a kernel for it, if it requested none.
        better: Option<&'static str>,
    },
}

fn group(members: usize) -> String {
    match members {
        0 => String::new(),
        n => format!(" and all {} nodes that must stand together", n),
    }
}

fn kernels(has: &[&str], types: &[String]) -> String {
    if has.is_empty() {
        return "no device type has one: use another op or dtype, or give the session your own op \
                (SessionOptions::ops)"
            .to_owned();
    }
    let advice = match types.iter().any(|t| has.contains(&t.as_str())) {
        true => "ask for one of those",
        false => "add a device of that type, or use another op or dtype",
    };
    let (has, types) = (has.join(", "), types.join(", "));
    format!("there is one for {has}, and the devices are of type {types}: {advice}")
}

/// The first few of many names, as text.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 12;
    match names.len() {
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}

fn wanted(asked: &DeviceSpec, better: &Option<&str>) -> String {
    match better {
        Some(better) => format!("a {better}"),
        None => asked.to_string(),
    }
}

/// The members of a group, a line each; a group may be the whole graph, so the list is cut off.
fn list(members: &[Member]) -> String {
    const SHOWN: usize = 20;
    let mut text = String::from("\nthe nodes that would stand together:");
    for m in members.iter().take(SHOWN) {
        let asks = match m.requested.is_empty() {
            true => "any device".to_owned(),
            false => m.requested.to_string(),
        };
        let (node, op, origin, types) = (&m.node, m.op, &m.origin, m.types.join(", "));
        text += &format!("\n  {node} ({op}), made at {origin}: asks for {asks}, runs on {types}");
    }
    if members.len() > SHOWN {
        text += &format!("\n  and {} more", members.len() - SHOWN);
    }
    text
}
