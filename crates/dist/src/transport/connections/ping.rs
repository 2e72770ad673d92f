//! Times of HTTP/2 pings.

use std::time::Duration;

/// How often a connection that says nothing is asked for a sign of life, where it may be silent for so long.
pub(crate) fn ping_interval(heartbeat: Duration) -> Duration {
    heartbeat / 4
}

/// How long the transport waits for the answer to a ping. It is not the judge of a connection:
/// [`MonitoredConnection`](super::liveness::MonitoredConnection) is.
pub(crate) const PING_ANSWER: Duration = Duration::from_secs(365 * 24 * 3600);
