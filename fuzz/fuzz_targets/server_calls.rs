//! Calls with any bytes as messages, repeated and compressed: they are answered or refused, within the run's memory
//! limit.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::raw::RawClient;

/// Made once, because this takes far longer than a call.
static CLIENT: LazyLock<Mutex<RawClient>> = LazyLock::new(Mutex::default);

fuzz_target!(|input: &[u8]| {
    CLIENT.lock().expect("no run has panicked").call(input);
});
