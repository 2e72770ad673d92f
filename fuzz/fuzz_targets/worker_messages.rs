//! What a peer sends to a task: whatever the calls say, they are answered or refused, and end. Every part
//! that is taken may be run.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_dist::fuzz::calls;
use thalweg_dist::fuzz::tasks::{CALLS, Task, message};

/// Made once: that takes far longer than a call.
static TASK: LazyLock<Mutex<Task>> = LazyLock::new(Mutex::default);

fuzz_target!(|input: &[u8]| {
    let mut task = TASK.lock().expect("no run has panicked");
    task.anew();
    for (name, body) in calls(input, &CALLS, message).take(6) {
        task.call(name, body);
    }
});
