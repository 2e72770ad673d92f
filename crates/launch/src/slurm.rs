//! Jobs in an allocation of Slurm: its hosts, and the variables of the report's scripts.

use thalweg_launch_env::{Lookup, expand_hosts};

use crate::error::{LaunchError, Result};
use crate::layout::{ClusterShape, JobHost, JobShape};

/// Variable with the hosts of the allocation.
const NODES: &str = "SLURM_JOB_NODELIST";

/// Hosts of the allocation in which the launcher runs. Ranks are spread evenly over them.
///
/// # Errors
/// There is no allocation, or its list of hosts cannot be used.
pub fn slurm_hosts(get: Lookup<'_>, shape: &JobShape) -> Result<Vec<JobHost>> {
    let none = format!(
        "{NODES} is not set: run this inside an allocation (salloc, or a script of sbatch; --script prints one)"
    );
    let list = get(NODES).ok_or(none)?;
    let names = expand_hosts(&list).map_err(|e| LaunchError::Argument(format!("{NODES}: {e}")))?;
    let slots = match shape {
        JobShape::Ranks(ranks) => Some(ranks.div_ceil(names.len().max(1))),
        JobShape::Cluster(_) => None,
    };
    let host = |name| JobHost {
        name,
        address: None,
        slots,
    };
    match names.is_empty() {
        true => Err(format!("{NODES} names no host").into()),
        false => Ok(names.into_iter().map(host).collect()),
    }
}

/// Shape of a cluster by the variables of the report's scripts: `TF_NUM_PS`, `TF_NUM_WORKERS`, `TF_PS_PER_NODE`,
/// `TF_WORKER_PER_NODE` and `TF_PS_IN_WORKER`.
///
/// # Errors
/// A variable has a value that cannot be used.
pub fn shape_of_variables(get: Lookup<'_>) -> Result<ClusterShape> {
    let number = |name: &str| -> Result<Option<usize>> {
        let Some(text) = get(name) else {
            return Ok(None);
        };
        let number = text.trim().parse().ok().filter(|n| *n <= 1 << 16);
        let wrong = format!("{name}={text}: give a number up to 65536");
        Ok(Some(number.ok_or(wrong)?))
    };
    let defaults = ClusterShape::default();
    Ok(ClusterShape {
        servers: number("TF_NUM_PS")?.unwrap_or(defaults.servers),
        workers: number("TF_NUM_WORKERS")?,
        servers_per_host: number("TF_PS_PER_NODE")?.unwrap_or(defaults.servers_per_host),
        workers_per_host: number("TF_WORKER_PER_NODE")?,
        servers_beside_workers: match get("TF_PS_IN_WORKER").map(|t| t.to_lowercase()).as_deref() {
            None | Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(text) => {
                return Err(format!("TF_PS_IN_WORKER={text}: give true or false").into());
            }
        },
    })
}

/// Program and arguments by the variables `TF_SCRIPT` and `TF_FLAGS`; blanks separate the flags.
///
/// # Errors
/// `TF_SCRIPT` is not set.
pub fn command_of_variables(get: Lookup<'_>) -> Result<Vec<String>> {
    let none = "no program is named: give it after --, or set TF_SCRIPT";
    let script = get("TF_SCRIPT").filter(|s| !s.is_empty()).ok_or(none)?;
    let flags = get("TF_FLAGS").unwrap_or_default();
    let flags = flags.split_whitespace().map(str::to_owned);
    Ok(std::iter::once(script).chain(flags).collect())
}

/// Number of hosts that a job needs at least, where ranks have a host each.
pub fn hosts_needed(shape: &JobShape) -> usize {
    match shape {
        JobShape::Ranks(ranks) => *ranks,
        JobShape::Cluster(shape) => {
            let servers = shape.servers.div_ceil(shape.servers_per_host.max(1));
            let per_host = shape.workers_per_host.unwrap_or(1).max(1);
            let workers = shape.workers.unwrap_or(1).div_ceil(per_host);
            match shape.servers_beside_workers {
                true => servers.max(workers),
                false => servers + workers,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(set: &[(&str, &str)], read: impl FnOnce(Lookup<'_>) -> T) -> T {
        let get = |name: &str| {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(&get)
    }

    #[test]
    fn variables_of_the_scripts_give_the_shape_and_the_command() {
        assert_eq!(
            with(&[], shape_of_variables).unwrap(),
            ClusterShape::default()
        );
        let set = [
            ("TF_NUM_PS", "2"),
            ("TF_NUM_WORKERS", "6"),
            ("TF_PS_PER_NODE", "2"),
            ("TF_WORKER_PER_NODE", "3"),
            ("TF_PS_IN_WORKER", "False"),
        ];
        let shape = with(&set, shape_of_variables).unwrap();
        let expected = ClusterShape {
            servers: 2,
            workers: Some(6),
            servers_per_host: 2,
            workers_per_host: Some(3),
            servers_beside_workers: false,
        };
        assert_eq!(shape, expected);
        assert_eq!(hosts_needed(&JobShape::Cluster(shape)), 3);
        for (name, value) in [
            ("TF_NUM_PS", "x"),
            ("TF_NUM_WORKERS", "-1"),
            ("TF_PS_IN_WORKER", "2"),
        ] {
            let error = with(&[(name, value)], shape_of_variables).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("{name}={value}")),
                "{error}"
            );
        }
        let set = [("TF_SCRIPT", "./train"), ("TF_FLAGS", " --a=1  b ")];
        let command = with(&set, command_of_variables).unwrap();
        assert_eq!(command, ["./train", "--a=1", "b"]);
        assert!(with(&[], command_of_variables).is_err());
    }

    #[test]
    fn hosts_are_those_of_the_allocation() {
        let set = [("SLURM_JOB_NODELIST", "nid[001-003]")];
        let ranks = JobShape::Ranks(4);
        let hosts = with(&set, |get| slurm_hosts(get, &ranks)).unwrap();
        let hosts: Vec<_> = hosts.iter().map(|h| (&*h.name, h.slots)).collect();
        assert_eq!(
            hosts,
            [
                ("nid001", Some(2)),
                ("nid002", Some(2)),
                ("nid003", Some(2))
            ]
        );
        let error = with(&[], |get| slurm_hosts(get, &ranks)).unwrap_err();
        assert!(
            error.to_string().contains("inside an allocation"),
            "{error}"
        );
        let wrong = [("SLURM_JOB_NODELIST", "nid[1")];
        assert!(with(&wrong, |get| slurm_hosts(get, &ranks)).is_err());
    }
}
