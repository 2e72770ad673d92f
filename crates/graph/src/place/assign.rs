//! The placer: builds the groups, and assigns a device to each.

use std::collections::HashMap;
use std::sync::Arc;

use super::constraint::{Constraint, Constraints};
use super::devices::{Devices, TypeLists};
use super::error::{PlaceError, PlaceReason};
use super::groups::Groups;
use super::options::PlaceOptions;
use super::placement::{Placement, PlacementReason};
use super::requests::requested;
use crate::data::GraphData;
use crate::flow::{can_split, can_take_value, handle_of_call};
use crate::node::{Node, NodeId};
use thalweg_tensor::dtype::DType;

/// No device yet.
const UNPLACED: u32 = u32::MAX;

/// `true` if a node makes a resource and has no inputs: a variable's handle.
fn is_resource_source(node: &Node) -> bool {
    is_generator(node) && (node.outputs[0].dtype == DType::Resource || node.outputs[0].reference)
}

/// `true` if a node may follow its consumers.
fn is_generator(node: &Node) -> bool {
    node.inputs.is_empty() && node.outputs.len() == 1
}

/// `true` if a node reads only the metadata of its input, not its elements. TensorFlow's list
/// (`NC_METADATA` in `graph.cc`).
fn is_metadata(node: &Node) -> bool {
    matches!(node.op.name, "Shape" | "Size" | "Rank")
}

/// The state of the placer.
pub(super) struct Placer<'a> {
    pub data: &'a GraphData,
    pub options: &'a PlaceOptions<'a>,
    pub devices: Devices<'a>,
    pub groups: Groups,
    /// The nodes that ask for a device.
    pub asking: Vec<NodeId>,
    /// The device of each node so far, or [`UNPLACED`].
    pub at: Vec<u32>,
    pub why: Vec<PlacementReason>,
    /// By root: the node of the group that was placed first.
    pub first: Vec<Option<NodeId>>,
    /// Pairs of nodes whose colocation was dropped by soft placement.
    pub dropped_colocations: Vec<(NodeId, NodeId)>,
    /// The matching devices, by constraint and list of types.
    fitting: HashMap<(u32, u32), Arc<[u32]>>,
}

