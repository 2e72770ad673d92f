//! Tests of the event writer: full disks, closing, several threads and writers.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{SummaryWriter, SummaryWriterOptions};
use crate::{EventReader, SummaryError};

/// A disk with room for this many bytes.
struct Disk {
    room: usize,
    written: Arc<AtomicUsize>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.room);
        if n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= n;
        self.written.fetch_add(n, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn on_disk(room: usize, options: &SummaryWriterOptions) -> (SummaryWriter, Arc<AtomicUsize>) {
    let written = Arc::new(AtomicUsize::new(0));
    let disk = Disk {
        room,
        written: written.clone(),
    };
    let writer = SummaryWriter::of(Path::new("logs/events"), disk, options).unwrap();
    (writer, written)
}

#[test]
fn a_full_disk_is_an_error_of_flush_and_of_all_later_calls() {
    let (writer, _) = on_disk(100, &SummaryWriterOptions::new());
    writer.scalar("loss", 1.0, 1).unwrap();
    writer.scalar("loss", 1.0, 2).unwrap();
    let error = writer.flush().unwrap_err();
    assert_eq!(
        error.to_string(),
        "logs/events: writing events failed: no storage space; if the disk is full, free some space, then create \
         a new writer"
    );
    assert_eq!(writer.scalar("loss", 1.0, 3).unwrap_err(), error);
    assert_eq!(writer.flush().unwrap_err(), error);
    assert_eq!(writer.close().unwrap_err(), error);
    assert_eq!(writer.clone().close().unwrap_err(), error);
}

#[test]
fn a_disk_that_fills_up_fails_waiting_callers() {
    let options = SummaryWriterOptions::new().queue_bytes(1 << 10);
    let (writer, _) = on_disk(100_000, &options);
    let mut calls = (0..1_000_000).map(|step| writer.scalar("loss", 1.0, step));
    assert!(matches!(
        calls.find_map(Result::err),
        Some(SummaryError::Write { .. })
    ));
}

#[test]
fn calls_after_close_are_errors() {
    let (writer, _) = on_disk(1000, &SummaryWriterOptions::new());
    let clone = writer.clone();
    writer.close().unwrap();
    writer.close().unwrap();
    let error = clone.scalar("loss", 1.0, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "logs/events: the writer of this file was closed; create a new one, which writes a file of its own"
    );
    assert!(matches!(clone.flush(), Err(SummaryError::Closed { .. })));
}

#[test]
fn events_reach_the_file_in_time_without_a_flush() {
    let options = SummaryWriterOptions::new().flush_every(Duration::from_millis(5));
    let (writer, written) = on_disk(1000, &options);
    let before = written.load(Ordering::Relaxed);
    writer.scalar("loss", 1.0, 1).unwrap();
    for _ in 0..2000 {
        if written.load(Ordering::Relaxed) > before {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nothing was written");
}

#[test]
fn dropping_the_last_clone_writes_pending_events() {
    let (writer, written) = on_disk(1000, &SummaryWriterOptions::new());
    let before = written.load(Ordering::Relaxed);
    let clone = writer.clone();
    drop(writer);
    clone.scalar("loss", 1.0, 1).unwrap();
    drop(clone);
    assert!(written.load(Ordering::Relaxed) > before);
}

#[test]
fn threads_and_two_writers_of_one_second_do_not_mix_their_records() {
    let dir = std::env::temp_dir().join(format!("thalweg-threads-{}", std::process::id()));
    let writers = [(); 2].map(|()| SummaryWriter::create(&dir).unwrap());
    std::thread::scope(|scope| {
        for writer in &writers {
            for thread in 0..4 {
                let writer = writer.clone();
                scope.spawn(move || {
                    (0..1000).for_each(|step| writer.scalar("x", thread, step).unwrap());
                });
            }
        }
    });
    assert_ne!(writers[0].path(), writers[1].path());
    for writer in writers {
        writer.close().unwrap();
        let mut events = EventReader::open(writer.path()).unwrap();
        let count = events.by_ref().map(Result::unwrap).count();
        assert_eq!((count, events.complete()), (4001, true));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Prints timings: `cargo test --release -p thalweg-summary -- --ignored --nocapture million`.
#[test]
#[ignore = "a measurement"]
fn a_million_scalars() {
    let dir = std::env::temp_dir().join(format!("thalweg-million-{}", std::process::id()));
    let start = std::time::Instant::now();
    let writer = SummaryWriter::create(&dir).unwrap();
    for step in 0..1_000_000 {
        writer.scalar("train/loss", step as f64, step).unwrap();
    }
    let called = start.elapsed();
    writer.close().unwrap();
    let all = start.elapsed();
    let bytes = std::fs::metadata(writer.path()).unwrap().len();
    println!("1,000,000 scalars: calls {called:?}, with the file closed {all:?}, {bytes} bytes");
    let start = std::time::Instant::now();
    let events = EventReader::open(writer.path()).unwrap();
    assert_eq!(events.map(Result::unwrap).count(), 1_000_001);
    println!("read again: {:?}", start.elapsed());
    std::fs::remove_dir_all(dir).unwrap();
    assert!(all < Duration::from_secs(1), "{all:?}");
}
