//! Event files: whatever the bytes are, as a file and as the data of a record, their events are read or said to be
//! wrong. What is read is written, and read as the same. Little memory is taken.
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
    // Numbers that are no numbers differ from themselves.
    assert_eq!(read.encode_to_vec(), event.encode_to_vec());
}
