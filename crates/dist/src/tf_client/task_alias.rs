//! Cluster propagation (`ConfigProto.cluster_def`): the name that a client gives to the task of its session.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_graph::DeviceSpec;
use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::RunMetadata;

use super::messages::{ClusterDef, DeviceAttributes};
use super::status::Status;
use crate::cluster::spec::{ClusterSpec, TaskName};
use crate::error::ClusterError;
use crate::master::link::{TaskLink, TaskRoute};
use crate::worker::session_cluster::{check_callable, peers_of_session};
use crate::worker::state::Worker;

/// A client's cluster, and the name that this task has in it.
pub(super) struct ClientCluster {
    pub(super) cluster: ClusterSpec,
    pub(super) own: TaskName,
}

impl ClientCluster {
    /// The cluster of a session whose target is `target`.
    ///
    /// # Errors
    /// It is malformed, or has not one task at the target.
    pub(super) fn new(def: &ClusterDef, target: &str) -> Result<ClientCluster, Status> {
        let address = target.trim_start_matches("grpc://");
        let mut jobs: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
        let mut found = Vec::new();
        for job in &def.job {
            for (&task, at) in &job.tasks {
                let number = u32::try_from(task).map_err(|_| {
                    Status::invalid(format!(
                        "ConfigProto.cluster_def has the task number {task}"
                    ))
                })?;
                if at == address {
                    found.push((job.name.clone(), number));
                }
                let tasks = jobs.entry(job.name.clone()).or_default();
                tasks.insert(number, at.clone());
            }
        }
        let own = match found.len() {
            1 => found.swap_remove(0),
            count => {
                let has = if count == 0 {
                    "no task"
                } else {
                    "several tasks"
                };
                return Err(Status::invalid(format!(
                    "ConfigProto.cluster_def has {has} at {address}, the target of the session"
                )));
            }
        };
        let cluster = ClusterSpec::sparse(jobs)
            .map_err(|e| Status::invalid(format!("ConfigProto.cluster_def: {e}")))?;
        Ok(ClientCluster { cluster, own })
    }

    /// `true` if it has this task alone.
    pub(super) fn is_single(&self) -> bool {
        self.cluster
            .jobs()
            .map(|job| self.cluster.len(job))
            .sum::<usize>()
            == 1
    }

    /// `true` if a task's own cluster has all of its tasks.
    pub(super) fn is_part_of(&self, whole: &ClusterSpec) -> bool {
        let mut jobs = self.cluster.jobs();
        jobs.all(|job| {
            let mut tasks = self.cluster.tasks(job);
            tasks.all(|(index, _)| whole.address(job, index).is_ok())
        })
    }

    /// The links to its tasks: this one, and the others.
    ///
    /// # Errors
    /// Another task cannot be called.
    pub(super) fn links(&self, worker: &Arc<Worker>) -> Result<Vec<TaskLink>, ClusterError> {
        check_callable(&worker.cluster, &self.cluster)?;
        let own = TaskLink::named(TaskRoute::Local(worker.clone()), self.own.clone());
        let mut links = vec![own];
        let peers = peers_of_session(&worker.peers);
        for job in self.cluster.jobs() {
            for (index, address) in self.cluster.tasks(job) {
                let name = (job.to_owned(), index);
                if name != self.own {
                    links.push(TaskLink::new(TaskRoute::Remote(peers.get(&name, address)?)));
                }
            }
        }
        Ok(links)
    }
}

/// The name of this task in a client's cluster, whose only task it is.
pub(super) struct TaskAlias {
    job: Arc<str>,
    task: u32,
    /// A device of this task.
    own: DeviceSpec,
}

impl TaskAlias {
    /// The alias of a task that has the device `own`.
    pub(super) fn new((job, task): TaskName, own: &DeviceSpec) -> TaskAlias {
        TaskAlias {
            job: job.into(),
            task,
            own: own.clone(),
        }
    }