impl<'a> Placer<'a> {
    /// Builds the groups of `data`, with only the fixed nodes placed.
    pub fn new(
        data: &'a GraphData,
        options: &'a PlaceOptions<'a>,
    ) -> Result<Placer<'a>, PlaceError> {
        let nodes = data.len();
        let groups = Groups::new(Constraints::new(), TypeLists::default(), nodes);
        let mut placer = Placer {
            data,
            options,
            devices: Devices::new(options.devices),
            groups,
            asking: Vec::new(),
            at: vec![UNPLACED; nodes],
            why: vec![PlacementReason::Best; nodes],
            first: vec![None; nodes],
            dropped_colocations: Vec::new(),
            fitting: HashMap::new(),
        };
        placer.add_nodes()?;
        placer.join_users_of_resources()?;
        placer.join_colocated()?;
        for id in data.ids() {
            if placer.at[id.index()] != UNPLACED {
                let root = placer.groups.root(id.index());
                placer.first[root].get_or_insert(id);
            }
        }
        Ok(placer)
    }

    fn add_nodes(&mut self) -> Result<(), PlaceError> {
        let fixed = self.options.fixed.map_or(0, Placement::len);
        for (id, node) in self.data.nodes() {
            if self.options.devices.is_empty() {
                return Err(PlaceError::new(node, PlaceReason::NoDevices));
            }
            let types = self
                .groups
                .types
                .named((self.options.kernels)(node), &self.devices);
            if self.groups.types.get(types).is_empty() {
                return Err(self.no_kernel(node, node.device.clone(), None));
            }
            let device = requested(self.data, node);
            if !device.is_empty() {
                self.asking.push(id);
            }
            let constraint = match self.options.fixed {
                Some(earlier) if id.index() < fixed => {
                    let device = self.find(node, earlier, id)?;
                    self.at[id.index()] = device;
                    self.why[id.index()] = PlacementReason::Kept;
                    Constraint::assigned(self.options.devices[device as usize].clone())
                }
                _ if device.is_empty() => {
                    self.groups.push(Constraints::NONE, types);
                    continue;
                }
                _ if is_resource_source(node) => Constraint::resource(device.into_owned()),
                _ => Constraint::requested(device.into_owned()),
            };
            let constraint = self.groups.constraints.id(constraint);
            self.groups.push(constraint, types);
        }
        Ok(())
    }

    /// The index of the device of an earlier placement in this list of devices.
    fn find(&self, node: &Node, earlier: &Placement, id: NodeId) -> Result<u32, PlaceError> {
        let (was, name) = (earlier.device(id), earlier.name(id));
        if self.options.devices.get(was) == Some(name) {
            return Ok(was as u32);
        }
        let at = self.options.devices.iter().position(|d| d == name);
        at.map(|d| d as u32)
            .ok_or_else(|| self.no_such_device(node, name.clone()))
    }

    /// Joins the users of a resource to its source. A call of a function that only reads a variable can take its value from
    /// another device: it follows the other resources first, and then the variable if it can. One that may be split by devices
    /// follows the first resource that it can.
    fn join_users_of_resources(&mut self) -> Result<(), PlaceError> {
        let mut reads: Vec<(usize, NodeId)> = Vec::new();
        for (id, node) in self.data.nodes() {
            for (i, &input) in node.inputs.iter().enumerate() {
                let takes_reference = node.input_arg(i).is_some_and(|a| a.reference);
                let is_resource = |f: &crate::node::Fact| {
                    f.dtype == DType::Resource || f.reference && takes_reference
                };
                if !self.data.fact(input).is_some_and(is_resource) {
                    continue;
                }
                let (source, user) = (
                    handle_of_call(self.data, node, input).node.index(),
                    id.index(),
                );
                if can_take_value(self.data, id, i) {
                    reads.push((source, id));
                    continue;
                }
                let joined = self.groups.join_resource(source, user, self.options.soft);
                if joined.is_err() && can_split(node) {
                    continue;
                }
                joined.map_err(|join_error| self.join_error(id, input.node, true, join_error))?;
            }
        }
        for (source, id) in reads {
            // An error is a call on another device.
            let _ = match self.has_variants(id) {
                true => self.groups.join_unmoved(source, id.index()),
                false => self
                    .groups
                    .join_resource(source, id.index(), self.options.soft),
            };
        }
        Ok(())
    }

    /// `true` if a node takes or gives variants: lists and optionals, which stay within a task.
    fn has_variants(&self, id: NodeId) -> bool {
        let node = self.data.node(id);
        let inputs = node.inputs.iter().filter_map(|i| self.data.fact(*i));
        inputs
            .chain(&node.outputs)
            .any(|f| f.dtype == DType::Variant)
    }

    /// Joins the nodes of each colocation group: a node is in the group of its own name, and a name
    /// that no node has is a group all the same.
    fn join_colocated(&mut self) -> Result<(), PlaceError> {
        let mut groups: HashMap<&str, Option<NodeId>> = HashMap::new();
        // Only the nodes of such groups are visited; the others need no name.
        let mut concerned: Vec<NodeId> = Vec::new();
        for (id, node) in self.data.nodes().filter(|(_, n)| !n.colocation.is_empty()) {
            concerned.push(id);
            for name in &node.colocation {
                if groups.insert(name, None).is_none() {
                    concerned.extend(self.data.find(name));
                }
            }
        }
        concerned.sort_unstable();
        concerned.dedup();
        for id in concerned {
            let node = self.data.node(id);
            let names = node.colocation.iter().map(|name| &**name);
            for name in names.chain([&*node.name]) {
                // A node that only names others may have a name that no other node names.
                let Some(group) = groups.get_mut(name) else {
                    continue;
                };
                let first = *group.get_or_insert(id);
                let joined = self
                    .groups
                    .join(id.index(), first.index(), self.options.soft);
                match joined {
                    Err(_) if self.options.soft && !self.options.deny_fallback => {
                        self.dropped_colocations.push((id, first));
                    }
                    joined => joined
                        .map_err(|join_error| self.join_error(id, first, false, join_error))?,
                }
            }
        }
        Ok(())
    }

    /// The device of a node's group, if it has one.
    fn device_of_group(&mut self, id: NodeId) -> Option<u32> {
        let root = self.groups.root(id.index());
        self.first[root].map(|first| self.at[first.index()])
    }

    /// The devices that can take a node's group, the preferred one first; at least one.
    fn candidates(&mut self, id: NodeId) -> Result<Arc<[u32]>, PlaceError> {
        let root = self.groups.root(id.index());
        let key = (self.groups.constraint(root), self.groups.types(root));
        if let Some(known) = self.fitting.get(&key) {
            return Ok(known.clone());
        }
        let constraint = self.groups.constraints.get(key.0);
        let types = self.groups.types.get(key.1);
        let mut fitting = self.devices.matching(&constraint.requested, types);
        if self.options.soft {
            for relaxed in constraint.relaxed() {
                if fitting.is_empty() {
                    fitting = self.devices.matching(&relaxed, types);
                }
            }
        }
        if fitting.is_empty() {
            return Err(self.nothing_fits(id));
        }
        let fitting: Arc<[u32]> = fitting.into();
        self.fitting.insert(key, fitting.clone());
        Ok(fitting)
    }

    /// Assigns a device to a node, and so to its group.
    pub fn put(&mut self, id: NodeId, device: u32, why: PlacementReason) {
        self.at[id.index()] = device;
        self.why[id.index()] = why;
        let root = self.groups.root(id.index());
        self.first[root].get_or_insert(id);
    }

    /// Assigns a device to every node.
    pub fn assign(&mut self) -> Result<(), PlaceError> {
        let data = self.data;
        // Nodes that follow their consumers come last.
        let mut followers: Vec<NodeId> = Vec::new();
        for (id, node) in data.nodes() {
            if self.at[id.index()] != UNPLACED {
                continue;
            }
            match is_generator(node) {
                true => followers.push(id),
                false => self.assign_one(id, node)?,
            }
        }
        for id in followers {
            self.assign_one(id, data.node(id))?;
        }
        Ok(())
    }

    fn assign_one(&mut self, id: NodeId, node: &Node) -> Result<(), PlaceError> {
        if let Some(device) = self.device_of_group(id) {
            self.put(id, device, PlacementReason::Best);
            return Ok(());
        }
        let candidates = self.candidates(id)?;
        let followed = if candidates.len() == 1 {
            None
        } else if is_metadata(node) || self.is_passing_on(id, node) {
            node.inputs
                .first()
                .map(|i| (i.node, PlacementReason::Input(i.node)))
        } else if is_generator(node) {
            self.agreed_consumer(id)
                .map(|c| (c, PlacementReason::Consumers(c)))
        } else {
            None
        };
        let followed = followed
            .map(|(leader, why)| (self.at[leader.index()], why))
            .filter(|(device, _)| candidates.contains(device));
        let (device, why) = followed.unwrap_or(match candidates.len() {
            1 => (candidates[0], PlacementReason::Only),
            _ => (candidates[0], PlacementReason::Best),
        });
        self.put(id, device, why);
        Ok(())
    }

    /// `true` if a node only forwards its input, to at most one consumer, which asks for the same
    /// device as the input does: TensorFlow's `MatchIdentityOperation` in `placer.cc`.
    fn is_passing_on(&self, id: NodeId, node: &Node) -> bool {
        if node.op.name != "Identity" || !node.device.is_empty() || !node.controls.is_empty() {
            return false;
        }
        let Some(input) = node.inputs.first() else {
            return false;
        };
        let source = &self.data.node(input.node).device;
        let mut consumers = self.data.consumers(id);
        match (consumers.next(), consumers.next()) {
            (None, _) => source.is_empty(),
            (Some(only), None) => *source == self.data.node(only).device,
            _ => false,
        }
    }

    /// One of a node's consumers, if all of them are on one device.
    fn agreed_consumer(&self, id: NodeId) -> Option<NodeId> {
        let mut consumers = self.data.consumers(id);
        let last = consumers.next()?;
        let device = self.at[last.index()];
        consumers
            .all(|c| self.at[c.index()] == device)
            .then_some(last)
    }
}
