//! Calls whose messages are any bytes, repeated and compressed: they are answered or refused, within the memory that a
//! run may take.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::raw::Stranger;

/// Made once: that takes far longer than a call.
static STRANGER: LazyLock<Mutex<Stranger>> = LazyLock::new(Mutex::default);

fuzz_target!(|input: &[u8]| {
    STRANGER.lock().expect("no run has panicked").call(input);
});
