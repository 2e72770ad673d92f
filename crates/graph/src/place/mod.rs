//! The placer: which device runs each node, and why.
//!
//! The rules are those of TensorFlow's placer. Nodes that must be together form groups: those that
//! say so, and those that use one variable. What the members of a group ask for must agree. A group
//! goes to the first device, of the best type, that is what they ask for and has kernels for all of
//! them. Two heuristics bend this where nothing is asked for: a node without inputs follows its
//! consumers, and one that reads only the shape of its input follows that.

mod error;
mod groups;
mod report;

use std::collections::HashMap;

use crate::data::GraphData;
use crate::device::DeviceSpec;
use crate::dtype::DType;
use crate::node::{Node, NodeId};

pub use error::{Member, Missing, PlaceError};
pub use report::{Row, Why};

use groups::Groups;

/// What is placed on, and how.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The full names of the devices; of those of a type the first that fits is taken.
    pub devices: &'a [DeviceSpec],
    /// The types of devices, best first; at most 64.
    pub types: &'a [&'static str],
    /// Whether a node has a kernel on devices of a type.
    pub kernels: &'a dyn Fn(&Node, &'static str) -> bool,
    /// Whether a type or number that cannot be had gives way. Job, replica and task never do.
    pub soft: bool,
    /// Whether giving way to another type is an error all the same.
    pub deny_fallback: bool,
    /// An earlier placement of the same graph, which had fewer nodes then; it stays.
    pub fixed: Option<&'a Placement>,
}

/// Where nodes run.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// By node: the number of its device.
    pub devices: Vec<u32>,
    /// By node: why there.
    pub whys: Vec<Why>,
}

/// Whether a node's value depends on its input's shape alone, so that it is best computed where
/// that is.
fn reads_metadata(node: &Node) -> bool {
    matches!(node.op.name, "Shape" | "ShapeN" | "Rank" | "Size")
}

/// Whether a node makes a value from nothing, so that it is best made where it is used.
fn generates(node: &Node) -> bool {
    node.inputs.is_empty() && node.outputs.len() == 1
}

/// Places every node of a graph. Takes near-linear time.
///
/// # Errors
/// [`PlaceError`]: what is asked for contradicts itself, does not exist, or has no kernel.
pub fn place(data: &GraphData, options: &Place<'_>) -> Result<Placement, PlaceError> {
    let mut groups = Groups::new(data, options)?;
    let before = options.fixed.map_or(0, |f| f.devices.len());
    let mut placer = Placer {
        data,
        options,
        found: HashMap::new(),
        devices: Vec::with_capacity(data.len()),
        whys: Vec::with_capacity(data.len()),
    };
    let mut generators = Vec::new();
    for (id, node) in data.nodes() {
        if let Some(fixed) = options.fixed
            && id.index() < before
        {
            placer.devices.push(fixed.devices[id.index()]);
            placer.whys.push(fixed.whys[id.index()].clone());
            continue;
        }
        let alone = groups.is_alone(id);
        if alone && generates(node) && node.device.index.is_none() {
            generators.push(id);
        }
        let (device, why) = placer.choose(&mut groups, id, node, alone)?;
        placer.devices.push(device);
        placer.whys.push(why);
    }
    for id in generators {
        placer.follow_consumers(&mut groups, id);
    }
    Ok(Placement {
        devices: placer.devices,
        whys: placer.whys,
    })
}

struct Placer<'a> {
    data: &'a GraphData,
    options: &'a Place<'a>,
    /// What was found for a request and a set of types, and whether it had to give way.
    found: HashMap<(DeviceSpec, u64), Option<(u32, bool)>>,
    devices: Vec<u32>,
    whys: Vec<Why>,
}

impl Placer<'_> {
    fn choose(
        &mut self,
        groups: &mut Groups<'_>,
        id: NodeId,
        node: &Node,
        alone: bool,
    ) -> Result<(u32, Why), PlaceError> {
        let (first, device) = groups.device(id);
        let with = (first != id).then(|| self.data.node(first).name.clone());
        if let Some(device) = device {
            return Ok((device, Why::With(with.unwrap_or_default())));
        }
        let types = groups.types(id);
        if alone
            && reads_metadata(node)
            && let Some(input) = node.inputs.first()
            && let Some(&device) = self.devices.get(input.node.index())
            && self.allows(&node.device, types, device)
        {
            return Ok((device, Why::Input));
        }
        let requested = groups.requested(id);
        let Some((device, gave_way)) = self.find(&requested, types) else {
            return Err(error::nowhere(self.data, self.options, groups, id));
        };
        let name = &self.options.devices[device as usize];
        if gave_way && self.options.deny_fallback && requested.device_type != name.device_type {
            return Err(error::fallback(node, &requested, name));
        }
        groups.put(id, device);
        let why = match with {
            Some(with) => Why::With(with),
            None if gave_way => Why::GaveWay(requested.to_string()),
            None if requested.is_empty() => Why::First,
            None => Why::Asked,
        };
        Ok((device, why))
    }

    /// The first device of the best type for a request; and whether the request gave way.
    fn find(&mut self, requested: &DeviceSpec, types: u64) -> Option<(u32, bool)> {
        if let Some(&found) = self.found.get(&(requested.clone(), types)) {
            return found;
        }
        let first = |wanted: &DeviceSpec| {
            let ordered = self.options.types.iter().enumerate();
            let mut usable = ordered.filter(|(bit, _)| types & (1 << bit) != 0);
            usable.find_map(|(_, kind)| {
                let fits =
                    |d: &DeviceSpec| d.device_type.as_deref() == Some(*kind) && wanted.admits(d);
                self.options.devices.iter().position(fits)
            })
        };
        let found = first(requested).map(|d| (d as u32, false)).or_else(|| {
            let task = DeviceSpec {
                device_type: None,
                index: None,
                ..requested.clone()
            };
            let given = first(&task).filter(|_| self.options.soft);
            given.map(|d| (d as u32, true))
        });
        self.found.insert((requested.clone(), types), found);
        found
    }

    fn allows(&self, requested: &DeviceSpec, types: u64, device: u32) -> bool {
        let name = &self.options.devices[device as usize];
        let kind = name.device_type.as_deref();
        let bit = self.options.types.iter().position(|t| Some(*t) == kind);
        requested.admits(name) && bit.is_some_and(|bit| types & (1 << bit) != 0)
    }

    /// Moves a node without inputs to where all of its consumers are.
    fn follow_consumers(&mut self, groups: &mut Groups<'_>, id: NodeId) {
        let node = self.data.node(id);
        let mut consumers = self.data.consumers(id).map(|c| self.devices[c.index()]);
        let Some(device) = consumers.next() else {
            return;
        };
        let here = self.devices[id.index()];
        if device != here
            && consumers.all(|d| d == device)
            && self.allows(&node.device, groups.types(id), device)
        {
            self.devices[id.index()] = device;
            self.whys[id.index()] = Why::Consumers;
        }
    }
}

/// The dtypes of a node's inputs and outputs, for an error.
fn dtypes(data: &GraphData, node: &Node) -> Vec<DType> {
    let inputs = node.inputs.iter().filter_map(|&i| data.fact(i));
    inputs.chain(&node.outputs).map(|f| f.dtype).collect()
}
