//! The table of the variables and bytes on each device.

use std::collections::BTreeMap;

use super::DeviceSpec;
use crate::data::GraphData;
use crate::node::Node;
use crate::op::Effect;

/// One device's variables.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLoad {
    /// The device.
    pub device: DeviceSpec,
    /// Its variables, in the order of building.
    pub variables: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
}

/// The variables of each device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadTable {
    /// By device, in the order of their names.
    pub loads: Vec<DeviceLoad>,
}

impl LoadTable {
    /// The variables of `data` by the device that `device` gives for each; `all` are devices that
    /// are listed even where they have none.
    pub fn new(
        data: &GraphData,
        all: &[DeviceSpec],
        device: impl Fn(&Node) -> DeviceSpec,
    ) -> LoadTable {
        let mut loads: BTreeMap<DeviceSpec, DeviceLoad> = BTreeMap::new();
        let empty = |device: &DeviceSpec| DeviceLoad {
            device: device.clone(),
            variables: Vec::new(),
            bytes: 0,
        };
        for device in all {
            loads.insert(device.clone(), empty(device));
        }
        for (_, node) in data.nodes().filter(|(_, n)| n.op.effect == Effect::Handle) {
            let device = device(node);
            let load = loads.entry(device).or_insert_with_key(empty);
            let variable = node.outputs.first().and_then(|f| f.variable.as_ref());
            let bytes = variable.and_then(|(d, s)| s.elements()?.checked_mul(d.size()));
            load.variables.push(node.name.clone());
            let bytes = bytes.unwrap_or(0) as u64;
            load.bytes = load.bytes.saturating_add(bytes);
        }
        LoadTable {
            loads: loads.into_values().collect(),
        }
    }

    /// The variables of `data` by the device that they ask for.
    pub fn requested(data: &GraphData, all: &[DeviceSpec]) -> LoadTable {
        LoadTable::new(data, all, |node| node.device.clone())
    }

    /// The bytes of all variables.
    pub fn bytes(&self) -> u64 {
        let bytes = self.loads.iter().map(|l| l.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The largest load over the mean: 1 is even, the number of devices is all on one.
    pub fn imbalance(&self) -> f64 {
        let largest = self.loads.iter().map(|l| l.bytes).max().unwrap_or(0);
        match self.bytes() {
            0 => 1.0,
            all => largest as f64 * self.loads.len() as f64 / all as f64,
        }
    }

    /// A line for each device: its variables, bytes, and share of all bytes.
    pub fn to_text(&self) -> String {
        let all = self.bytes().max(1) as f64;
        let width = |of: &dyn Fn(&DeviceLoad) -> String| {
            let lens = self.loads.iter().map(|l| of(l).len());
            lens.max().unwrap_or(0)
        };
        let (name, bytes) = (
            |l: &DeviceLoad| l.device.to_string(),
            |l: &DeviceLoad| l.bytes.to_string(),
        );
        let (names, numbers) = (width(&name), width(&bytes));
        let mut text = String::new();
        for load in &self.loads {
            text.push_str(&format!(
                "{:names$}  {:>numbers$} bytes  {:5.1}%  {}\n",
                name(load),
                bytes(load),
                100.0 * load.bytes as f64 / all,
                load.variables.join(", ")
            ));
        }
        text
    }
}
