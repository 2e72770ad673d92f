//! Raw bytes on a connection: the server closes it or waits, and keeps serving others.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::raw::RawClient;

/// Made once, because this takes far longer than a connection.
static CLIENT: LazyLock<Mutex<RawClient>> = LazyLock::new(Mutex::default);

fuzz_target!(|input: &[u8]| {
    let Some((greets, bytes)) = input.split_first() else {
        return;
    };
    let stranger = CLIENT.lock().expect("no run has panicked");
    stranger.send(greets & 1 == 1, bytes);
});
