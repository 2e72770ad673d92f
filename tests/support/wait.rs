//! Waiting for what must come.

use std::time::{Duration, Instant};

/// Within which whatever is awaited must have come: far more than it takes.
pub const LATE: Duration = Duration::from_secs(30);

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < LATE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
