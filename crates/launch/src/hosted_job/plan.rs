//! Plan of a job: the place, the address, the command and the environment of each task.

use std::net::IpAddr;

use serde_json::json;
use thalweg_launch_env::variables;

use super::address::with_port;
use super::job::HostedJob;
use crate::error::{LaunchError, Result};
use crate::layout::{
    HostResources, JobHost, JobShape, PlacedTask, PortChoice, Sharing, TaskKind, assign, place,
};
use crate::probe::probe;
use crate::protocol::{ProbeRequest, StartTask};

/// Plan of a job.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// Hosts that have tasks.
    pub hosts: Vec<PlannedHost>,
    /// Tasks, servers first.
    pub tasks: Vec<PlannedTask>,
}

/// Host of a plan.
#[derive(Clone, Debug)]
pub struct PlannedHost {
    /// Name of the host.
    pub name: String,
    /// Address at which its tasks listen.
    pub address: String,
    /// Command that runs the agent there; empty for this host.
    pub access: Vec<String>,
}

/// Task of a plan.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    /// Place of the task.
    pub place: PlacedTask,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that the launcher sets. Secrets, and what is known at the start only, are left out.
    pub env: Vec<(String, String)>,
}

/// Coordinator of the ranks of a job.
#[derive(Clone, Debug)]
pub(super) struct RankMeeting {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) secret: String,
    /// Number of times that the ranks were started before.
    pub(super) restart: u32,
}

/// Tasks at their places, and the hosts that have some.
pub(super) struct Places {
    pub(super) hosts: Vec<JobHost>,
    pub(super) tasks: Vec<PlacedTask>,
    pub(super) ports: PortChoice,
}

impl Places {
    /// Chooses the ports, GPUs and cores of the tasks from what each host has.
    ///
    /// # Errors
    /// A host has too few free ports.
    pub(super) fn assign(&mut self, resources: &[HostResources], sharing: Sharing) -> Result<()> {
        assign(&mut self.tasks, resources, &self.ports, sharing).map_err(|host| {
            format!(
                "the host '{}' has no free port for another task: use --free-ports",
                self.hosts[host].name
            )
            .into()
        })
    }
}

impl HostedJob {
    /// Plans the job, and starts nothing. Ports, GPUs and cores of other hosts are unknown: nothing listens there, and tasks see
    /// all of them.
    ///
    /// # Errors
    /// The hosts are too few; the network is not trusted.
    pub fn plan(&self) -> Result<JobPlan> {
        let mut places = self.places()?;
        let own = self.own_address(&places.hosts)?;
        let resources: Vec<HostResources> = places
            .hosts
            .iter()
            .map(|host| match self.access.is_local(&host.name) {
                true => resources_of_this_host(&self.task_address(host, own), &places.ports),
                false => HostResources::default(),
            })
            .collect();
        places.assign(&resources, self.options.sharing)?;
        let hosts = places.hosts.iter().map(|host| PlannedHost {
            name: host.name.clone(),
            address: self.task_address(host, own),
            access: match self.access.is_local(&host.name) {
                true => Vec::new(),
                false => self.access.command(&host.name, &self.agent_path()),
            },
        });
        let hosts = hosts.collect();
        let starts = self.starts(&places, own, None)?;
        let tasks = places.tasks.into_iter().zip(starts);
        let tasks = tasks.map(|(place, start)| PlannedTask {
            place,
            command: [vec![start.program], start.args].concat(),
            env: start.env,
        });
        let tasks = tasks.collect();
        Ok(JobPlan { hosts, tasks })
    }

