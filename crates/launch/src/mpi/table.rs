//! Table of the tasks of a job, which each of its members gets.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::layout::{PlacedTask, Sharing, TaskKind};

/// Variable that holds the table.
pub(super) const TABLE: &str = "THALWEG_TASK_TABLE";
/// Maximum length of the table, in bytes: Linux gives a process no longer variable than 128 KiB.
const MAX_TABLE: usize = 120 << 10;

/// Tasks of a job by host, in the order of the ranks of their members: those of the first host come first, and on each host the
/// servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskTable {
    /// Version of the program.
    version: String,
    hosts: Vec<TableHost>,
    split_gpus: bool,
    bind_cores: bool,
    /// `true` if the user has set which GPUs all tasks see.
    keep_gpus: bool,
}

/// Tasks of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableHost {
    address: String,
    /// Ports of the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ps: Vec<u16>,
    /// Ports of the workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    worker: Vec<u16>,
    /// Number of ranks.
    #[serde(default, skip_serializing_if = "is_zero")]
    ranks: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl TableHost {
    fn len(&self) -> usize {
        self.ps
            .len()
            .saturating_add(self.worker.len())
            .saturating_add(self.ranks)
    }
}

impl TaskTable {
    /// Table of placed tasks, whose hosts have these addresses.
    pub(super) fn new(
        tasks: &[PlacedTask],
        addresses: Vec<String>,
        sharing: Sharing,
        keep_gpus: bool,
    ) -> TaskTable {
        let host = |address| TableHost {
            address,
            ..TableHost::default()
        };
        let mut hosts: Vec<TableHost> = addresses.into_iter().map(host).collect();
        for task in tasks {
            let host = &mut hosts[task.host];
            match task.kind {
                TaskKind::Server => host.ps.push(task.port),
                TaskKind::Worker => host.worker.push(task.port),
                TaskKind::Rank => host.ranks += 1,
            }
        }
        TaskTable {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hosts,
            split_gpus: sharing.split_gpus,
            bind_cores: sharing.bind_cores,
            keep_gpus,
        }
    }

    /// Text of the table.
    ///
    /// # Errors
    /// It is too long for a variable.
    pub(super) fn text(&self) -> Result<String> {
        let text = serde_json::to_string(self).map_err(std::io::Error::from)?;
        match text.len() <= MAX_TABLE {
            true => Ok(text),
            false => Err(format!(
                "the table of {} tasks has {} bytes, and a variable at most {MAX_TABLE}: use `launch ssh` or `launch slurm`",
                self.len(),
                text.len()
            )
            .into()),
        }
    }

    /// Reads a table.
    ///
    /// # Errors
    /// The text is no table, or one of another version.
    pub(super) fn parse(text: &str) -> Result<TaskTable> {
        if text.len() > MAX_TABLE {
            return Err(format!("{TABLE} has more than {MAX_TABLE} bytes").into());
        }
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| format!("{TABLE}: {e}"))?;
        let own = env!("CARGO_PKG_VERSION");
        if let Some(version) = value["version"].as_str().filter(|version| *version != own) {
            return Err(format!(
                "the launcher has version {version}, and `thalweg` of this host {own}: install one version on all hosts"
            )
            .into());
        }
        Ok(serde_json::from_value(value).map_err(|e| format!("{TABLE}: {e}"))?)
    }

    /// Number of tasks.
    pub(super) fn len(&self) -> usize {
        let sizes = self.hosts.iter().map(TableHost::len);
        sizes.fold(0, usize::saturating_add)
    }

    pub(super) fn sharing(&self) -> Sharing {
        Sharing {
            split_gpus: self.split_gpus,
            bind_cores: self.bind_cores,
        }
    }

    pub(super) fn keeps_gpus(&self) -> bool {
        self.keep_gpus
    }

    /// Tasks on the host of a rank, and the number of the rank's task among them; `None` for a rank beyond the last.
    pub(super) fn host_of(&self, rank: usize) -> Option<(Vec<PlacedTask>, usize)> {
        let (mut first, mut servers, mut workers) = (0usize, 0, 0);
        for (number, host) in self.hosts.iter().enumerate() {
            if rank < host.len().saturating_add(first) {
                let mut tasks = Vec::new();
                let mut add = |kind, index: usize, ports: &[u16]| {
                    let all = ports.iter().enumerate();
                    tasks.extend(all.map(|(local, port)| PlacedTask {
                        kind,
                        index: index + local,
                        host: number,
                        local,
                        local_size: ports.len(),
                        port: *port,
                        metrics: None,
                        gpus: None,
                        cores: Vec::new(),
                    }));
                };
                add(TaskKind::Server, servers, &host.ps);
                add(TaskKind::Worker, workers, &host.worker);
                // A table has few bytes, but may tell any number.
                add(TaskKind::Rank, first, &vec![0; host.ranks.min(1 << 16)]);
                return Some((tasks, rank - first));
            }
            first = host.len().saturating_add(first);
            servers += host.ps.len();
            workers += host.worker.len();
        }
        None
    }

    /// Addresses and ports of the servers, and of the workers.
    pub(super) fn cluster(&self) -> [Vec<(&str, u16)>; 2] {
        let servers = self
            .hosts
            .iter()
            .flat_map(|host| host.ps.iter().map(|port| (&*host.address, *port)));
        let workers = self
            .hosts
            .iter()
            .flat_map(|host| host.worker.iter().map(|port| (&*host.address, *port)));
        [servers.collect(), workers.collect()]
    }
}
