//! Placement of a session's nodes on devices.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;
use thalweg_device::cuda::cards;
use thalweg_device::{DeviceType, Op};
use thalweg_graph::op::Effect;
use thalweg_graph::place::{NamePart, PlaceOptions, PlaceReason, Placement, place};
use thalweg_graph::simplify::known;
use thalweg_graph::{DeviceSpec, Fact, GraphData, Node, PlaceError};
use thalweg_tensor::sync::Unpoisoned;

use crate::error::SessionError;
use crate::kernels::{Kernels, find};
use crate::options::PlanOptions;

/// The placement of a session's graph. The graph only grows, and nodes that were placed stay.
pub struct Placements {
    devices: Vec<DeviceSpec>,
    kept: Mutex<Option<Arc<Placement>>>,
}

impl Placements {
    /// An empty placement for devices of these names.
    pub fn new(devices: Vec<DeviceSpec>) -> Placements {
        Placements {
            devices,
            kept: Mutex::default(),
        }
    }

    /// The same with more devices, after those that there are; nodes that were placed stay where they are.
    pub fn with(&self, more: impl IntoIterator<Item = DeviceSpec>) -> Placements {
        let kept = self.kept.lock().unpoisoned();
        Placements {
            devices: self.devices.iter().cloned().chain(more).collect(),
            kept: Mutex::new(kept.clone()),
        }
    }

    /// Returns the names of the devices, by number.
    pub fn names(&self) -> &[DeviceSpec] {
        &self.devices
    }

    /// Returns the placement of the nodes of `data`.
    ///
    /// # Errors
    /// [`SessionError::Place`], [`SessionError::Gpu`].
    pub fn of(
        &self,
        data: &GraphData,
        kernels: &Kernels,
        options: &PlanOptions,
    ) -> Result<Arc<Placement>, SessionError> {
        let mut kept = self.kept.lock().unpoisoned();
        if let Some(placement) = &*kept
            && placement.len() >= data.len()
        {
            return Ok(placement.clone());
        }
        let types = |node: &Node| -> SmallVec<[&'static str; 2]> {
            // A feed or a constant is wherever it is used.
            let anywhere = node.op.effect == Effect::Feed || known(node);
            // A graph may have an op without any kernel, to be imported and exported; a step that needs it returns the
            // error.
            let written = |op: &&'static Op| !op.kernels.is_empty() || node.op.on_handles.is_some();
            let anywhere = anywhere || !kernels.get(node.op.name).is_some_and(written);
            // A GPU allocates a variable's memory once.
            let shapeless = |o: &Fact| o.variable.as_ref().is_some_and(|(_, s)| !s.is_known());
            if node.outputs.iter().any(shapeless) {
                return SmallVec::from_elem(DeviceType::Cpu.name(), 1);
            }
            let all = DeviceType::ALL.into_iter();
            let have = all.filter(|t| anywhere || find(kernels, *t, node).is_some());
            have.map(DeviceType::name).collect()
        };
        let wanted = PlaceOptions {
            devices: &self.devices,
            kernels: &types,
            soft: options.soft_placement,
            deny_fallback: options.deny_fallback,
            fixed: kept.as_deref(),
        };
        let placed = Arc::new(place(data, &wanted).map_err(error)?);
        *kept = Some(placed.clone());
        Ok(placed)
    }
}

/// Adds the machine's GPUs to the error of a node that asks for one.
fn error(place: PlaceError) -> SessionError {
    let gpu = DeviceType::Gpu.name();
    let asks_for_gpu = matches!(
        &place.reason,
        PlaceReason::NoSuchDevice { part: NamePart::Type, value, .. } if value == gpu
    );
    let place = Box::new(place);
    if !asks_for_gpu {
        return SessionError::Place(place);
    }
    let found = match cards() {
        Ok(cards) => {
            let names: Vec<&str> = cards.iter().map(|c| c.name.as_str()).collect();
            let names = names.join(", ");
            format!(
                "This machine has {names}: give the session its GPUs with SessionOptions::with_gpus"
            )
        }
        Err(e) => format!("On this machine {e}"),
    };
    SessionError::Gpu { place, found }
}
