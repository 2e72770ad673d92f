//! Ranks: this process as one of the ranks of a job.

mod collectives;
mod joining;
mod measured;
mod rank_zero;
mod sets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_estimate::{Algorithm, LinkCost};
use thalweg_launch_env::RankTimeouts;

use crate::collective::Set;
use crate::control::{Control, Coordinator};
use crate::error::CollectiveError;
use crate::links::Links;
use crate::phase_timer::PhaseTimer;

/// Number of the set of all ranks.
pub const ALL_RANKS: i32 = 0;

/// This process as one of the ranks of a job. All ranks must call the same methods in the same order.
pub struct Ranks {
    rank: usize,
    /// Host numbers by rank.
    hosts: Vec<usize>,
    control: Option<Arc<Control>>,
    links: Box<dyn Links>,
    sets: BTreeMap<i32, Set>,
    cost: LinkCost,
    memory: bool,
    negotiates: bool,
    /// Time of collectives by phase.
    timer: PhaseTimer,
    timeouts: RankTimeouts,
    /// Coordinator of the job, if it is in this process. It is dropped last.
    coordinator: Option<Coordinator>,
}

impl Drop for Ranks {
    /// Leaves the job. The rank that has the coordinator stays until the others have left or the job has ended. Ranks leave
    /// before their links end, because links of MPI end together.
    fn drop(&mut self) {
        if let Some(control) = &self.control {
            control.leave_job();
        }
        let Some(coordinator) = &self.coordinator else {
            return;
        };
        let began = std::time::Instant::now();
        while coordinator.ranks() > 0
            && self.failure().is_none()
            && began.elapsed() < self.timeouts.rendezvous
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Ranks {
    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.hosts.len()
    }

    /// Number of this rank among those of its host, and the number of those.
    pub fn local(&self) -> (usize, usize) {
        let own = self.hosts[self.rank];
        let local = self.hosts.iter().filter(|&&h| h == own).count();
        let before = self.hosts[..self.rank].iter().filter(|&&h| h == own);
        (before.count(), local)
    }

    /// Number of this rank's host among the hosts with a rank of this local number, and the number of those hosts.
    pub fn cross(&self) -> (usize, usize) {
        let (local, _) = self.local();
        let count = |host: usize| self.hosts.iter().filter(|&&h| h == host).count();
        let hosts = self.hosts.iter().max().map_or(1, |m| m + 1);
        let with = (0..hosts).filter(|&h| count(h) > local);
        let with: Vec<usize> = with.collect();
        let own = self.hosts[self.rank];
        (with.iter().filter(|&&h| h < own).count(), with.len())
    }

    /// `true` if all hosts have the same number of ranks.
    pub fn is_homogeneous(&self) -> bool {
        let hosts = self.hosts.iter().max().map_or(1, |m| m + 1);
        let count = |host: usize| self.hosts.iter().filter(|&&h| h == host).count();
        (0..hosts).all(|h| count(h) == count(0))
    }

    /// Sets the algorithm of all-reduces over links; `None` for the cheapest. All ranks must set the same.
    pub fn set_algorithm(&mut self, algorithm: Option<Algorithm>) {
        self.cost.only = algorithm;
    }

    /// Cost of messages, by which algorithms are chosen: measured if ranks are on several hosts, assumed on one host.
    pub fn cost(&self) -> LinkCost {
        self.cost
    }

    /// `true` if each collective is announced first: see [`Join::negotiated`](crate::Join::negotiated).
    pub(crate) fn negotiates(&self) -> bool {
        self.negotiates
    }

    pub(crate) fn timer(&self) -> &PhaseTimer {
        &self.timer
    }

    pub(crate) fn control(&self) -> Option<Arc<Control>> {
        self.control.clone()
    }

    /// Reason for which the job has ended, if it has.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.control.as_ref()?.failure()
    }

    /// Ends the job for all ranks, for this reason.
    pub fn fail(&self, error: &CollectiveError) {
        if let Some(control) = &self.control {
            control.fail(error);
        }
    }
}

/// Tag of the messages of a collective: FNV-1a of its set and name.
pub(crate) fn tag(set: i32, name: &str) -> u64 {
    let bytes = set.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
