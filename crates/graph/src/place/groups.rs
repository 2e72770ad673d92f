//! Groups of nodes that must be on one device, by union-find.

use std::collections::HashMap;

use super::error::{self, PlaceError};
use super::{Place, dtypes};
use crate::data::GraphData;
use crate::device::DeviceSpec;
use crate::dtype::DType;
use crate::node::{Node, NodeId};

/// What is known of a group; kept with its root.
#[derive(Clone, Default)]
struct Group {
    /// What its members ask for, together; `None` for nothing.
    requested: Option<Box<DeviceSpec>>,
    /// By number of a type: whether all members have a kernel there.
    types: u64,
    device: Option<u32>,
}

pub(super) struct Groups<'a> {
    data: &'a GraphData,
    options: &'a Place<'a>,
    parent: Vec<u32>,
    size: Vec<u32>,
    /// By root: the first node of the group.
    first: Vec<u32>,
    groups: Vec<Group>,
}

impl<'a> Groups<'a> {
    /// The groups of a graph.
    ///
    /// # Errors
    /// A node without a kernel, members that contradict each other.
    pub(super) fn new(
        data: &'a GraphData,
        options: &'a Place<'a>,
    ) -> Result<Groups<'a>, PlaceError> {
        let n = data.len() as u32;
        let mut groups = Groups {
            data,
            options,
            parent: (0..n).collect(),
            size: vec![1; n as usize],
            first: (0..n).collect(),
            groups: Vec::with_capacity(n as usize),
        };
        for (id, node) in data.nodes() {
            let fixed = options
                .fixed
                .and_then(|f| f.devices.get(id.index()).copied());
            let group = groups.single(node, fixed)?;
            groups.groups.push(group);
        }
        // The first node that names a group stands for it, unless a node has that name.
        let mut named: HashMap<&str, NodeId> = HashMap::new();
        for (id, node) in data.nodes() {
            for name in &node.colocation {
                let with = *named
                    .entry(name)
                    .or_insert_with(|| data.find(name).unwrap_or(id));
                groups.join(with, id, false)?;
            }
            for input in &node.inputs {
                if data
                    .fact(*input)
                    .is_some_and(|f| f.dtype == DType::Resource)
                {
                    groups.join(input.node, id, true)?;
                }
            }
        }
        Ok(groups)
    }

    fn single(&self, node: &Node, fixed: Option<u32>) -> Result<Group, PlaceError> {
        let mut types = 0;
        for (bit, kind) in self.options.types.iter().enumerate().take(64) {
            types |= u64::from((self.options.kernels)(node, kind)) << bit;
        }
        if types == 0 {
            return Err(error::no_kernel(node, dtypes(self.data, node), Vec::new()));
        }
        Ok(Group {
            requested: (!node.device.is_empty()).then(|| Box::new(node.device.clone())),
            types,
            device: fixed,
        })
    }

    fn root(&mut self, id: NodeId) -> usize {
        let mut at = id.index();
        while self.parent[at] as usize != at {
            let up = self.parent[self.parent[at] as usize];
            self.parent[at] = up;
            at = up as usize;
        }
        at
    }

    /// Makes one group of two. Where what they ask for cannot be had together, that is an error,
    /// unless the first one `leads`: as in TensorFlow, who uses a variable goes where that is,
    /// whatever it asks for (an update that was built in a worker's scope, for one).
    fn join(&mut self, a: NodeId, b: NodeId, leads: bool) -> Result<(), PlaceError> {
        let (mut a, mut b) = (self.root(a), self.root(b));
        if a == b {
            return Ok(());
        }
        let merged = self.merged(a, b, leads)?;
        if self.size[a] < self.size[b] {
            std::mem::swap(&mut a, &mut b);
        }
        self.parent[b] = a as u32;
        self.size[a] += self.size[b];
        self.first[a] = self.first[a].min(self.first[b]);
        self.groups[a] = merged;
        Ok(())
    }

    fn merged(&mut self, a: usize, b: usize, leads: bool) -> Result<Group, PlaceError> {
        let (x, y) = (self.groups[a].clone(), self.groups[b].clone());
        let requested = match (x.requested, y.requested) {
            (Some(x), Some(y)) => {
                // Nothing gives way where one of them leads.
                match merge(&x, &y, self.options.soft && !leads) {
                    Ok(merged) => Some(Box::new(merged)),
                    Err(_) if leads => Some(x),
                    Err(what) => return Err(self.conflict(a, b, what)),
                }
            }
            (x, y) => x.or(y),
        };
        let types = x.types & y.types;
        if types == 0 {
            return Err(self.conflict(a, b, "types of devices that have their kernels"));
        }
        let device = match (x.device, y.device) {
            (Some(x), Some(y)) if x != y => {
                return Err(self.conflict(a, b, "devices they were placed on before"));
            }
            (x, y) => x.or(y),
        };
        Ok(Group {
            requested,
            types,
            device,
        })
    }

    fn conflict(&mut self, a: usize, b: usize, what: &'static str) -> PlaceError {
        let members: Vec<NodeId> = self
            .data
            .ids()
            .filter(|&id| {
                let root = self.root(id);
                root == a || root == b
            })
            .collect();
        error::conflict(self.data, self.options, &members, what)
    }

    /// Whether a node is in no group with others.
    pub(super) fn is_alone(&mut self, id: NodeId) -> bool {
        let root = self.root(id);
        self.size[root] == 1
    }

    /// The first node of a node's group, and the group's device if it has one by now.
    pub(super) fn device(&mut self, id: NodeId) -> (NodeId, Option<u32>) {
        let root = self.root(id);
        (NodeId(self.first[root]), self.groups[root].device)
    }

    /// What a node's group asks for.
    pub(super) fn requested(&mut self, id: NodeId) -> DeviceSpec {
        let root = self.root(id);
        let requested = self.groups[root].requested.as_deref();
        requested.cloned().unwrap_or_default()
    }

    /// The types of devices that a node's group has kernels for.
    pub(super) fn types(&mut self, id: NodeId) -> u64 {
        let root = self.root(id);
        self.groups[root].types
    }

    /// Puts a node's group on a device.
    pub(super) fn put(&mut self, id: NodeId, device: u32) {
        let root = self.root(id);
        self.groups[root].device = Some(device);
    }

    /// The members of a node's group.
    pub(super) fn members(&mut self, id: NodeId) -> Vec<NodeId> {
        let root = self.root(id);
        let ids = self.data.ids();
        ids.filter(|&other| self.root(other) == root).collect()
    }
}

/// What two requests ask for together. Types and numbers that contradict each other give way where
/// placement is soft.
///
/// # Errors
/// What they contradict each other in.
fn merge(a: &DeviceSpec, b: &DeviceSpec, soft: bool) -> Result<DeviceSpec, &'static str> {
    fn differ<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
        matches!((a, b), (Some(a), Some(b)) if a != b)
    }
    if differ(&a.job, &b.job) {
        return Err("jobs");
    }
    if differ(&a.replica, &b.replica) {
        return Err("replicas");
    }
    if differ(&a.task, &b.task) {
        return Err("tasks");
    }
    let mut merged = a.or(b);
    if differ(&a.device_type, &b.device_type) {
        if !soft {
            return Err("types of devices");
        }
        merged.device_type = None;
        merged.index = None;
    } else if differ(&a.index, &b.index) {
        if !soft {
            return Err("numbers of devices");
        }
        merged.index = None;
    }
    Ok(merged)
}
