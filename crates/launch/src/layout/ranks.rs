//! Places of ranks: they fill the slots of the hosts in order.

use super::host_list::JobHost;
use super::task::{PlacedTask, TaskKind, add};
use crate::error::Result;

/// Places ranks on hosts. A host without slots has one; a lone host without slots takes all ranks.
///
/// # Errors
/// The hosts have too few slots.
pub(super) fn place(ranks: usize, hosts: &[JobHost]) -> Result<Vec<PlacedTask>> {
    let mut tasks = Vec::new();
    let room = |host: &JobHost| match hosts.len() {
        1 => host.slots.unwrap_or(ranks),
        _ => host.slots.unwrap_or(1),
    };
    for (at, host) in hosts.iter().enumerate() {
        let first = tasks.len();
        let count = room(host).min(ranks - first);
        add(&mut tasks, TaskKind::Rank, first, at, count);
    }
    match tasks.len() == ranks {
        true => Ok(tasks),
        false => Err(format!(
            "the hosts have {} slots for {ranks} ranks: name more hosts or slots, or give a smaller --np",
            tasks.len()
        )
        .into()),
    }
}