    /// Places the tasks on hosts, and leaves out hosts without any.
    ///
    /// # Errors
    /// The hosts are too few.
    pub(super) fn places(&self) -> Result<Places> {
        if self.command.is_empty() {
            return Err("no program is named".into());
        }
        let this = JobHost {
            name: "localhost".to_owned(),
            ..JobHost::default()
        };
        let all = match self.hosts.is_empty() {
            true => std::slice::from_ref(&this),
            false => &self.hosts,
        };
        for (at, host) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.name == host.name) {
                return Err(named_twice(&host.name));
            }
        }
        let mut tasks = place(&self.shape, all)?;
        let used: Vec<usize> = (0..all.len())
            .filter(|host| tasks.iter().any(|task| task.host == *host))
            .collect();
        for task in &mut tasks {
            task.host = used.iter().position(|h| *h == task.host).unwrap_or(0);
        }
        let most = (0..used.len()).map(|host| tasks.iter().filter(|t| t.host == host).count());
        let most = most.max().unwrap_or(0);
        Ok(Places {
            hosts: used.into_iter().map(|host| all[host].clone()).collect(),
            tasks,
            ports: match (&self.shape, self.options.free_ports) {
                (JobShape::Ranks(_), _) => PortChoice::none(),
                (_, true) => PortChoice::random(most).with_metrics(self.options.metrics),
                (_, false) => PortChoice::fixed(most).with_metrics(self.options.metrics),
            },
        })
    }

    /// Address at which a task serves its metrics, if it does.
    pub(super) fn metrics_address(
        &self,
        places: &Places,
        own: IpAddr,
        task: &PlacedTask,
    ) -> Option<String> {
        let address = self.task_address(&places.hosts[task.host], own);
        Some(with_port(&address, task.metrics?))
    }

    /// Commands of all tasks. Ranks are told of the coordinator if it is known.
    ///
    /// # Errors
    /// The current folder has no path.
    pub(super) fn starts(
        &self,
        places: &Places,
        own: IpAddr,
        meeting: Option<&RankMeeting>,
    ) -> Result<Vec<StartTask>> {
        let addresses = |kind| -> Vec<String> {
            let all = places.tasks.iter().filter(|task| task.kind == kind);
            all.map(|t| with_port(&self.task_address(&places.hosts[t.host], own), t.port))
                .collect()
        };
        let cluster = [addresses(TaskKind::Server), addresses(TaskKind::Worker)];
        let metrics = |task: &PlacedTask| self.metrics_address(places, own, task);
        let bases = [self.base_start(false)?, self.base_start(true)?];
        let start = |task: &PlacedTask| {
            let is_local = self.access.is_local(&places.hosts[task.host].name);
            let StartTask {
                program,
                mut args,
                folder,
                mut env,
                ..
            } = bases[usize::from(is_local)].clone();
            match task.kind {
                TaskKind::Rank => {
                    env.extend(self.rank_variables(task, places.tasks.len(), meeting))
                }
                _ => {
                    args.extend(cluster_flags(task, &cluster));
                    env.push(("TF_CONFIG".to_owned(), tf_config(task, &cluster)));
                    env.extend(metrics(task).map(|at| (variables::METRICS.to_owned(), at)));
                }
            }
            if let Some(gpus) = &task.gpus {
                env.push(("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
            }
            env.extend(self.options.env.iter().cloned());
            StartTask {
                program,
                args,
                folder,
                env,
                cores: task.cores.clone(),
            }
        };
        Ok(places.tasks.iter().map(start).collect())
    }
}

impl HostedJob {
    /// Command of a task on this host or another, without the arguments and variables of its own.
    ///
    /// # Errors
    /// The current folder has no path.
    pub(crate) fn base_start(&self, is_local: bool) -> Result<StartTask> {
        let (program, folder) = self.program(is_local)?;
        let mut env = match is_local {
            true => Vec::new(),
            false => passed_variables(),
        };
        if let Some(folder) = &self.options.protection {
            let folder = folder.display().to_string();
            env.push((variables::PROTECTION.to_owned(), folder));
        } else if self.options.unprotected_network {
            env.push((variables::UNPROTECTED_NETWORK.to_owned(), "1".to_owned()));
        }
        Ok(StartTask {
            program,
            args: self.command[1..].to_vec(),
            folder,
            env,
            cores: Vec::new(),
        })
    }
}

/// Error of a host that a list names a second time.
pub(crate) fn named_twice(host: &str) -> LaunchError {
    format!("the host '{host}' is named twice: name it once, with all of its slots, as {host}:2")
        .into()
}

/// Flags of a task of a cluster.
pub(crate) fn cluster_flags(
    task: &PlacedTask,
    [servers, workers]: &[Vec<String>; 2],
) -> Vec<String> {
    [
        ("--job_name", task.kind.to_string()),
        ("--task_index", task.index.to_string()),
        ("--ps_hosts", servers.join(",")),
        ("--worker_hosts", workers.join(",")),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value])
    .collect()
}

/// TensorFlow's description of a cluster and of one of its tasks.
pub(crate) fn tf_config(task: &PlacedTask, [servers, workers]: &[Vec<String>; 2]) -> String {
    let mut cluster = json!({ "worker": workers });
    if !servers.is_empty() {
        cluster["ps"] = json!(servers);
    }
    let task = json!({ "type": task.kind.to_string(), "index": task.index });
    json!({ "cluster": cluster, "task": task }).to_string()
}

/// Variables that the user has set for all tasks. Another host has an environment of its own.
pub(crate) fn passed_variables() -> Vec<(String, String)> {
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.filter(|(name, _)| {
        let passed = name.starts_with("HOROVOD_") || name.starts_with("THALWEG_");
        passed && name != variables::SECRET
    })
    .collect()
}

fn resources_of_this_host(address: &str, ports: &PortChoice) -> HostResources {
    let state = probe(&ProbeRequest {
        address: address.to_owned(),
        ports: ports.all(),
        ..ProbeRequest::default()
    });
    HostResources {
        taken_ports: state.taken_ports.into_iter().collect(),
        gpus: state.gpus,
        cores: state.cores,
    }
}
