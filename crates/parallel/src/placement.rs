//! Placement of towers and variables.

use std::sync::{Arc, Mutex};

use thalweg_graph::device::{DeviceFnError, Greedy, PsStrategy, byte_size_load};
use thalweg_graph::op::Effect;
use thalweg_graph::{DeviceScope, DeviceSpec, Graph, Node};
use thalweg_tensor::sync::Unpoisoned;

use crate::mode::{ParameterDevice, ServerPlacement, Task};

/// Name of the job of parameter servers.
pub(crate) const SERVERS: &str = "ps";
/// Ops of variables.
const VARIABLES: [&str; 3] = ["VarHandleOp", "VariableV2", "Variable"];

/// Variables of a graph that a [`ServerPlacement`] has put on parameter servers: the names of their nodes, and their bytes. Those
/// that lie beside others, such as slots of optimizers, are not among them.
pub fn server_variables(g: &Graph) -> Vec<(String, f64)> {
    let data = g.snapshot();
    let on_servers = data.nodes().filter(|(_, node)| {
        node.op.effect == Effect::Handle
            && node.device.job.as_deref() == Some(SERVERS)
            && node.colocation.is_empty()
    });
    let bytes = |node: &Node| byte_size_load(node).unwrap_or(0.0);
    on_servers
        .map(|(_, node)| (node.name.clone(), bytes(node)))
        .collect()
}

/// The devices of this process, and those of the variables.
pub(crate) struct Placement {
    /// Job and task of this process.
    process: DeviceSpec,
    towers: Vec<DeviceSpec>,
    /// Device of the variables that a tower of one process creates.
    shared: Option<Vec<DeviceSpec>>,
    task: Option<Task>,
    servers: ServerPlacement,
}

impl Placement {
    /// Places so many towers on devices of a type; `shared` is the place of the variables that towers of one process
    /// share.
    pub(crate) fn new(
        towers: usize,
        device: &str,
        task: Option<Task>,
        shared: Option<ParameterDevice>,
    ) -> Placement {
        let process = match task {
            None => DeviceSpec::default(),
            Some(task) => match task.worker {
                Some(worker) => spec(&format!("/job:worker/task:{worker}")),
                None => spec("/job:ps/task:0"),
            },
        };
        let on = |device: String| spec(&device).or(&process);
        let towers: Vec<DeviceSpec> = (0..towers)
            .map(|tower| on(format!("/{device}:{tower}")))
            .collect();
        let shared = shared.map(|shared| match shared {
            ParameterDevice::Cpu => vec![on("/cpu:0".to_owned())],
            ParameterDevice::Towers => towers.clone(),
        });
        Placement {
            process,
            towers,
            shared,
            task,
            servers: ServerPlacement::default(),
        }
    }

    /// The same with another placement of variables on servers.
    pub(crate) fn with_servers(self, servers: ServerPlacement) -> Placement {
        Placement { servers, ..self }
    }

    /// The device of a tower.
    pub(crate) fn tower(&self, tower: usize) -> DeviceSpec {
        self.towers[tower].clone()
    }

    /// Builds nodes on the device of a tower.
    #[track_caller]
    pub(crate) fn on_tower<R>(&self, g: &Graph, tower: usize, build: impl FnOnce() -> R) -> R {
        g.device(&self.towers[tower], build)
    }

    /// Builds nodes on the first CPU device of this process.
    #[track_caller]
    pub(crate) fn on_cpu<R>(&self, g: &Graph, build: impl FnOnce() -> R) -> R {
        g.device(spec("/cpu:0").or(&self.process), build)
    }

    /// Builds nodes on the device of the global step: the first server, or the device of the first variables.
    #[track_caller]
    pub(crate) fn on_step<R>(&self, g: &Graph, build: impl FnOnce() -> R) -> R {
        match (self.task, &self.shared) {
            (Some(_), _) => g.device("/job:ps/task:0/cpu:0", build),
            // With the variables: an update that an automatic loss scale may skip is on one device.
            (None, Some(shared)) => g.device(&shared[0], build),
            // A step of one GPU then has no node on its host.
            (None, None) => self.on_tower(g, 0, build),
        }
    }

    /// Device scope of each tower: variables go to `variable_placement` unless each tower has its own.
    pub(crate) fn scope(
        &self,
        tower: usize,
        variable_placement: &VariablePlacement,
    ) -> DeviceScope {
        match variable_placement {
            VariablePlacement::Own => (&self.towers[tower]).into(),
            VariablePlacement::Shared(setter) => setter.scope(&self.towers[tower]),
        }
    }

    /// Policy that places variables on the CPUs of so many parameter servers.
    pub(crate) fn servers(&self, servers: u32) -> SharedPlacement {
        let server = |task| spec(&format!("/job:{SERVERS}/task:{task}/cpu:0"));
        let servers = servers.max(1);
        let devices = (0..servers).map(server).collect();
        SharedPlacement::new(devices, self.servers.strategy(servers))
    }

    /// Creates the policy that places the variables of towers. Call it once: the policy keeps a count of bytes per
    /// device.
    pub(crate) fn variable_placement(&self) -> VariablePlacement {
        match (&self.shared, self.task) {
            (None, _) => VariablePlacement::Own,
            (Some(_), Some(task)) => VariablePlacement::Shared(self.servers(task.servers)),
            (Some(devices), None) => {
                let strategy = Greedy::by_bytes(devices.len() as u32);
                VariablePlacement::Shared(SharedPlacement::new(devices.clone(), Box::new(strategy)))
            }
        }
    }
}

/// Policy that places variables.
pub(crate) enum VariablePlacement {
    /// Each tower has its own variables, on its device.
    Own,
    /// Towers share variables.
    Shared(SharedPlacement),
}

/// Devices of shared variables: each variable goes to the device with the fewest bytes.
#[derive(Clone)]
pub(crate) struct SharedPlacement {
    devices: Vec<DeviceSpec>,
    strategy: Arc<Mutex<Box<dyn PsStrategy>>>,
}

impl SharedPlacement {
    fn new(devices: Vec<DeviceSpec>, strategy: Box<dyn PsStrategy>) -> SharedPlacement {
        SharedPlacement {
            devices,
            strategy: Arc::new(Mutex::new(strategy)),
        }
    }

    /// Creates a scope that places variables on the chosen devices, and all other nodes on `other`.
    pub(crate) fn scope(&self, other: &DeviceSpec) -> DeviceScope {
        let (shared, other) = (self.clone(), other.clone());
        DeviceScope::function(move |node| shared.place(node, &other).map(Some))
    }

    fn place(&self, node: &Node, other: &DeviceSpec) -> Result<DeviceSpec, DeviceFnError> {
        if !VARIABLES.contains(&node.op.name) {
            return Ok(node.device.or(other));
        }
        let mut strategy = self.strategy.lock().unpoisoned();
        let at = strategy.choose(node)? as usize;
        Ok(node.device.or(&self.devices[at % self.devices.len()]))
    }
}

/// Parses a device that is known to be valid.
fn spec(text: &str) -> DeviceSpec {
    DeviceSpec::parse(text).unwrap_or_default()
}
