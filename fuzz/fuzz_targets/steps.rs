//! Graphs of any ops with unusual attributes, shapes and values: their steps have results or errors, in bounded time
//! and memory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let outcome = thalweg_fuzz::steps::run(input, false);
    if let Some(error) = outcome.error {
        assert!(!error.contains("panicked"), "{error}");
    }
});
