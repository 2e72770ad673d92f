//! Places of servers and workers: the rules of the report's scripts.

use super::host_list::JobHost;
use super::shape::ClusterShape;
use super::task::{PlacedTask, TaskKind, add};
use crate::error::Result;

/// Places servers on the first hosts, and workers from the first host on, or from the first host without a server.
///
/// # Errors
/// The hosts are too few for the servers, or for the workers.
pub(super) fn place(shape: &ClusterShape, hosts: &[JobHost]) -> Result<Vec<PlacedTask>> {
    if shape.servers_per_host == 0 || shape.workers_per_host == Some(0) {
        return Err("--ps-per-node and --workers-per-node are at least 1".into());
    }
    let mut tasks = Vec::new();
    let per_host = shape.servers_per_host;
    let of_servers = shape.servers.div_ceil(per_host);
    if of_servers > hosts.len() {
        return Err(format!(
            "--ps {} with --ps-per-node {per_host} needs {of_servers} hosts, and there are {}: give more hosts, fewer servers, or \
             a greater --ps-per-node",
            shape.servers,
            hosts.len()
        )
        .into());
    }
    for host in 0..of_servers {
        let first = host * per_host;
        let count = per_host.min(shape.servers - first);
        add(&mut tasks, TaskKind::Server, first, host, count);
    }
    let first_host = match shape.servers_beside_workers {
        true => 0,
        false => of_servers,
    };
    place_workers(shape, hosts, first_host, &mut tasks)?;
    Ok(tasks)
}

fn place_workers(
    shape: &ClusterShape,
    hosts: &[JobHost],
    first_host: usize,
    tasks: &mut Vec<PlacedTask>,
) -> Result<()> {
    let room = |host: &JobHost| match (shape.workers_per_host, host.slots) {
        (Some(most), Some(slots)) => most.min(slots),
        (most, slots) => most.or(slots).unwrap_or(1),
    };
    let rooms: Vec<usize> = hosts[first_host..].iter().map(room).collect();
    // Slots are counted in a file of bounded size, but may be any numbers.
    let all = rooms.iter().fold(0usize, |sum, n| sum.saturating_add(*n));
    let has_slots = hosts.iter().any(|host| host.slots.is_some());
    let workers = shape.workers.unwrap_or(match has_slots {
        true => all,
        false => rooms.len(),
    });
    if rooms.is_empty() {
        return Err(format!(
            "--ps-in-worker false leaves no host for workers: the servers take all {}; give more hosts, or --ps-in-worker true",
            hosts.len()
        )
        .into());
    }
    if workers == 0 {
        return Err("--workers 0 trains nothing".into());
    }
    if workers > all {
        let apart = match shape.servers_beside_workers {
            true => "",
            false => ", or --ps-in-worker true",
        };
        return Err(format!(
            "--workers {workers}: the {} hosts of workers have room for {all}: give more hosts or slots, fewer workers, or a greater \
             --workers-per-node{apart}",
            rooms.len()
        )
        .into());
    }
    let mut first = 0;
    for (at, room) in rooms.into_iter().enumerate() {
        let count = room.min(workers - first);
        add(tasks, TaskKind::Worker, first, first_host + at, count);
        first += count;
    }
    Ok(())
}
