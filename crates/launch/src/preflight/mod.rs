//! Checks of all hosts before a job, and of those that join an elastic one: agents, programs, disks, clocks and ports, and connections between all pairs.

mod ask;
mod hosts;
mod joining;
mod network;
mod ready_host;
#[cfg(test)]
mod tests;

pub(crate) use ask::Asker;
pub(crate) use hosts::{HostState, greet, probe_hosts};
pub(crate) use joining::{JoinChecks, JoiningHost};
pub(crate) use network::{Endpoint, check_network};
pub(crate) use ready_host::ReadyHost;
