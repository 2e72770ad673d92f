//! Tasks at their places.

use std::fmt::{Display, Formatter};

/// Kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Parameter server.
    Server,
    /// Worker.
    Worker,
    /// Rank.
    Rank,
}

/// Name of the job, as in the flag `--job_name`: `ps`, `worker` or `rank`.
impl Display for TaskKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TaskKind::Server => "ps",
            TaskKind::Worker => "worker",
            TaskKind::Rank => "rank",
        })
    }
}

/// Task at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedTask {
    /// Kind of the task.
    pub kind: TaskKind,
    /// Number among the tasks of its kind.
    pub index: usize,
    /// Index of its host.
    pub host: usize,
    /// Number among the tasks of its kind on the host.
    pub local: usize,
    /// Number of tasks of its kind on the host.
    pub local_size: usize,
    /// Port at which it listens; 0 for ranks, which choose their own.
    pub port: u16,
    /// Port at which it serves its metrics, if it does.
    pub metrics: Option<u16>,
    /// GPUs that it sees; `None` for those of its environment.
    pub gpus: Option<Vec<String>>,
    /// Cores on which it runs; all of the host if empty.
    pub cores: Vec<usize>,
}

impl PlacedTask {
    /// Name of the task, such as `worker 1`.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind, self.index)
    }
}

/// Adds `count` tasks of a kind to a host, numbered on from `first`.
pub(super) fn add(
    tasks: &mut Vec<PlacedTask>,
    kind: TaskKind,
    first: usize,
    host: usize,
    count: usize,
) {
    tasks.extend((0..count).map(|local| PlacedTask {
        kind,
        index: first + local,
        host,
        local,
        local_size: count,
        port: 0,
        metrics: None,
        gpus: None,
        cores: Vec::new(),
    }));
}
