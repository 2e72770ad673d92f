//! Layout of a job: the host, port, GPUs and cores of each task. Its functions start nothing.

mod batch_hosts;
mod cluster;
mod host_list;
mod ports;
mod ranks;
mod resources;
mod shape;
mod task;
#[cfg(test)]
mod tests;

pub use batch_hosts::batch_hosts;
pub use host_list::JobHost;
pub(crate) use host_list::checked_name;
pub use ports::PortChoice;
pub use resources::{HostResources, Sharing, assign};
pub use shape::{ClusterShape, JobShape};
pub use task::{PlacedTask, TaskKind};

use crate::error::Result;

/// Places the tasks of a job on hosts. Servers come first, then workers, each in the order of their numbers.
///
/// # Errors
/// The hosts are too few, or have too few slots.
pub fn place(shape: &JobShape, hosts: &[JobHost]) -> Result<Vec<PlacedTask>> {
    match shape {
        JobShape::Cluster(shape) => cluster::place(shape, hosts),
        JobShape::Ranks(ranks) => ranks::place(*ranks, hosts),
    }
}
