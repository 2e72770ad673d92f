//! Index files of checkpoints: any bytes, as a file or as a block with valid checksums, are read or give an error.
//! Memory is bounded.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::memory::{Counting, bounded};
use thalweg_fuzz::weights::{framed, put_bundle, read_all};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes of the data file, all of them zeros.
const DATA: usize = 256;

fuzz_target!(|bytes: &[u8]| bounded(bytes.len() + DATA, || read(bytes)));

fn read(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let index = match how % 3 {
        0 => bytes.to_vec(),
        kind => framed(bytes, kind - 1),
    };
    let prefix = Path::new("/nowhere/index");
    put_bundle(prefix, &index, &[0; DATA]);
    read_all(prefix);
}
