//! Numbers of activities and resources.

/// Number of an activity in its simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActivityId(pub(super) u32);

impl ActivityId {
    /// Index among the activities, in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a resource in its simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(pub(super) u32);

impl ResourceId {
    /// Index among the resources, in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
