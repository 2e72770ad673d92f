//! Data files of checkpoints: any bytes read as the saved tensors or give an error; strings with valid checksums are
//! read where their lengths are valid too. Memory is bounded.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use thalweg_checkpoint::bundle::index_path;
use thalweg_checkpoint::{BundleReader, crc};
use thalweg_fuzz::memory::{Counting, bounded};
use thalweg_fuzz::weights::{framed, put_bundle, put_varint, save_bundle, saved};
use thalweg_tensor::Tensor;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The saved tensors, and the index of their checkpoint.
static SAVED: LazyLock<([(&str, Tensor); 4], Vec<u8>)> = LazyLock::new(|| {
    let prefix = save_bundle();
    let index = std::fs::read(index_path(&prefix)).expect("the index that was saved");
    (saved(), index)
});

fuzz_target!(|bytes: &[u8]| {
    let (tensors, index) = &*SAVED;
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    bounded(bytes.len() + index.len(), || match how % 2 {
        0 => as_saved(tensors, index, bytes),
        _ => strings(how / 2, bytes),
    });
});

fn as_saved(tensors: &[(&str, Tensor)], index: &[u8], data: &[u8]) {
    let prefix = Path::new("/nowhere/data");
    put_bundle(prefix, index, data);
    let Ok(reader) = BundleReader::open(prefix) else {
        return;
    };
    for (name, tensor) in tensors {
        if let Ok(found) = reader.tensor(name) {
            assert_eq!(found, *tensor, "{name}");
        }
    }
}

/// Reads `count` strings: a byte is the length of each (255 stands for a length beyond any file), and their bytes
/// follow.
fn strings(count: u8, bytes: &[u8]) {
    let (lengths, rest) = bytes.split_at(usize::from(count).min(bytes.len()));
    let count = lengths.len() as u8;
    let (mut data, mut sums) = (Vec::new(), Vec::new());
    for &length in lengths {
        let claimed = if length == 255 { usize::MAX } else { length.into() };
        put_varint(&mut data, claimed);
        match u32::try_from(claimed) {
            Ok(claimed) => sums.extend_from_slice(&claimed.to_le_bytes()),
            Err(_) => sums.extend_from_slice(&claimed.to_le_bytes()),
        }
    }
    let masked = crc::masked(&sums).to_le_bytes();
    data.extend_from_slice(&masked);
    data.extend_from_slice(rest);
    let sum = crc::masked(&[&sums, &masked[..], rest].concat());

    let mut entry = vec![0x08, 7, 0x12, 4, 0x12, 2, 0x08, count, 0x28];
    put_varint(&mut entry, data.len());
    entry.push(0x35);
    entry.extend_from_slice(&sum.to_le_bytes());
    let header = [0, 0, 2, 0x08, 1];
    let key = [0, 1, entry.len() as u8, b't'];
    let restarts = [0, 0, 0, 0, 1, 0, 0, 0];
    let index = framed(&[&header[..], &key, &entry, &restarts].concat(), 0);

    let prefix = Path::new("/nowhere/strings");
    put_bundle(prefix, &index, &data);
    let found = BundleReader::open(prefix).and_then(|reader| reader.tensor("t"));
    let all: usize = lengths.iter().map(|&n| usize::from(n)).sum();
    let fits = !lengths.contains(&255) && all == rest.len();
    assert_eq!(found.is_ok(), fits, "{:?}", found.err());
    if let Ok(found) = found {
        let found = found.as_strings().expect("strings");
        let found = found.iter().map(|s| s.len());
        assert!(found.eq(lengths.iter().map(|&n| usize::from(n))));
    }
}
