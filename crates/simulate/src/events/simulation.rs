//! Simulations: activities and the resources that they use.

use super::ids::{ActivityId, ResourceId};
use super::resource::{Resource, ResourceKind, Sharing};

/// Work of an activity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Nothing: it is done when all that it waits for are.
    Join,
    /// Use of a resource.
    Run {
        /// Resource.
        on: ResourceId,
        /// Duration, if it has the resource alone.
        seconds: f64,
    },
    /// Message over a network: its first byte arrives after the latency, and its last one when both ports have passed all bytes.
    Message {
        /// Port of the sender: a serial resource.
        out: ResourceId,
        /// Port of the receiver: a serial resource.
        into: ResourceId,
        /// Duration of all bytes on each port.
        seconds: f64,
        /// Seconds from port to port.
        latency: f64,
    },
}

/// Activities, and the resources that they use.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    pub(super) resources: Vec<Resource>,
    pub(super) work: Vec<Work>,
    /// By activity: the number of activities that it waits for.
    pub(super) waits: Vec<u32>,
    /// By activity: the newest entry of its list in `edges`.
    pub(super) dependents: Vec<Option<u32>>,
    /// Dependents: the next entry of the list, and the activity.
    pub(super) edges: Vec<(Option<u32>, ActivityId)>,
}

impl Simulation {
    /// Adds a resource that runs one activity at a time.
    pub fn serial(&mut self, name: impl Into<String>) -> ResourceId {
        let kind = ResourceKind::Serial {
            free: 0.0,
            last: None,
        };
        self.resource(name.into(), kind)
    }

    /// Adds a resource that runs all its activities at once, so many of them at full speed.
    pub fn shared(&mut self, name: impl Into<String>, room: f64) -> ResourceId {
        self.resource(name.into(), ResourceKind::Shared(Sharing::new(room)))
    }

    fn resource(&mut self, name: String, kind: ResourceKind) -> ResourceId {
        let id = ResourceId(self.resources.len() as u32);
        self.resources.push(Resource {
            name,
            kind,
            busy: 0.0,
        });
        id
    }

    /// Adds an activity that waits for others, which were added before it.
    pub fn add(&mut self, work: Work, after: &[ActivityId]) -> ActivityId {
        let id = ActivityId(self.work.len() as u32);
        self.work.push(work);
        self.waits.push(after.len() as u32);
        self.dependents.push(None);
        for before in after {
            let list = &mut self.dependents[before.index()];
            let entry = self.edges.len() as u32;
            self.edges.push((*list, id));
            *list = Some(entry);
        }
        id
    }

    /// Number of activities.
    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// `true` if it has no activities.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// Work of an activity.
    pub fn work(&self, activity: ActivityId) -> Work {
        self.work[activity.index()]
    }

    /// Resources, in the order in which they were added.
    pub fn resources(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.resources.len() as u32).map(ResourceId)
    }

    /// Activities, in the order in which they were added.
    pub fn activities(&self) -> impl Iterator<Item = ActivityId> + use<> {
        (0..self.work.len() as u32).map(ActivityId)
    }

    /// Name of a resource.
    pub fn name(&self, resource: ResourceId) -> &str {
        &self.resources[resource.index()].name
    }
}
