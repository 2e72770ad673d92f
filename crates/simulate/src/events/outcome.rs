//! Outcome of a simulation: times, use of resources, and the critical path.

use super::ids::{ActivityId, ResourceId};
use super::simulation::Simulation;

/// Reason for which an activity did not begin earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// It waited for this activity to end, which ended last.
    Activity(ActivityId),
    /// A resource was used by this activity.
    Resource(ResourceId, ActivityId),
}

/// Times of a simulation that has run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) simulation: Simulation,
    pub(super) begins: Vec<f64>,
    pub(super) ends: Vec<f64>,
    pub(super) blockers: Vec<Option<Blocker>>,
}

impl Outcome {
    /// The simulation.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Second at which the last activity ends.
    pub fn seconds(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// Second at which an activity has its resource; of a message, that of the sender.
    pub fn begin(&self, activity: ActivityId) -> f64 {
        self.begins[activity.index()]
    }

    /// Second at which an activity ends.
    pub fn end(&self, activity: ActivityId) -> f64 {
        self.ends[activity.index()]
    }

    /// Seconds of work of a resource.
    pub fn busy(&self, resource: ResourceId) -> f64 {
        self.simulation.resources[resource.index()].busy
    }

    /// Activities that the end of this one followed from, the earliest first: each began when the one before it ended, or left
    /// a resource.
    pub fn critical_path(&self, last: ActivityId) -> Vec<ActivityId> {
        let mut path = vec![last];
        let mut at = last;
        while let Some(blocker) = self.blockers[at.index()] {
            at = match blocker {
                Blocker::Activity(before) | Blocker::Resource(_, before) => before,
            };
            path.push(at);
        }
        path.reverse();
        path
    }
}
