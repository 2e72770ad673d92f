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

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_graph::{Graph, Output};
    use thalweg_ops::{MathOps, SourceOps, StateOps};
    use thalweg_tensor::{DType, Shape, Tensor};

    use crate::testing::{Planner, graph};

    fn names(devices: &[&str]) -> Vec<DeviceSpec> {
        let name = |d: &&str| DeviceSpec::parse(&format!("/job:localhost/replica:0/task:0{d}"));
        devices.iter().map(|d| name(d).unwrap()).collect()
    }

    /// The device of the node of each output.
    fn numbers(
        places: &Placements,
        g: &Graph,
        of: &[Output<'_>],
    ) -> Result<Vec<u32>, SessionError> {
        let planner = Planner::cpus(&[1]);
        let placed = places.of(&g.snapshot(), &planner.machine.kernels, &planner.options)?;
        Ok(of
            .iter()
            .map(|o| placed.numbers()[o.id().node.index()])
            .collect())
    }

    #[test]
    fn a_node_is_on_the_first_device_of_the_best_type_with_a_kernel() {
        let places = Placements::new(names(&["/cpu:0", "/gpu:0", "/gpu:1"]));
        let g = graph();
        let x = g.placeholder("x", DType::F32, [2]);
        let (tanh, asked) = (x.tanh(), g.device("/cpu:0", || x.sin()));
        let strings = g.constant(Tensor::from("text"));
        let joined = g.op("StringJoin").inputs([strings, strings]).output();
        assert_eq!(
            numbers(&places, &g, &[tanh, asked, joined]).unwrap(),
            [1, 0, 0]
        );
    }

    #[test]
    fn a_variable_without_a_known_shape_stays_on_a_cpu() {
        let places = Placements::new(names(&["/cpu:0", "/gpu:0"]));
        let g = graph();
        let handle = |name, shape: Shape| {
            let node = g.op("VarHandleOp").attr("dtype", DType::F32);
            node.attr("shape", shape).name(name).output()
        };
        let known = handle("known", Shape::known(&[2]));
        let open = handle("open", Shape::partial([None]));
        assert_eq!(numbers(&places, &g, &[known, open]).unwrap(), [1, 0]);
    }

    #[test]
    fn nodes_that_were_placed_stay_when_the_graph_and_the_devices_grow() {
        let few = Placements::new(names(&["/cpu:0"]));
        let g = graph();
        let x = g.placeholder("x", DType::F32, [2]);
        let old = x.tanh();
        assert_eq!(numbers(&few, &g, &[old]).unwrap(), [0]);
        let more = few.with(names(&["/gpu:0"]));
        assert_eq!(more.names(), names(&["/cpu:0", "/gpu:0"]));
        let new = x.exp();
        assert_eq!(numbers(&more, &g, &[old, new]).unwrap(), [0, 1]);
        // The earlier devices know nothing of the later one.
        assert_eq!(numbers(&few, &g, &[old, new]).unwrap(), [0, 0]);
    }

    #[test]
    fn a_placement_of_the_whole_graph_is_kept() {
        let places = Placements::new(names(&["/cpu:0"]));
        let planner = Planner::cpus(&[1]);
        let g = graph();
        g.variable("w", 1.0f32);
        let data = g.snapshot();
        let placed = || {
            let kernels = &planner.machine.kernels;
            places.of(&data, kernels, &planner.options).unwrap()
        };
        assert!(Arc::ptr_eq(&placed(), &placed()));
    }

    #[test]
    fn only_a_node_that_asks_for_a_gpu_is_told_of_the_gpus_of_the_machine() {
        let places = Placements::new(names(&["/cpu:0"]));
        for (device, gpu) in [("/gpu:0", true), ("/cpu:3", false), ("/job:ps", false)] {
            let g = graph();
            let x = g.device(device, || g.placeholder("x", DType::F32, [2]).tanh());
            match numbers(&places, &g, &[x]).unwrap_err() {
                SessionError::Gpu { found, .. } => {
                    assert!(gpu && found.contains("his machine"), "{device}: {found}");
                }
                SessionError::Place(place) => assert!(!gpu, "{device}: {place}"),
                other => panic!("{device}: {other}"),
            }
        }
    }
}
