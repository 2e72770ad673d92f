use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::collection::vec;
use proptest::prelude::*;

use thalweg_checkpoint::crc;
use thalweg_tensor::{Memory, Reservation};

use super::*;
use crate::error::DataError;
use crate::record_error::RecordError;

/// The bytes that TensorFlow's TFRecordWriter writes for b"abc".
const RECORD: [u8; 19] = [
    3, 0, 0, 0, 0, 0, 0, 0, 176, 153, 73, 14, 97, 98, 99, 110, 87, 241, 33,
];

#[test]
fn written_records_are_those_of_tensorflow() {
    let mut written = Vec::new();
    write_record(&mut written, b"abc").unwrap();
    assert_eq!(written, RECORD);
    append_record(&mut written, |to| to.extend_from_slice(b"abc"));
    assert_eq!(written[RECORD.len()..], RECORD);
}

#[test]
fn records_are_read_until_the_source_ends() {
    let file = [RECORD, RECORD].concat();
    let mut records = RecordReader::new(&file[..]);
    for read in 1..=2 {
        assert_eq!(records.read().unwrap(), Some(&b"abc"[..]));
        assert_eq!(records.offset(), 19 * read);
    }
    assert!(records.read().unwrap().is_none());

    let mut cut = RecordReader::new(&RECORD[..18]);
    assert!(matches!(cut.read(), Err(RecordError::Truncated)));
    assert_eq!(cut.offset(), 0);
}

/// Files that TensorFlow has written: see `tests/golden/generate.py`.
#[cfg(feature = "gzip")]
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A file of a test, in a folder of the process.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-tfrecord-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn all(path: &PathBuf, options: RecordOptions) -> Result<Vec<Vec<u8>>, DataError> {
    let mut file = RecordFile::open(path, options)?;
    std::iter::from_fn(|| file.read().map(|r| r.map(<[u8]>::to_vec)).transpose()).collect()
}

/// A file of records of these lengths.
fn records(lengths: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, length) in lengths.iter().enumerate() {
        write_record(&mut bytes, &vec![n as u8; *length]).unwrap();
    }
    bytes
}

#[test]
fn a_length_above_what_is_left_is_an_error_before_memory_is_taken() {
    let mut bytes = Vec::new();
    let length = (MAX_RECORD_BYTES as u64).to_le_bytes();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&crc::masked(&length).to_le_bytes());
    bytes.extend_from_slice(&[0; 100]);
    let mut reader = RecordReader::with_size(&bytes[..], bytes.len() as u64, 0);
    let mut data = Vec::new();
    let read = reader.read_into(&mut data);
    assert!(matches!(read, Err(RecordError::Truncated)));
    assert_eq!(data.capacity(), 0);
    let error = RecordIndex::scan_bytes(bytes, "f").unwrap_err().to_string();
    assert_eq!(error, "f: record 0, at byte 0: the last record is cut off");
}

#[cfg(feature = "gzip")]
#[test]
fn compressed_files_of_tensorflow_are_read() {
    let expected = [b"abc".to_vec(), Vec::new(), vec![b'x'; 1000]];
    for (name, compression) in [("gzip", Compression::Gzip), ("zlib", Compression::Zlib)] {
        let path = golden(&format!("{name}.tfrecord"));
        for compression in [None, Some(compression)] {
            let options = RecordOptions {
                compression,
                ..RecordOptions::default()
            };
            assert_eq!(all(&path, options).unwrap(), expected);
        }
        assert_eq!(
            RecordFile::open(&path, RecordOptions::default())
                .unwrap()
                .compression(),
            compression
        );
        let written = file(name, b"");
        let mut writer = RecordWriter::create(&written, compression).unwrap();
        expected.iter().for_each(|r| writer.write(r).unwrap());
        writer.finish().unwrap();
        assert_eq!(all(&written, RecordOptions::default()).unwrap(), expected);
        // A cut stream is no end.
        let mut cut = std::fs::read(&written).unwrap();
        cut.truncate(cut.len() - 9);
        let cut = file(&format!("{name}-cut"), &cut);
        assert!(all(&cut, RecordOptions::default()).is_err());
        assert!(RecordIndex::scan(&written).is_err());
    }
}

#[test]
fn damaged_records_are_errors_or_are_counted() {
    let mut bytes = records(&[3, 5, 0, 2]);
    bytes[19 + 12] ^= 1;
    let path = file("damaged", &bytes);
    let error = all(&path, RecordOptions::default())
        .unwrap_err()
        .to_string();
    let expected = "record 1, at byte 19: the data of a record do not match their checksum";
    assert!(error.ends_with(expected), "{error}");

    let damaged = Arc::new(AtomicU64::new(0));
    let options = RecordOptions {
        skip_damaged: Some(damaged.clone()),
        ..RecordOptions::default()
    };
    let good = all(&path, options.clone()).unwrap();
    assert_eq!(good, [vec![0; 3], vec![], vec![3; 2]]);
    assert_eq!(damaged.load(Relaxed), 1);

    // The length of the third record: the rest is lost.
    bytes[19 + 21] ^= 1;
    let path = file("lost", &bytes);
    assert_eq!(all(&path, options.clone()).unwrap(), [[0; 3]]);
    assert_eq!(damaged.load(Relaxed), 3);
    let path = file("cut", &records(&[3, 5])[..30]);
    assert_eq!(all(&path, options).unwrap(), [[0; 3]]);
    assert_eq!(damaged.load(Relaxed), 4);
    let error = all(&path, RecordOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("record 1, at byte 19: the last record is cut off"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn an_index_finds_every_record(lengths in vec(prop_oneof![0usize..40, 4000usize..9000], 0..40)) {
        let bytes = records(&lengths);
        let index = RecordIndex::scan_bytes(bytes.clone(), "f").unwrap();
        prop_assert_eq!(index.len(), lengths.len() as u64);
        for (n, length) in lengths.iter().enumerate() {
            prop_assert_eq!(index.read(n as u64).unwrap(), vec![n as u8; *length]);
        }
        prop_assert_eq!(index.offset(index.len()), bytes.len() as u64);
        let len = index.len();
        let above = matches!(index.read(len), Err(DataError::Index { .. }));
        prop_assert!(above);
        if let Some(cut) = bytes.len().checked_sub(1) {
            let error = RecordIndex::scan_bytes(bytes[..cut].to_vec(), "f").unwrap_err().to_string();
            prop_assert!(error.contains("cut off"), "{}", error);
        }
    }
}

#[test]
fn a_record_of_unknown_size_takes_memory_as_its_bytes_arrive() {
    let bytes = records(&[3, 1 << 20]);
    let memory = Arc::new(Memory::new(Some(300 << 10)));
    let read = |bytes: &[u8]| {
        let (mut reader, mut data) = (RecordReader::new(bytes), Vec::new());
        let mut held = Reservation::of(Some(&memory));
        assert!(reader.read_counted(&mut data, &mut held).unwrap());
        assert_eq!(held.bytes(), 3 + 4);
        reader.read_counted(&mut data, &mut held)
    };
    assert!(matches!(read(&bytes), Err(RecordError::Memory { .. })));
    // A length that lies takes no more than what is there.
    assert!(matches!(read(&bytes[..1000]), Err(RecordError::Truncated)));
    assert_eq!(memory.used(), 0);
}
