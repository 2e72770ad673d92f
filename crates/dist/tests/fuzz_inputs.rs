//! Inputs of the fuzz target `master_messages`: modified messages of TensorFlow's client.

#[path = "../../../fuzz/src/client.rs"]
mod client;
#[path = "../../../fuzz/src/inputs.rs"]
mod inputs;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::{CALLS, Client, message};
use inputs::calls;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use thalweg_dist::Code;

/// Counts panics on all threads: a panic on a server's thread does not fail a test by itself.
fn counted_panics() -> Arc<AtomicUsize> {
    let panics = Arc::new(AtomicUsize::new(0));
    let (count, before) = (panics.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        count.fetch_add(1, Ordering::SeqCst);
        before(panic);
    }));
    panics
}

#[test]
fn the_unmodified_client_messages_are_valid() {
    let mut client = Client::default();
    for name in CALLS {
        let code = client.call(name, &message(name));
        assert_eq!(code, Some(Code::Ok), "{name}");
    }
}

#[test]
fn arbitrary_bytes_of_a_client_never_panic() {
    let panics = counted_panics();
    let client = RefCell::new(Client::default());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let ran = runner.run(&proptest::collection::vec(any::<u8>(), 0..200), |input| {
        let mut client = client.borrow_mut();
        client.reopen();
        for (name, body) in calls(&input, &CALLS, message) {
            client.call(name, &body);
        }
        prop_assert_eq!(panics.load(Ordering::SeqCst), 0);
        Ok(())
    });
    ran.unwrap();
}
