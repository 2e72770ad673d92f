//! Shares of the parts of a run in its time.

use std::time::Duration;

/// Seconds of a full run.
pub const FULL_RUN_SECONDS: u64 = 560;

/// Time of a part with `seconds` in a full run, in a run of `run` seconds. The parts that a short run keeps have `kept` seconds
/// together; the others share the rest.
pub fn share(seconds: u64, is_kept: bool, kept: u64, run: u64) -> Duration {
    let rest = run.saturating_sub(kept) as f64 / (FULL_RUN_SECONDS - kept) as f64;
    let part = if is_kept { 1.0 } else { rest };
    Duration::from_secs_f64(seconds as f64 * part)
}

/// Seconds of a unit in which a process may use PyTorch for the first time: it is read from a cold disk.
const FIRST_PEER_SECONDS: u64 = 90;

/// Time limit of a unit: that of its part, `seconds`, or of all units where a user has set one. An emulated card has more, which
/// a busy machine does not reach.
pub fn unit_limit(
    seconds: u64,
    is_first_of_peer: bool,
    of_user: Option<u64>,
    is_emulated: bool,
) -> Duration {
    let more = if is_first_of_peer {
        FIRST_PEER_SECONDS
    } else {
        0
    };
    let times = if is_emulated { 20 } else { 1 };
    let own = seconds.max(more) * times;
    Duration::from_secs(of_user.unwrap_or(own))
}
