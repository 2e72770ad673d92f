//! Truncated, damaged and crafted event files.

use std::error::Error;

use proptest::prelude::*;
use thalweg_summary::messages::{SessionLog, event::What};
use thalweg_summary::{
    Event, EventReader, SessionEvent, SummaryError, SummaryWriter, write_record,
};

/// The bytes of a small event file.
fn file(name: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
    let writer = SummaryWriter::create(&dir)?;
    writer.scalar("loss", 0.5, 1)?;
    writer.session_log(SessionEvent::Checkpoint("ckpt-2"), 2)?;
    writer.close()?;
    let bytes = std::fs::read(writer.path())?;
    std::fs::remove_dir_all(dir)?;
    Ok(bytes)
}

/// The events, the error that ended them, and `true` if the last record was complete.
fn read(bytes: &[u8]) -> (Vec<Event>, Option<SummaryError>, bool) {
    let mut reader = EventReader::new(bytes, "events");
    let (mut events, mut error) = (Vec::new(), None);
    for event in reader.by_ref() {
        assert!(error.is_none(), "something comes behind an error");
        match event {
            Ok(event) => events.push(event),
            Err(e) => error = Some(e),
        }
    }
    (events, error, reader.complete())
}

#[test]
fn a_file_is_read_as_it_was_written() -> Result<(), Box<dyn Error>> {
    let (events, error, complete) = read(&file("whole")?);
    assert_eq!((error, complete), (None, true));
    let steps: Vec<i64> = events.iter().map(|e| e.step).collect();
    assert_eq!(steps, [0, 1, 2]);
    assert_eq!(
        events[0].what,
        Some(What::FileVersion("brain.Event:2".to_owned()))
    );
    let log = SessionLog {
        status: 3,
        checkpoint_path: "ckpt-2".to_owned(),
        msg: String::new(),
    };
    assert_eq!(events[2].what, Some(What::SessionLog(log)));
    Ok(())
}

#[test]
fn the_first_record_is_tensorflows() {
    let mut first = Vec::new();
    // Event { wall_time: 0, file_version: "brain.Event:2" }, as TensorFlow writes it.
    let event = b"\x09\0\0\0\0\0\0\0\0\x1a\x0dbrain.Event:2";
    write_record(&mut first, event).unwrap();
    let hex: String = first.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "1800000000000000a37f4b220900000000000000001a0d627261696e2e4576656e743a32eedf28a3"
    );
    let (events, error, complete) = read(&first);
    assert_eq!((events.len(), error, complete), (1, None, true));
}

#[test]
fn a_truncated_tail_ends_the_events_without_an_error() -> Result<(), Box<dyn Error>> {
    let whole = file("cut")?;
    let (all, _, _) = read(&whole);
    let ends: Vec<usize> = (0..=whole.len()).filter(|&n| read(&whole[..n]).2).collect();
    // After no record, and after each record.
    assert_eq!(ends.len(), 4);
    for n in 0..whole.len() {
        let (events, error, _) = read(&whole[..n]);
        assert_eq!(error, None, "{n}");
        let records = ends.iter().filter(|&&end| end <= n).count() - 1;
        assert_eq!(events, all[..records], "{n}");
    }
    Ok(())
}

#[test]
fn a_damaged_record_is_an_error_with_its_offset() -> Result<(), Box<dyn Error>> {
    let whole = file("damaged")?;
    let first = (0..whole.len()).rfind(|&n| read(&whole[..n]).0.len() == 1 && read(&whole[..n]).2);
    let first = first.ok_or("no first record")?;
    for (at, reason) in [
        (first, "the length of a record does not match its checksum"),
        (
            first + 9,
            "the length of a record does not match its checksum",
        ),
        (
            first + 12,
            "the data of a record do not match their checksum",
        ),
    ] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        let (events, error, complete) = read(&damaged);
        assert_eq!((events.len(), complete), (1, false));
        let said = error.ok_or("no error")?.to_string();
        assert_eq!(
            said,
            format!("events: byte {first}: {reason}; the events before it are whole")
        );
    }
    let mut no_event = Vec::new();
    write_record(&mut no_event, b"\xff\xff")?;
    let said = read(&no_event).1.ok_or("no error")?.to_string();
    assert_eq!(
        said,
        "events: byte 0: a record is no event; the events before it are whole"
    );
    Ok(())
}

#[test]
fn a_length_beyond_the_file_takes_no_memory() {
    for length in [1u64 << 30, (1 << 31) - 1, 1 << 31, u64::MAX] {
        let mut bytes = length.to_le_bytes().to_vec();
        let sum = thalweg_checkpoint::crc::masked(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(b"short");
        let (events, error, complete) = read(&bytes);
        assert_eq!((events.len(), complete), (0, false));
        assert_eq!(error.is_some(), length >= 1 << 31, "{length}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = EventReader::open("no/such/file")
        .err()
        .map(|e| e.to_string());
    let said = error.unwrap_or_default();
    assert!(
        said.starts_with("no/such/file: the event file cannot be read: "),
        "{said}"
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), data in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = read(&bytes);
        let mut record = Vec::new();
        write_record(&mut record, &data).unwrap();
        let _ = read(&record);
    }
}
