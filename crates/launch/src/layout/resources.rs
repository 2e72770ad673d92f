//! Ports, GPUs and cores of the tasks of a host.

use std::collections::BTreeSet;

use super::ports::PortChoice;
use super::task::{PlacedTask, TaskKind};

/// Resources of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostResources {
    /// Ports at which other programs listen.
    pub taken_ports: BTreeSet<u16>,
    /// Names of the GPUs, as in `CUDA_VISIBLE_DEVICES`.
    pub gpus: Vec<String>,
    /// Cores of each NUMA node.
    pub cores: Vec<Vec<usize>>,
}

/// Division of the resources of a host among its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// `true` to divide the GPUs among workers, or among ranks; otherwise each sees all. Servers see none.
    pub split_gpus: bool,
    /// `true` to divide the cores among all tasks.
    pub bind_cores: bool,
}

/// Chooses the ports, GPUs and cores of placed tasks from what each host has.
///
/// # Errors
/// The number of a host that has too few free ports.
pub fn assign(
    tasks: &mut [PlacedTask],
    hosts: &[HostResources],
    ports: &PortChoice,
    sharing: Sharing,
) -> Result<(), usize> {
    for (number, host) in hosts.iter().enumerate() {
        let mut own: Vec<&mut PlacedTask> = tasks.iter_mut().filter(|t| t.host == number).collect();
        let mut used = host.taken_ports.clone();
        for task in &mut own {
            let candidates = match task.kind {
                TaskKind::Server => &ports.servers,
                TaskKind::Worker => &ports.workers,
                TaskKind::Rank => continue,
            };
            let mut take = |candidates: &[u16]| -> Result<u16, usize> {
                let free = candidates.iter().find(|port| !used.contains(port));
                let port = *free.ok_or(number)?;
                used.insert(port);
                Ok(port)
            };
            task.port = take(candidates)?;
            if !ports.metrics.is_empty() {
                task.metrics = Some(take(&ports.metrics)?);
            }
        }
        for task in &mut own {
            task.gpus = match task.kind {
                TaskKind::Server => Some(Vec::new()),
                _ if !sharing.split_gpus || host.gpus.is_empty() => None,
                _ => Some(share_of_gpus(&host.gpus, task.local, task.local_size)),
            };
        }
        if sharing.bind_cores {
            let shares = divide_cores(&host.cores, own.len());
            for (task, cores) in own.iter_mut().zip(shares) {
                task.cores = cores;
            }
        }
    }
    Ok(())
}

/// GPUs of one of several tasks: a consecutive share, or one that it shares with others if there are fewer GPUs than tasks.
fn share_of_gpus(gpus: &[String], task: usize, tasks: usize) -> Vec<String> {
    match gpus.len() < tasks {
        true => vec![gpus[task % gpus.len()].clone()],
        false => gpus[task * gpus.len() / tasks..(task + 1) * gpus.len() / tasks].to_vec(),
    }
}

/// Divides cores among tasks. A task gets several NUMA nodes whole, or a part of one. Nobody is bound if there are more tasks
/// than cores.
fn divide_cores(nodes: &[Vec<usize>], tasks: usize) -> Vec<Vec<usize>> {
    let nodes: Vec<&Vec<usize>> = nodes.iter().filter(|node| !node.is_empty()).collect();
    let count = nodes.len();
    if count == 0 || tasks == 0 {
        return Vec::new();
    }
    if tasks < count {
        let whole = |task| nodes[task * count / tasks..(task + 1) * count / tasks].iter();
        return (0..tasks)
            .map(|task| whole(task).flat_map(|node| node.iter().copied()).collect())
            .collect();
    }
    let mut shares = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let here = (at + 1) * tasks / count - at * tasks / count;
        if here > node.len() {
            return Vec::new();
        }
        let part = |task| node[task * node.len() / here..(task + 1) * node.len() / here].to_vec();
        shares.extend((0..here).map(part));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_gets_whole_numa_nodes_or_a_part_of_one() {
        let nodes = [vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        assert_eq!(divide_cores(&nodes, 1), [vec![0, 1, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(divide_cores(&nodes, 2), nodes);
        let three = divide_cores(&nodes, 3);
        assert_eq!(three, [vec![0, 1, 2, 3], vec![4, 5], vec![6, 7]]);
        assert_eq!(divide_cores(&nodes, 8).concat(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(divide_cores(&nodes, 9).is_empty());
        assert!(divide_cores(&[], 2).is_empty());
    }

    #[test]
    fn gpus_are_divided_or_shared() {
        let gpus = ["0", "1", "2", "3"].map(str::to_owned);
        assert_eq!(share_of_gpus(&gpus, 1, 2), ["2", "3"]);
        assert_eq!(share_of_gpus(&gpus[..2], 2, 3), ["0"]);
    }
}
