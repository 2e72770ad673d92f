//! Where a session's nodes run.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_device::DeviceType;
use thalweg_graph::op::Effect;
use thalweg_graph::place::{Place, Placement, place};
use thalweg_graph::simplify::known;
use thalweg_graph::{DeviceSpec, GraphData, Node};

use crate::error::SessionError;
use crate::options::SessionOptions;
use crate::plan::{Kernels, find};

/// The placement of a session's graph. The graph only grows, and what was placed stays.
pub(crate) struct Places {
    devices: Vec<DeviceSpec>,
    placement: Mutex<Arc<Placement>>,
}

impl Places {
    pub(crate) fn new(devices: Vec<DeviceSpec>) -> Places {
        Places {
            devices,
            placement: Mutex::default(),
        }
    }

    /// Where the nodes of `data` run.
    ///
    /// # Errors
    /// [`SessionError::Place`].
    pub(crate) fn of(
        &self,
        data: &GraphData,
        kernels: &Kernels,
        options: &SessionOptions,
    ) -> Result<Arc<Placement>, SessionError> {
        let mut kept = self
            .placement
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if kept.devices.len() < data.len() {
            let has_kernel = |node: &Node, kind: &str| {
                // What is fed or constant is wherever it is used.
                node.op.effect == Effect::Feed
                    || known(node)
                    || DeviceType::ALL
                        .iter()
                        .any(|t| t.name() == kind && find(kernels, *t, node).is_some())
            };
            let types = DeviceType::ALL.map(DeviceType::name);
            let placed = place(
                data,
                &Place {
                    devices: &self.devices,
                    types: &types,
                    kernels: &has_kernel,
                    soft: options.soft_placement,
                    deny_fallback: options.deny_fallback,
                    fixed: Some(&kept),
                },
            );
            *kept = Arc::new(placed.map_err(Box::new)?);
        }
        Ok(kept.clone())
    }

    /// The names of the devices, by number.
    pub(crate) fn devices(&self) -> &[DeviceSpec] {
        &self.devices
    }
}
