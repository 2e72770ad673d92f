//! Cluster of one session: the names that its client gives to tasks.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::cluster::spec::{ClusterSpec, task_label};
use crate::error::ClusterError;
use crate::transport::messages as wire;
use crate::transport::peers::{PeerOptions, Peers};

/// The tasks of a session's own cluster, and the connections to them.
pub(crate) struct SessionCluster {
    pub(super) cluster: ClusterSpec,
    pub(super) peers: Peers,
}

/// Returns a cluster as a message of its tasks.
pub(crate) fn message(cluster: &ClusterSpec) -> Vec<wire::Task> {
    let of_job = |job: &str| -> Vec<wire::Task> {
        let task = |(index, address): (u32, &str)| wire::Task {
            job: job.to_owned(),
            index,
            address: address.to_owned(),
            number: 0,
        };
        cluster.tasks(job).map(task).collect()
    };
    cluster.jobs().flat_map(of_job).collect()
}

/// Returns peers of other names, in the cluster of one session. Incoming bytes are counted together.
pub(crate) fn peers_of_session(peers: &Peers) -> Peers {
    let mut own = peers.with_options(PeerOptions {
        own: None,
        ..peers.options.clone()
    });
    own.processes = Arc::default();
    own.peer_stats = Arc::default();
    own
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns the cluster that a session brings; `None` if it has none of its own.
///
/// # Errors
/// It is malformed, or names an address that this task may not call.
pub(super) fn session_cluster(
    own: &ClusterSpec,
    peers: &Peers,
    tasks: &[wire::Task],
) -> Result<Option<SessionCluster>, ClusterError> {
    if tasks.is_empty() {
        return Ok(None);
    }
    let mut jobs: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    for task in tasks {
        let job = jobs.entry(task.job.clone()).or_default();
        job.insert(task.index, task.address.clone());
    }
    let cluster = ClusterSpec::sparse(jobs);
    let cluster = cluster.map_err(|e| ClusterError::invalid(e.to_string()))?;
    check_callable(own, &cluster)?;
    Ok(Some(SessionCluster {
        cluster,
        peers: peers_of_session(peers),
    }))
}

/// Fails unless this task may call all tasks of a session's own cluster. A client names the addresses: those of this
/// machine and of the task's own cluster are allowed.
///
/// # Errors
/// An address is another one.
pub(crate) fn check_callable(own: &ClusterSpec, cluster: &ClusterSpec) -> Result<(), ClusterError> {
    let own: Vec<&str> = (own.jobs())
        .flat_map(|job| own.tasks(job).map(|(_, address)| address))
        .collect();
    for job in cluster.jobs() {
        for (index, address) in cluster.tasks(job) {
            if !is_loopback(address) && !own.contains(&address) {
                return Err(ClusterError::invalid(format!(
                    "{} is at {address}, which is neither on this machine nor in the cluster of this server: start \
                     the servers with the names and addresses of the cluster (thalweg server --job JOB --task N \
                     --JOB-hosts HOST:PORT,...)",
                    task_label(job, index)
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::tasks::FuzzedTask;

    #[test]
    fn a_session_names_tasks_of_this_machine_and_of_the_cluster_alone() {
        let task = FuzzedTask::default();
        let of = |address: &str| {
            let tasks = [wire::Task {
                job: "worker".to_owned(),
                index: 1,
                address: address.to_owned(),
                number: 0,
            }];
            session_cluster(&task.worker.cluster, &task.worker.peers, &tasks).map(|c| c.is_some())
        };
        for address in ["127.0.0.1:2222", "localhost:2222", "[::1]:2222"] {
            assert_eq!(of(address), Ok(true), "{address}");
        }
        for (address, expected) in [
            (
                "10.0.0.1:2222",
                "neither on this machine nor in the cluster",
            ),
            (
                "example.org:80",
                "neither on this machine nor in the cluster",
            ),
            ("127.0.0.1", "write it as host:port"),
        ] {
            let error = of(address).unwrap_err().message;
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(
            session_cluster(&task.worker.cluster, &task.worker.peers, &[]).map(|c| c.is_some()),
            Ok(false)
        );
    }
}
