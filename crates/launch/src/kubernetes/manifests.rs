//! Manifests of a job.

use serde_json::{Map, Value, json};

use super::job::{KubernetesJob, PodTasks, RANK_PORT, SERVER_PORT, WORKER_PORT};
use super::pods::Pods;
use super::yaml;
use crate::error::Result;
use crate::layout::TaskKind;

/// Maximum length of all manifests, in bytes: the store of a cluster takes no longer object than 1.5 MiB.
const MAX_TEXT: usize = 1 << 20;

impl KubernetesJob {
    /// Manifests of the job, as YAML.
    ///
    /// # Errors
    /// A name, a quantity or a variable breaks the rules of Kubernetes; nothing protects the job; there are too many tasks.
    pub fn manifests(&self) -> Result<String> {
        let text = yaml::documents(&self.objects()?);
        match text.len() <= MAX_TEXT {
            true => Ok(text),
            false => Err(format!(
                "the manifests have {} bytes, and Kubernetes takes {MAX_TEXT}: give fewer tasks or arguments",
                text.len()
            )
            .into()),
        }
    }

    /// Objects of the job.
    pub(super) fn objects(&self) -> Result<Vec<Value>> {
        self.check()?;
        let service = self.service();
        Ok(match self.tasks {
            PodTasks::Ranks(ranks) => {
                vec![service, self.indexed_job(TaskKind::Rank, ranks)?]
            }
            PodTasks::Cluster {
                servers: 0,
                workers,
            } => vec![service, self.indexed_job(TaskKind::Worker, workers)?],
            PodTasks::Cluster { servers, workers } => vec![
                service,
                self.stateful_set(servers)?,
                self.indexed_job(TaskKind::Worker, workers)?,
            ],
        })
    }

    fn metadata(&self, name: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(name));
        if let Some(namespace) = &self.namespace {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        let labels = json!({
            "app.kubernetes.io/name": "thalweg",
            "app.kubernetes.io/instance": self.name,
        });
        metadata.insert("labels".to_owned(), labels);
        Value::Object(metadata)
    }

    /// Headless Service, which gives each Pod a name. Tasks wait for each other, so that they need the names before all are ready.
    fn service(&self) -> Value {
        let port = |name, port| json!({"name": name, "port": port});
        let ports = match self.tasks {
            PodTasks::Ranks(_) => vec![port("rank", RANK_PORT)],
            PodTasks::Cluster { .. } => {
                vec![port("ps", SERVER_PORT), port("worker", WORKER_PORT)]
            }
        };
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.name),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": {
                    "app.kubernetes.io/name": "thalweg",
                    "app.kubernetes.io/instance": self.name,
                },
                "ports": ports,
            },
        })
    }

    fn indexed_job(&self, kind: TaskKind, count: usize) -> Result<Value> {
        Ok(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(&self.name_of(kind)),
            "spec": {
                "completionMode": "Indexed",
                "completions": count,
                "parallelism": count,
                "backoffLimit": self.backoff_limit,
                "template": Pods { job: self, kind, count }.template()?,
            },
        }))
    }

    fn stateful_set(&self, count: usize) -> Result<Value> {
        let kind = TaskKind::Server;
        Ok(json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": self.metadata(&self.name_of(kind)),
            "spec": {
                "serviceName": self.name,
                "replicas": count,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": self.labels(kind)},
                "template": Pods { job: self, kind, count }.template()?,
            },
        }))
    }
}
