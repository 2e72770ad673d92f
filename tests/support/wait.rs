//! Waits for a condition with a timeout.

use std::time::{Duration, Instant};

/// Timeout of every wait: far more than any takes.
pub const LATE: Duration = Duration::from_secs(30);

/// Waits until the condition holds.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < LATE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
