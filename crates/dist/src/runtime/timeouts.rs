//! How long a task waits for others.

use std::time::Duration;

/// How long other tasks are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patience {
    /// How long a session waits for a task that it reaches for the first time: tasks start in any
    /// order.
    pub start: Duration,
    /// How long a task that has work may be silent before it is taken for lost.
    pub silence: Duration,
    /// How long a worker may be away before the training goes on without it.
    pub absence: Duration,
    /// How long synchronous training waits for lost servers to come back.
    pub outage: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            start: Duration::from_secs(30),
            silence: Duration::from_secs(3),
            absence: Duration::from_secs(60),
            outage: Duration::from_secs(300),
        }
    }
}

impl Patience {
    /// The defaults.
    pub fn new() -> Patience {
        Patience::default()
    }

    /// With this long for a task to start.
    pub fn start(self, start: Duration) -> Patience {
        Patience { start, ..self }
    }

    /// With this long for a task that has work and says nothing.
    pub fn silence(self, silence: Duration) -> Patience {
        Patience { silence, ..self }
    }

    /// With this long for a worker that is away.
    pub fn absence(self, absence: Duration) -> Patience {
        Patience { absence, ..self }
    }

    /// With this long for lost servers in synchronous training.
    pub fn outage(self, outage: Duration) -> Patience {
        Patience { outage, ..self }
    }
}
