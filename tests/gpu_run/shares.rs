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
