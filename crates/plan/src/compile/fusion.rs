//! What is computed together, on the CPUs of a session.

use thalweg_device::Device;
use thalweg_graph::simplify::Simplified;
use thalweg_ops::fused::{Machine, fuse};

use crate::request::Workshop;

/// The same graph, with nodes in place of several that are computed together.
pub(super) fn fused(simplified: Simplified, workshop: Workshop<'_>) -> Simplified {
    let cpu = |device: &Device| matches!(device, Device::Cpu(_));
    let cpus = workshop.devices.iter().map(|d| cpu(d).then(|| d.host()));
    let cpus: Vec<_> = cpus.collect();
    let op = |name: &str| workshop.kernels.get(name).copied();
    let machine = Machine {
        cpus: &cpus,
        op: &op,
    };
    fuse(simplified, &machine)
}
