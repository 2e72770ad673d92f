//! Cluster propagation (`ConfigProto.cluster_def`): the name that a client gives to the task of its session.

use std::borrow::Cow;
use std::sync::Arc;

use thalweg_graph::DeviceSpec;
use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::RunMetadata;
use tonic::Code;

use super::messages::{ClusterDef, DeviceAttributes};
use super::status::Status;

/// The name of this task in a client's cluster.
pub(super) struct TaskAlias {
    job: Arc<str>,
    task: u32,
    /// A device of this task.
    own: DeviceSpec,
}

impl TaskAlias {
    /// The alias that `cluster` gives to the task at `target`, which has the device `own`. `None` if it is the task's own
    /// name.
    ///
    /// # Errors
    /// The cluster does not have the target, or has other tasks: these would have to be renamed too.
    pub(super) fn new(
        cluster: &ClusterDef,
        target: &str,
        own: &DeviceSpec,
    ) -> Result<Option<TaskAlias>, Status> {
        let address = target.trim_start_matches("grpc://");
        let tasks = cluster.job.iter().flat_map(|job| {
            let tasks = job.tasks.iter();
            tasks.map(|(task, address)| (&*job.name, *task, address.as_str()))
        });
        let mut found = tasks.clone().filter(|(.., at)| *at == address);
        let Some((job, task, _)) = found.next() else {
            return Err(Status::invalid(format!(
                "ConfigProto.cluster_def has no task at {address}, the target of the session"
            )));
        };
        if found.next().is_some() {
            return Err(Status::invalid(format!(
                "ConfigProto.cluster_def has several tasks at {address}, the target of the session"
            )));
        }
        let task = u32::try_from(task).map_err(|_| {
            Status::invalid(format!(
                "ConfigProto.cluster_def has the task number {task}"
            ))
        })?;
        if own.job.as_deref() == Some(job) && own.task == Some(task) {
            return Ok(None);
        }
        let count = tasks.count();
        if count > 1 {
            let text = format!(
                "ConfigProto.cluster_def has {count} tasks, and a session can rename its own task only: start the \
                 servers with the names and addresses of the cluster (thalweg server --job JOB --task N \
                 --JOB-hosts HOST:PORT,...)"
            );
            return Err(Status::new(Code::Unimplemented, text));
        }
        Ok(Some(TaskAlias {
            job: job.into(),
            task,
            own: own.clone(),
        }))
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
        let jobs = cluster(&[("worker", &["a:1"])]);
        let alias = TaskAlias::new(&jobs, "grpc://a:1", &own())
            .unwrap()
            .unwrap();
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
    fn a_cluster_has_the_target_once_and_no_other_task() {
        let text = |jobs: &[(&str, &[&str])]| {
            TaskAlias::new(&cluster(jobs), "grpc://a:1", &own()).map(|alias| alias.is_some())
        };
        assert_eq!(text(&[("localhost", &["a:1"])]), Ok(false));
        assert_eq!(text(&[("localhost", &["a:1", "b:1"])]), Ok(false));
        for (jobs, expected) in [
            (&[("worker", &["b:1"][..])][..], "has no task at a:1"),
            (&[("worker", &["a:1", "a:1"])], "has several tasks at a:1"),
            (&[("worker", &["a:1", "b:1"])], "has 2 tasks"),
        ] {
            let error = text(jobs).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
    }
}
