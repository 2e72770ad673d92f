//! Calls with any bytes as messages, repeated and compressed: they are answered or refused, within the run's memory
//! limit.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::raw::Stranger;

/// Made once, because this takes far longer than a call.
static STRANGER: LazyLock<Mutex<Stranger>> = LazyLock::new(Mutex::default);

fuzz_target!(|input: &[u8]| {
    STRANGER.lock().expect("no run has panicked").call(input);
});
