//! `ReplicaDeviceSetter`: puts variables on the parameter servers and all other nodes on the
//! worker.

use std::sync::{Arc, Mutex};

use thalweg_tensor::sync::Unpoisoned;

use super::strategy::{PsStrategy, RoundRobin};
use super::{DeviceFnError, DeviceScope, DeviceSpec};
use crate::node::Node;

/// The ops that stand for a variable: TensorFlow's list.
const PS_OPS: [&str; 9] = [
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
];

/// TensorFlow's `replica_device_setter`: a device scope that puts variables on parameter servers,
/// one task each by a [`PsStrategy`], and everything else on the worker.
///
/// A device that the node itself or an inner scope asks for wins over both.
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_graph::DeviceSpec;
/// use thalweg_graph::device::ReplicaDeviceSetter;
///
/// let g = ops::graph();
/// let worker = DeviceSpec::parse("/job:worker/task:3")?;
/// let setter = ReplicaDeviceSetter::new(2).worker_device(worker);
/// g.device(setter, || {
///     for name in ["a", "b", "c"] {
///         ops::handle(&g, name, [10]);
///     }
///     ops::placeholder(&g, "x", [10]);
/// });
///
/// let device = |name: &str| {
///     let node = g.find(name).expect("a node").id();
///     g.snapshot().node(node).device.to_string()
/// };
/// assert_eq!(["a", "b", "c"].map(device), ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]);
/// assert_eq!(device("x"), "/job:worker/task:3");
/// # Ok::<(), thalweg_graph::SpecError>(())
/// ```
pub struct ReplicaDeviceSetter {
    ps_tasks: u32,
    ps_device: DeviceSpec,
    worker_device: DeviceSpec,
    merge_devices: bool,
    ps_ops: Vec<String>,
    strategy: Box<dyn PsStrategy>,
}

impl ReplicaDeviceSetter {
    /// A setter for this many parameter servers, the tasks of job `ps`; other nodes go to job
    /// `worker`.
    pub fn new(ps_tasks: u32) -> ReplicaDeviceSetter {
        let job = |name: &str| DeviceSpec {
            job: Some(name.into()),
            ..DeviceSpec::default()
        };
        let ops = PS_OPS.iter().chain(&["VarHandleOp"]);
        ReplicaDeviceSetter {
            ps_tasks,
            ps_device: job("ps"),
            worker_device: job("worker"),
            merge_devices: true,
            ps_ops: ops.map(|&op| op.to_owned()).collect(),
            strategy: Box::new(RoundRobin::new(ps_tasks)),
        }
    }

    /// A setter for the jobs of a cluster, each with its number of tasks: the servers are those of
    /// the job of `ps_device`. Without such a job, or with one without tasks, the scope is
    /// [`DeviceScope::None`], as in TensorFlow.
    pub fn in_cluster<'j>(
        cluster: impl IntoIterator<Item = (&'j str, u32)>,
        ps_device: DeviceSpec,
    ) -> ReplicaDeviceSetter {
        let job = ps_device.job.as_deref();
        let mut jobs = cluster.into_iter();
        let servers = jobs.find(|(name, _)| job == Some(name));
        ReplicaDeviceSetter::new(servers.map_or(0, |(_, tasks)| tasks)).ps_device(ps_device)
    }

    /// Sets the servers' device; the task is chosen if it names a job.
    pub fn ps_device(self, ps_device: DeviceSpec) -> ReplicaDeviceSetter {
        ReplicaDeviceSetter { ps_device, ..self }
    }

    /// Sets the device of all nodes that are not variables.
    pub fn worker_device(self, worker_device: DeviceSpec) -> ReplicaDeviceSetter {
        ReplicaDeviceSetter {
            worker_device,
            ..self
        }
    }

    /// Sets whether a node that has a device gets the parts that it leaves open from the setter;
    /// `true` by default.
    pub fn merge_devices(self, merge_devices: bool) -> ReplicaDeviceSetter {
        ReplicaDeviceSetter {
            merge_devices,
            ..self
        }
    }

    /// Sets the ops that go to the servers.
    pub fn ps_ops<S: Into<String>>(self, ops: impl IntoIterator<Item = S>) -> ReplicaDeviceSetter {
        let ps_ops = ops.into_iter().map(Into::into).collect();
        ReplicaDeviceSetter { ps_ops, ..self }
    }

    /// Sets the strategy that chooses a server; round-robin by default.
    pub fn strategy(self, strategy: impl PsStrategy + 'static) -> ReplicaDeviceSetter {
        ReplicaDeviceSetter {
            strategy: Box::new(strategy),
            ..self
        }
    }
}

impl From<ReplicaDeviceSetter> for DeviceScope {
    /// With no servers this is [`DeviceScope::None`], as in TensorFlow.
    fn from(setter: ReplicaDeviceSetter) -> DeviceScope {
        if setter.ps_tasks == 0 {
            return DeviceScope::None;
        }
        let ReplicaDeviceSetter {
            ps_device,
            worker_device,
            merge_devices,
            ps_ops,
            strategy,
            ..
        } = setter;
        let strategy = Mutex::new(strategy);
        DeviceScope::Function(Arc::new(move |node: &Node| {
            let own = &node.device;
            if !merge_devices && !own.is_empty() {
                return Ok(Some(own.clone()));
            }
            if !ps_ops.iter().any(|op| op == node.op.name) || ps_device.is_empty() {
                return Ok(Some(own.or(&worker_device)));
            }
            let mut server = ps_device.clone();
            let own_job = own.job.as_ref();
            if server.job.is_some() && own_job.is_none_or(|j| server.job.as_ref() == Some(j)) {
                // The choice counts even if the node names its task itself.
                let mut strategy = strategy.lock().unpoisoned();
                server.task = Some(strategy.choose(node)?);
            }
            Ok::<_, DeviceFnError>(Some(own.or(&server)))
        }))
    }
}
