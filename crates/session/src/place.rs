//! Where a session's nodes run.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_device::Cpu;
use thalweg_graph::GraphData;

use crate::error::SessionError;

/// By node: the number of its device. A graph only grows, and what was placed stays.
#[derive(Default)]
pub(crate) struct Places {
    devices: Mutex<Arc<Vec<u32>>>,
}

impl Places {
    /// The devices of all nodes of `data`.
    pub(crate) fn of(&self, data: &GraphData, cpus: &[Cpu]) -> Result<Arc<Vec<u32>>, SessionError> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.len() < data.len() {
            let all = Arc::make_mut(&mut devices);
            for (_, node) in data.nodes().skip(all.len()) {
                let found = cpus.iter().position(|c| node.device.admits(c.name()));
                all.push(found.unwrap_or(0) as u32);
            }
        }
        Ok(devices.clone())
    }
}
