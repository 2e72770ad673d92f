//! LMDB files: any bytes, as a file or as changes of a small valid one, are read to the end or give an error. Memory is
//! bounded.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use thalweg_data::{LmdbReader, LmdbWriter};
use thalweg_fuzz::inputs::changed;
use thalweg_fuzz::memory::{Counting, bounded};

#[global_allocator]
static COUNTING: Counting = Counting;

/// A file of a branch, leaves and overflow pages.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("thalweg-fuzz-lmdb-{}", std::process::id()));
    let mut writer = LmdbWriter::create(&folder).expect("the folder can be written");
    for n in 0..60u8 {
        let length = if n % 20 == 3 { 5000 } else { 100 };
        writer
            .add(&[b'k', n], &vec![n; length])
            .expect("keys are in order");
    }
    writer.finish().expect("the file can be written");
    let bytes = std::fs::read(folder.join("data.mdb")).expect("the file is there");
    std::fs::remove_dir_all(folder).expect("the folder is there");
    bytes
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let file = match how & 1 {
        0 => bytes.to_vec(),
        _ => changed(FILE.clone(), bytes),
    };
    bounded(file.len(), || read(file));
});

fn read(file: Vec<u8>) {
    let Ok(reader) = LmdbReader::of_bytes(file, "fuzzed") else {
        return;
    };
    let mut cursor = reader.cursor();
    let mut keys = 0;
    while let Ok(Some((key, value))) = cursor.next() {
        keys += 1;
        // A tree whose keys are out of order does not find them all.
        if let Ok(Some(found)) = reader.get(&key) {
            assert!(found.len() < 1 << 32 && value.len() < 1 << 32);
        }
        if let Ok(Some(named)) = reader.named(&String::from_utf8_lossy(&key)) {
            let _ = named.cursor().pass(u64::MAX);
        }
    }
    assert!(keys <= reader.len());
    let passed = reader.cursor().pass(u64::MAX);
    assert!(passed.is_err() || passed.is_ok_and(|n| n == reader.len()));
}
