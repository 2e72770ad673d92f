//! Event files: any bytes, as a file or as the data of a record, are read or give an error. Events survive a round
//! trip. Memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use thalweg_fuzz::memory::{Counting, bounded};
use thalweg_summary::{EventReader, write_record};

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| bounded(bytes.len(), || read(bytes)));

fn read(bytes: &[u8]) {
    let _ = EventReader::new(bytes, "fuzzed").count();
    let mut file = Vec::new();
    write_record(&mut file, bytes).expect("a vector has room");
    let mut reader = EventReader::new(&file[..], "fuzzed");
    let Some(Ok(event)) = reader.next() else {
        return;
    };
    assert!(reader.next().is_none() && reader.complete());
    let mut again = Vec::new();
    write_record(&mut again, &event.encode_to_vec()).expect("a vector has room");
    let read = EventReader::new(&again[..], "again").next();
    let read = read.expect("there is one").expect("what was read is an event");
    // Compared as bytes, because NaN differs from itself.
    assert_eq!(read.encode_to_vec(), event.encode_to_vec());
}
