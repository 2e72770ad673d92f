//! Timing of the control plane.

use std::time::Duration;

/// Interval at which each side writes at least one line.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// Time without a line after which the other side counts as lost.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which the earlier connection of a rank that joins again has to end.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
