//! What a peer answers: frames, values and loans of memory, each read to its end or to what is wrong with it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dist::fuzz::answers::read;

fuzz_target!(|input: &[u8]| {
    read(input);
});
