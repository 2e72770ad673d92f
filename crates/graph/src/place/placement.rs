//! Placements: the device of each node with the reason, and the report as a table.

use std::fmt;
use std::sync::Arc;

use crate::data::GraphData;
use crate::device::DeviceSpec;
use crate::node::NodeId;

/// The reason why a node is on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementReason {
    /// It was requested, whether other devices could take it or not.
    Asked,
    /// No other device can take it.
    Only,
    /// The first device of the best type.
    Best,
    /// It shares the device of this node, by colocation or as a user of its variable.
    With(NodeId),
    /// It reads only the shape of this node's output, and is on the same device.
    Input(NodeId),
    /// All its consumers are on that device; this node is one of them.
    Consumers(NodeId),
    /// The request could not be met, and soft placement dropped the type or the number.
    Fallback,
    /// It was kept from an earlier placement.
    Kept,
}

/// The device of each node of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub(super) devices: Arc<[DeviceSpec]>,
    pub(super) at: Vec<u32>,
    pub(super) why: Vec<PlacementReason>,
    /// Pairs of nodes whose colocation was dropped, in the order of building.
    pub(super) dropped_colocations: Vec<(NodeId, NodeId)>,
}

impl Placement {
    /// The devices that were given to the placer.
    pub fn devices(&self) -> &[DeviceSpec] {
        &self.devices
    }

    /// The number of placed nodes: the first ones of the graph.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// `true` if no node is placed.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// The device of a node, as an index into [`Placement::devices`].
    ///
    /// # Panics
    /// If the node is not one of the placed graph.
    pub fn device(&self, node: NodeId) -> usize {
        self.at[node.index()] as usize
    }

    /// By node: its device, as an index into [`Placement::devices`].
    pub fn numbers(&self) -> &[u32] {
        &self.at
    }

    /// The name of a node's device.
    ///
    /// # Panics
    /// If the node is not one of the placed graph.
    pub fn name(&self, node: NodeId) -> &DeviceSpec {
        &self.devices[self.device(node)]
    }

    /// The reason why a node is on its device.
    ///
    /// # Panics
    /// If the node is not one of the placed graph.
    pub fn why(&self, node: NodeId) -> PlacementReason {
        self.why[node.index()]
    }

    /// The placement as a table; `data` is the placed graph, or a later state of it.
    pub fn report(&self, data: &GraphData) -> Report {
        let rows = data.nodes().take(self.len()).map(|(id, node)| Row {
            node: node.name.clone(),
            op: node.op.name,
            requested: node.device.clone(),
            assigned: self.name(id).clone(),
            why: self.explain(data, id) + &self.dropped_text(data, id),
        });
        Report {
            rows: rows.collect(),
        }
    }

    /// The nodes whose colocation with this one was dropped.
    fn dropped_text(&self, data: &GraphData, id: NodeId) -> String {
        let first = self.dropped_colocations.partition_point(|(n, _)| *n < id);
        let own = self.dropped_colocations[first..]
            .iter()
            .take_while(|(n, _)| *n == id);
        let names = own.filter_map(|(_, with)| data.get(*with));
        names
            .map(|n| format!("; soft: not with {}", n.name))
            .collect()
    }

    fn explain(&self, data: &GraphData, id: NodeId) -> String {
        let node = data.node(id);
        let name = |id: NodeId| data.get(id).map_or("?", |n| &n.name);
        match self.why(id) {
            PlacementReason::Asked => "asked for".to_owned(),
            PlacementReason::Only => "the only device that can".to_owned(),
            PlacementReason::Best => "first of the best type".to_owned(),
            PlacementReason::With(other) if !node.device.admits(self.name(id)) => {
                format!("with {}, although another was asked for", name(other))
            }
            PlacementReason::With(other) => format!("with {}", name(other)),
            PlacementReason::Input(input) => format!("follows its input {}", name(input)),
            PlacementReason::Consumers(user) => format!("follows its consumers ({})", name(user)),
            PlacementReason::Fallback => format!("soft: {} cannot be had", node.device),
            PlacementReason::Kept => "kept from an earlier placement".to_owned(),
        }
    }
}

/// A placement as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// A row for each node, in the order of building.
    pub rows: Vec<Row>,
}

/// One node of a [`Report`].
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub node: String,
    /// Its op.
    pub op: &'static str,
    /// The requested device.
    pub requested: DeviceSpec,
    /// The assigned device.
    pub assigned: DeviceSpec,
    /// The reason.
    pub why: String,
}

impl Report {
    /// The table as text: aligned columns, a line for each node.
    pub fn to_text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["node", "op", "asked for", "device", "why"].map(str::to_owned);
        let rows = self.rows.iter().map(|r| {
            let requested = match r.requested.is_empty() {
                true => "-".to_owned(),
                false => r.requested.to_string(),
            };
            let assigned = r.assigned.to_string();
            [
                r.node.clone(),
                r.op.to_owned(),
                requested,
                assigned,
                r.why.clone(),
            ]
        });
        let lines: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
        let width = |column: usize| lines.iter().map(|l| l[column].len()).max().unwrap_or(0);
        let [a, b, c, d] = [width(0), width(1), width(2), width(3)];
        for [node, op, requested, assigned, why] in &lines {
            writeln!(
                f,
                "{node:a$}  {op:b$}  {requested:c$}  {assigned:d$}  {why}"
            )?;
        }
        Ok(())
    }
}
