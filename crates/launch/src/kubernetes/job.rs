//! KubernetesJob: a job, its options, and the names of its Pods.

use serde_json::{Value, json};

use super::check;
use crate::error::Result;
use crate::layout::TaskKind;

/// Port of servers: the first one of the other launchers.
pub(super) const SERVER_PORT: u16 = 2230;
/// Port of workers.
pub(super) const WORKER_PORT: u16 = 2220;
/// Port at which ranks meet. Each Pod has an address of its own, so that no other job uses it.
pub(super) const RANK_PORT: u16 = 2240;
/// Maximum length of a list of addresses, in bytes: Linux gives a process no longer argument than 128 KiB.
const MAX_ADDRESSES: usize = 120 << 10;

/// Job in Kubernetes.
#[derive(Clone, Debug)]
pub struct KubernetesJob {
    /// Name of the job, and of its Service.
    pub name: String,
    /// Namespace; that of the one who creates the objects if `None`.
    pub namespace: Option<String>,
    /// Number of ranks, or of servers and workers.
    pub tasks: PodTasks,
    /// Options of the Pods.
    pub pods: PodOptions,
    /// Number of Pods of ranks or workers that may fail until the job has failed.
    pub backoff_limit: u32,
    /// Restarts of the containers of ranks or workers. Those of servers always start again.
    pub restart: PodRestart,
    /// Program of all tasks in the image, and its arguments.
    pub command: Vec<String>,
}

/// Number of Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodTasks {
    /// So many ranks.
    Ranks(usize),
    /// Parameter servers and workers.
    Cluster {
        /// Number of servers.
        servers: usize,
        /// Number of workers.
        workers: usize,
    },
}

/// Options of Pods.
#[derive(Clone, Debug, Default)]
pub struct PodOptions {
    /// Image of the containers.
    pub image: String,
    /// GPUs of each rank or worker.
    pub gpus: u32,
    /// Cores of each Pod, such as `4` or `500m`.
    pub cpu: Option<String>,
    /// Memory of each Pod, such as `16Gi`.
    pub memory: Option<String>,
    /// Variables of all tasks.
    pub env: Vec<(String, String)>,
    /// Secret with the keys of `thalweg protect`.
    pub protection_secret: Option<String>,
    /// `true` to allow tasks without keys.
    pub unprotected_network: bool,
}

/// Restarts of the containers of Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodRestart {
    /// A failed container fails its Pod; the Job may start another.
    #[default]
    Never,
    /// A failed container starts again in its Pod.
    OnFailure,
}

impl KubernetesJob {
    /// Checks the job by the rules of Kubernetes.
    ///
    /// # Errors
    /// A name, a quantity or a variable breaks them; nothing protects the job; there are no tasks.
    pub(super) fn check(&self) -> Result<()> {
        check::job_name(&self.name)?;
        if let Some(name) = &self.namespace {
            check::namespace(name)?;
        }
        let pods = &self.pods;
        check::image(&pods.image)?;
        for (flag, text) in [("--cpu", &pods.cpu), ("--memory", &pods.memory)] {
            if let Some(text) = text {
                check::quantity(flag, text)?;
            }
        }
        for (at, (name, value)) in pods.env.iter().enumerate() {
            check::variable(name, value)?;
            if pods.env[..at].iter().any(|(other, _)| other == name) {
                return Err(format!("--env {name}: it is set twice").into());
            }
        }
        match (&pods.protection_secret, pods.unprotected_network) {
            (Some(name), _) => check::secret(name)?,
            (None, true) => {}
            (None, false) => {
                return Err(
                    "tasks in Pods need --protection-secret NAME, a Secret with keys of `thalweg protect`; or \
                     --unprotected-network, on a network that you trust"
                        .into(),
                );
            }
        }
        if self.command.is_empty() {
            return Err("no program is named".into());
        }
        let tasks = match self.tasks {
            PodTasks::Ranks(ranks) => ranks,
            PodTasks::Cluster { workers, .. } => workers,
        };
        match tasks {
            0 => Err("--workers 0 trains nothing".into()),
            _ => Ok(()),
        }
    }

    /// Name of the objects and Pods of a kind.
    pub(super) fn name_of(&self, kind: TaskKind) -> String {
        match kind {
            TaskKind::Rank => self.name.clone(),
            _ => format!("{}-{kind}", self.name),
        }
    }

    /// DNS name of a Pod. Without a namespace, Pods find it in their own.
    pub(super) fn host(&self, kind: TaskKind, index: usize) -> String {
        let (pod, service) = (self.name_of(kind), &self.name);
        match &self.namespace {
            Some(namespace) => format!("{pod}-{index}.{service}.{namespace}.svc"),
            None => format!("{pod}-{index}.{service}"),
        }
    }

    /// Addresses of all servers, and of all workers.
    ///
    /// # Errors
    /// They are too long for an argument.
    pub(super) fn cluster(&self) -> Result<[Vec<String>; 2]> {
        let PodTasks::Cluster { servers, workers } = self.tasks else {
            return Ok([Vec::new(), Vec::new()]);
        };
        let all = |kind, count, port| -> Vec<String> {
            (0..count)
                .map(|index| format!("{}:{port}", self.host(kind, index)))
                .collect()
        };
        let cluster = [
            all(TaskKind::Server, servers, SERVER_PORT),
            all(TaskKind::Worker, workers, WORKER_PORT),
        ];
        let length = |addresses: &Vec<String>| addresses.iter().map(|a| a.len() + 1).sum::<usize>();
        match cluster.iter().map(length).sum::<usize>() <= MAX_ADDRESSES {
            true => Ok(cluster),
            false => Err(format!(
                "the addresses of {} tasks are longer than {MAX_ADDRESSES} bytes: give fewer tasks",
                servers + workers
            )
            .into()),
        }
    }

    /// Labels of the Pods of a kind.
    pub(super) fn labels(&self, kind: TaskKind) -> Value {
        json!({
            "app.kubernetes.io/name": "thalweg",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": kind.to_string(),
        })
    }
}
