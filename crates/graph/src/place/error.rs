//! What can be wrong with where nodes are to stand.

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
    /// Why not.
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

/// A node of a group that must stand on one device.
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

/// Why a node cannot be placed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PlaceReason {
    /// There is no device at all.
    #[error("there are no devices: give the session at least one")]
    NoDevices,
    /// No device has the name that was asked for.
    #[error(
        "there is no {part} {value}, which {asked} asks for; there is {}{}",
        some(.exists),
        .nearest.as_ref().map_or(String::new(), |n| format!(": did you mean {n}?"))
    )]
    NoSuchDevice {
        /// What the node and those it stands with ask for.
        asked: DeviceSpec,
        /// The first part of it that no device has, together with the parts before it.
        part: NamePart,
        /// That part of what was asked for.
        value: String,
        /// What that part may be.
        exists: Vec<String>,
        /// The nearest device that there is.
        nearest: Option<DeviceSpec>,
    },
    /// No device that may be taken is of a type with a kernel.
    #[error(
        "there is no kernel for it{} on {}; {}",
        group(.members.len()),
        if .asked.is_empty() { "any device".to_owned() } else { .asked.to_string() },
        kernels(.has, .types)
    )]
    NoKernel {
        /// What the node and those it stands with ask for.
        asked: DeviceSpec,
        /// The device types that have kernels for the node and for those it stands with.
        has: Vec<&'static str>,
        /// The device types there are.
        types: Vec<String>,
        /// The nodes that it stands with, itself included; empty where it stands alone.
        members: Vec<Member>,
    },
    /// It must stand with another node, but they ask for different devices.
    #[error(
        "it must stand with '{with}', but one asks for {left} and the other for {right}, \
         which differ in the {part}: change one of them, or do not colocate them{}",
        list(.members)
    )]
    Conflict {
        /// The other node.
        with: String,
        /// Whether a variable's handle ties them, not colocation.
        resource: bool,
        /// In what they differ.
        part: NamePart,
        /// What one asks for, with all that it stands with.
        left: DeviceSpec,
        /// What the other asks for, with all that it stands with.
        right: DeviceSpec,
        /// Every node that would stand together.
        members: Vec<Member>,
    },
    /// It must stand with another node, but no device type has kernels for both.
    #[error(
        "it must stand with '{with}', but no device type has kernels for both and all that \
         stands with them: do not colocate them{}",
        list(.members)
    )]
    NoCommonType {
        /// The other node.
        with: String,
        /// Whether a variable's handle ties them, not colocation.
        resource: bool,
        /// Every node that would stand together.
        members: Vec<Member>,
    },
    /// It would have to stand on another device than was asked for, or than is best, and that was
    /// forbidden.
    #[error(
        "it would run on {got} and not on {}, which deny_fallback forbids: ask for a device that \
         can be had, or allow the fallback",
        wanted(.asked, .better)
    )]
    Fallback {
        /// What it asks for.
        asked: DeviceSpec,
        /// Where it would run.
        got: DeviceSpec,
        /// The better device type that has a kernel for it, where it asked for none.
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
        return "no device type has one: use another op or dtype".to_owned();
    }
    let advice = match types.iter().any(|t| has.contains(&t.as_str())) {
        true => "ask for one of those",
        false => "add a device of that type, or use another op or dtype",
    };
    let (has, types) = (has.join(", "), types.join(", "));
    format!("there is one for {has}, and the devices are of type {types}: {advice}")
}

/// The first of many.
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

/// The members of a group, a line each; a group may be the whole graph, so not all of them.
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
