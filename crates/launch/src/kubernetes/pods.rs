//! Pods of a job.

use serde_json::{Value, json};
use thalweg_launch_env::variables;

use super::check::TASK_INDEX;
use super::job::{KubernetesJob, PodRestart, RANK_PORT, SERVER_PORT, WORKER_PORT};
use crate::error::Result;
use crate::layout::TaskKind;

/// Variable of the GPUs that a program sees.
const GPUS: &str = "CUDA_VISIBLE_DEVICES";
/// Folder of the keys.
const KEYS: &str = "/var/run/secrets/thalweg";
/// Mode of the keys: 0400. They belong to root.
const KEY_MODE: u32 = 0o400;

/// Pods of a kind.
pub(super) struct Pods<'a> {
    pub(super) job: &'a KubernetesJob,
    pub(super) kind: TaskKind,
    pub(super) count: usize,
}

impl Pods<'_> {
    /// Template of the Pods.
    ///
    /// # Errors
    /// The addresses of the tasks are too long.
    pub(super) fn template(&self) -> Result<Value> {
        let job = self.job;
        let mut spec = json!({
            // An indexed Job gives its Pods host names; this gives them DNS names.
            "subdomain": job.name,
            "restartPolicy": match (self.kind, job.restart) {
                (TaskKind::Server, _) => "Always",
                (_, PodRestart::Never) => "Never",
                (_, PodRestart::OnFailure) => "OnFailure",
            },
            "containers": [self.container()?],
        });
        if let Some(name) = &job.pods.protection_secret {
            let keys = json!({"secretName": name, "defaultMode": KEY_MODE});
            spec["volumes"] = json!([{"name": "keys", "secret": keys}]);
        }
        if self.kind == TaskKind::Server {
            // A Pod of a StatefulSet has the subdomain of its Service.
            let _ = spec.as_object_mut().map(|spec| spec.remove("subdomain"));
        }
        Ok(json!({"metadata": {"labels": job.labels(self.kind)}, "spec": spec}))
    }

    fn container(&self) -> Result<Value> {
        let job = self.job;
        let mut args: Vec<String> = job.command[1..].iter().map(|arg| literal(arg)).collect();
        args.extend(self.flags()?);
        let port = match self.kind {
            TaskKind::Server => SERVER_PORT,
            TaskKind::Worker => WORKER_PORT,
            TaskKind::Rank => RANK_PORT,
        };
        let mut container = json!({
            "name": self.kind.to_string(),
            "image": job.pods.image,
            "command": [literal(&job.command[0])],
            "args": args,
            "env": self.env()?,
            "ports": [{"containerPort": port}],
        });
        let resources = self.resources();
        if resources != json!({}) {
            container["resources"] = resources;
        }
        if job.pods.protection_secret.is_some() {
            container["volumeMounts"] =
                json!([{"name": "keys", "mountPath": KEYS, "readOnly": true}]);
        }
        if self.kind == TaskKind::Server {
            container["readinessProbe"] = self.probe("thalweg.Worker");
            container["livenessProbe"] = self.probe("");
        }
        Ok(container)
    }

    /// Check of a server's health. Kubernetes has no keys, so that it only connects to a protected server.
    fn probe(&self, service: &str) -> Value {
        let mut probe = match (&self.job.pods.protection_secret, service) {
            (Some(_), _) => json!({"tcpSocket": {"port": SERVER_PORT}}),
            (None, "") => json!({"grpc": {"port": SERVER_PORT}}),
            (None, service) => json!({"grpc": {"port": SERVER_PORT, "service": service}}),
        };
        probe["periodSeconds"] = json!(10);
        probe["timeoutSeconds"] = json!(5);
        if service.is_empty() {
            // A program may take a minute until it listens.
            probe["failureThreshold"] = json!(6);
        }
        probe
    }

    /// The four flags of a task of a cluster. Kubernetes puts the number of the Pod in place of the variable.
    fn flags(&self) -> Result<Vec<String>> {
        if self.kind == TaskKind::Rank {
            return Ok(Vec::new());
        }
        let [servers, workers] = self.job.cluster()?;
        let index = format!("$({TASK_INDEX})");
        let flags = [
            ("--job_name", self.kind.to_string()),
            ("--task_index", index),
            ("--ps_hosts", servers.join(",")),
            ("--worker_hosts", workers.join(",")),
        ];
        let words = flags.map(|(name, value)| [name.to_owned(), value]);
        Ok(words.into_iter().flatten().collect())
    }

    /// Variables. One that another names stands before it.
    fn env(&self) -> Result<Vec<Value>> {
        let job = self.job;
        let mut all = Vec::new();
        let mut set = |name: &str, value: String| all.push(json!({"name": name, "value": value}));
        if self.kind == TaskKind::Rank {
            // Kubernetes sets JOB_COMPLETION_INDEX.
            set(variables::JOB_SIZE, self.count.to_string());
            set(variables::COORDINATOR, job.host(TaskKind::Rank, 0));
            set(variables::COORDINATOR_PORT, RANK_PORT.to_string());
        }
        match &job.pods.protection_secret {
            Some(_) => set(variables::PROTECTION, KEYS.to_owned()),
            None => set(variables::UNPROTECTED_NETWORK, "1".to_owned()),
        }
        let is_set = job.pods.env.iter().any(|(name, _)| name == GPUS);
        if self.kind == TaskKind::Server && !is_set {
            set(GPUS, String::new());
        }
        for (name, value) in &job.pods.env {
            set(name, literal(value));
        }
        if self.kind != TaskKind::Rank {
            let field = match self.kind {
                TaskKind::Server => "metadata.labels['apps.kubernetes.io/pod-index']",
                _ => "metadata.annotations['batch.kubernetes.io/job-completion-index']",
            };
            let index = json!({"fieldRef": {"fieldPath": field}});
            all.insert(0, json!({"name": TASK_INDEX, "valueFrom": index}));
            let config = self.tf_config()?;
            all.push(json!({"name": variables::TF_CONFIG, "value": config}));
        }
        Ok(all)
    }

    /// TensorFlow's description of the cluster and the task, whose number Kubernetes puts in.
    fn tf_config(&self) -> Result<String> {
        let [servers, workers] = self.job.cluster()?;
        let mut cluster = json!({"worker": workers});
        if !servers.is_empty() {
            cluster["ps"] = json!(servers);
        }
        let kind = self.kind;
        Ok(format!(
            r#"{{"cluster":{cluster},"task":{{"type":"{kind}","index":$({TASK_INDEX})}}}}"#
        ))
    }

    /// Requests and limits. Servers need no GPUs.
    fn resources(&self) -> Value {
        let pods = &self.job.pods;
        let (mut requests, mut limits) = (json!({}), json!({}));
        if let Some(cpu) = &pods.cpu {
            requests["cpu"] = json!(cpu);
        }
        if let Some(memory) = &pods.memory {
            requests["memory"] = json!(memory);
            limits["memory"] = json!(memory);
        }
        if pods.gpus > 0 && self.kind != TaskKind::Server {
            limits["nvidia.com/gpu"] = json!(pods.gpus);
        }
        let mut all = json!({});
        for (name, some) in [("requests", requests), ("limits", limits)] {
            if some != json!({}) {
                all[name] = some;
            }
        }
        all
    }
}

/// Text in which Kubernetes replaces nothing: it takes `$(NAME)` for a variable, and `$$` for a dollar.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}
