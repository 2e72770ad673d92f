//! Times of HTTP/2 pings.

use std::time::Duration;

/// Returns the interval of pings on an idle connection, for this time without a sign of life.
pub(crate) fn ping_interval(heartbeat: Duration) -> Duration {
    heartbeat / 4
}

/// Timeout of the answer to a ping. It is long: [`MonitoredConnection`](super::liveness::MonitoredConnection) decides
/// on the liveness of a connection, not the transport.
pub(crate) const PING_ANSWER: Duration = Duration::from_secs(365 * 24 * 3600);