    /// The graph with this task's own name in its devices.
    pub(super) fn to_own<'d>(&self, def: &'d GraphDef) -> Cow<'d, GraphDef> {
        let mut def = def.clone();
        let functions = def.library.iter_mut().flat_map(|l| &mut l.function);
        let bodies = functions.flat_map(|f| &mut f.node_def);
        for node in def.node.iter_mut().chain(bodies) {
            // A device that cannot be read is reported with its node.
            let Ok(mut device) = DeviceSpec::parse(&node.device) else {
                continue;
            };
            let job = device.job.as_ref().is_none_or(|job| *job == self.job);
            let task = device.task.is_none_or(|task| task == self.task);
            let named = device.job.is_some() || device.task.is_some();
            if named && job && task {
                device.job.clone_from(&self.own.job);
                device.task = self.own.task;
                node.device = device.to_string();
            }
        }
        Cow::Owned(def)
    }

    /// The client's name of a device.
    fn to_client(&self, name: &mut String) {
        let Ok(mut device) = DeviceSpec::parse(name) else {
            return;
        };
        if device.job == self.own.job && device.task == self.own.task {
            device.job = Some(self.job.clone());
            device.task = Some(self.task);
            *name = device.to_string();
        }
    }

    /// Renames the devices of an answer.
    pub(super) fn rename_devices(&self, devices: &mut [DeviceAttributes]) {
        devices.iter_mut().for_each(|d| self.to_client(&mut d.name));
    }

    /// Renames the devices in a step's metadata.
    pub(super) fn rename_metadata(&self, metadata: &mut RunMetadata) {
        let stats = metadata
            .step_stats
            .iter_mut()
            .flat_map(|s| &mut s.dev_stats);
        stats.for_each(|d| self.to_client(&mut d.device));
        let parts = metadata.partition_graphs.iter_mut();
        parts
            .flat_map(|g| &mut g.node)
            .for_each(|n| self.to_client(&mut n.device));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::JobDef;
    use thalweg_graphdef::messages::NodeDef;

    fn cluster(jobs: &[(&str, &[&str])]) -> ClusterDef {
        let job = |(name, tasks): &(&str, &[&str])| JobDef {
            name: (*name).to_owned(),
            tasks: (0..).zip(tasks.iter().map(|t| (*t).to_owned())).collect(),
        };
        ClusterDef {
            job: jobs.iter().map(job).collect(),
        }
    }

    fn own() -> DeviceSpec {
        DeviceSpec::parse("/job:localhost/replica:0/task:0/device:CPU:0").unwrap()
    }

    #[test]
    fn devices_have_the_names_of_the_clients_cluster() {
        let alias = TaskAlias::new(("worker".to_owned(), 0), &own());
        let node = |device: &str| NodeDef {
            device: device.to_owned(),
            ..NodeDef::default()
        };
        let devices = [
            "/job:worker/task:0",
            "/job:worker/device:CPU:0",
            "/job:ps/task:0",
            "/device:CPU:0",
            "",
        ];
        let def = GraphDef {
            node: devices.iter().map(|d| node(d)).collect(),
            ..GraphDef::default()
        };
        let renamed = alias.to_own(&def);
        let found: Vec<&str> = renamed.node.iter().map(|n| &*n.device).collect();
        let expected = [
            "/job:localhost/task:0",
            "/job:localhost/task:0/device:CPU:0",
            "/job:ps/task:0",
            "/device:CPU:0",
            "",
        ];
        assert_eq!(found, expected);
        let mut devices = [DeviceAttributes {
            name: own().to_string(),
            ..DeviceAttributes::default()
        }];
        alias.rename_devices(&mut devices);
        assert_eq!(devices[0].name, "/job:worker/replica:0/task:0/device:CPU:0");
    }

    #[test]
    fn a_cluster_has_the_target_once() {
        let of = |jobs: &[(&str, &[&str])]| {
            let found = ClientCluster::new(&cluster(jobs), "grpc://a:1");
            found.map(|c| (c.own.clone(), c.is_single()))
        };
        let own = ("worker".to_owned(), 0);
        assert_eq!(of(&[("worker", &["a:1"])]), Ok((own.clone(), true)));
        assert_eq!(of(&[("worker", &["a:1", "b:1"])]), Ok((own, false)));
        for (jobs, expected) in [
            (&[("worker", &["b:1"][..])][..], "has no task at a:1"),
            (&[("worker", &["a:1", "a:1"])], "has several tasks at a:1"),
            (&[("worker", &["a:1", "b"])], "write it as host:port"),
        ] {
            let error = of(jobs).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
    }
}
