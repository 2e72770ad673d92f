//! TFRecord files: of any bytes, as a file or as lengths with their checksums, the reader and the index give the same
//! records, or an error. Memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_checkpoint::crc;
use thalweg_data::{RecordError, RecordIndex, RecordReader};
use thalweg_fuzz::memory::{Counting, bounded};

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    bounded(bytes.len(), || match how & 1 {
        0 => read(bytes),
        _ => read(&with_checksums(bytes)),
    });
});

/// Records of a byte of length each, with checksums of the lengths, and of the data if the length is even.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut rest = bytes;
    while let Some((&length, after)) = rest.split_first() {
        let (data, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        let length = u64::from(length).to_le_bytes();
        file.extend_from_slice(&length);
        file.extend_from_slice(&crc::masked(&length).to_le_bytes());
        file.extend_from_slice(data);
        let checksum = crc::masked(data) * u32::from(length[0] % 2 == 0);
        file.extend_from_slice(&checksum.to_le_bytes());
    }
    file
}

fn read(bytes: &[u8]) {
    let index = RecordIndex::scan_bytes(bytes.to_vec(), "fuzzed");
    let mut reader = RecordReader::new(bytes);
    let mut sized = RecordReader::with_size(bytes, bytes.len() as u64, 0);
    for number in 0.. {
        let found = reader.read();
        assert_eq!(found.as_ref().ok(), sized.read().as_ref().ok());
        match found {
            Ok(Some(record)) => {
                let indexed = index.as_ref().ok().map(|index| index.read(number));
                let indexed = indexed.map(|r| r.expect("the reader has read it"));
                assert!(indexed.is_none_or(|indexed| indexed == record));
            }
            Ok(None) => {
                assert!(index.is_ok_and(|index| index.len() == number));
                return;
            }
            Err(RecordError::DataChecksum) => {
                assert!(
                    index
                        .as_ref()
                        .map_or(true, |index| index.read(number).is_err())
                );
            }
            Err(_) => {
                assert!(index.is_err());
                return;
            }
        }
    }
}
