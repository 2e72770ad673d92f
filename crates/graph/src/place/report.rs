//! What the placer did, for people.

use std::fmt;

use super::Placement;
use crate::data::GraphData;
use crate::device::DeviceSpec;

/// Why a node is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It asked for that.
    Asked,
    /// It asked for nothing: the first device of the best type that has its kernel.
    First,
    /// It must be on the device of this node.
    With(String),
    /// It makes a value from nothing, for consumers that are all there.
    Consumers,
    /// It reads its input's shape, and that is there.
    Input,
    /// It asked for this, which cannot be had.
    GaveWay(String),
    /// The estimated time of a step is shorter so.
    Cost,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Asked => f.write_str("asked for"),
            Why::First => f.write_str("first of the best type"),
            Why::With(node) => write!(f, "with {node}"),
            Why::Consumers => f.write_str("where it is used"),
            Why::Input => f.write_str("where its input is"),
            Why::GaveWay(asked) => write!(f, "{asked} cannot be had"),
            Why::Cost => f.write_str("a shorter step"),
        }
    }
}

/// One node of a placement.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub node: String,
    /// Its op.
    pub op: &'static str,
    /// What it asked for.
    pub requested: DeviceSpec,
    /// The device it is on.
    pub device: DeviceSpec,
    /// Why.
    pub why: Why,
}

impl Placement {
    /// A row for each node, in the order of building.
    pub fn rows(&self, data: &GraphData, devices: &[DeviceSpec]) -> Vec<Row> {
        data.nodes()
            .zip(self.devices.iter().zip(&self.whys))
            .map(|((_, node), (&device, why))| Row {
                node: node.name.clone(),
                op: node.op.name,
                requested: node.device.clone(),
                device: devices[device as usize].clone(),
                why: why.clone(),
            })
            .collect()
    }

    /// The rows as a table.
    pub fn to_text(&self, data: &GraphData, devices: &[DeviceSpec]) -> String {
        let head = ["node", "op", "asked for", "device", "why"].map(str::to_owned);
        let rows = self.rows(data, devices).into_iter().map(|r| {
            let (requested, device) = (r.requested.to_string(), r.device.to_string());
            [
                r.node,
                r.op.to_owned(),
                requested,
                device,
                r.why.to_string(),
            ]
        });
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
        let mut widths = [0; 5];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.len());
            }
        }
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(widths).map(|(cell, w)| format!("{cell:w$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}
