//! Answers of a peer: frames, values and loans of shared memory, each read to its end or to an error. The first byte
//! selects whether the rest is the answer or mutates a valid one.
#![no_main]

use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use thalweg_dist::fuzzing::answers::Answers;
use thalweg_fuzz::inputs::changed;

/// Made once, because this takes longer than an answer.
static ANSWERS: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let kind = kind % 4;
    let answers = ANSWERS.lock().expect("no run has panicked");
    answers.read(kind == 2, kind != 1, |good| match kind {
        0 => rest.to_vec(),
        _ => changed(good, rest),
    });
});
