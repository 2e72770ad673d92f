//! Messages of TensorFlow's client to a server: graphs, steps, callables, partial runs, on a session that has a graph
//! already.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::client::{CALLS, Client, message};
use thalweg_fuzz::inputs::calls;
use thalweg_fuzz::raw::ignore_closed_connections;

/// Made once, because this takes far longer than a call.
static CLIENT: LazyLock<Mutex<Client>> = LazyLock::new(|| {
    ignore_closed_connections();
    Mutex::default()
});

fuzz_target!(|input: &[u8]| {
    let mut client = CLIENT.lock().expect("no run has panicked");
    client.reopen();
    for (name, body) in calls(input, &CALLS, message).take(6) {
        client.call(name, &body);
    }
});
