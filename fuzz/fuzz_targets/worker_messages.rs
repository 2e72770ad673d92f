//! Messages of a peer to a task: any calls are answered or refused, and end. Every registered part may be run.
#![no_main]

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_dist::fuzzing::tasks::{CALLS, FuzzedTask, message};
use thalweg_fuzz::inputs::calls;

/// Made once, because this takes far longer than a call.
static TASK: LazyLock<Mutex<FuzzedTask>> = LazyLock::new(Mutex::default);
static MESSAGES: LazyLock<HashMap<&str, Vec<u8>>> =
    LazyLock::new(|| CALLS.map(|name| (name, message(name))).into());

fuzz_target!(|input: &[u8]| {
    let mut task = TASK.lock().expect("no run has panicked");
    task.reopen();
    for (name, body) in calls(input, &CALLS, |name| MESSAGES[name].clone()).take(6) {
        task.call(name, body);
    }
});
