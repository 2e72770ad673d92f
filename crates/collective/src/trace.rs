//! Trace of the collectives of all ranks, for Perfetto and Chrome: waits, copies and reductions, a process for each rank.

use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use thalweg_device::chrome_trace::{Arg, End, TraceEvent, TraceFile, Track, micros};

use crate::phase_timer::Phase;

/// Row of running collectives.
const RUN_ROW: u64 = 0;
/// Row of collectives that wait to run.
const QUEUE_ROW: u64 = 1;

/// Record of a collective that has run.
pub(crate) struct CollectiveRecord<'a> {
    pub(crate) name: &'a str,
    /// Kind, such as `ALLREDUCE`.
    pub(crate) kind: &'a str,
    /// Bytes of this rank's input.
    pub(crate) bytes: usize,
    /// Times of the request, the start and the end.
    pub(crate) times: [Instant; 3],
    pub(crate) spent: [(Phase, std::time::Duration); 3],
}

/// Trace of one rank. Times are of the machine's clock, so times of ranks of one host are comparable.
pub(crate) struct Trace {
    file: TraceFile,
    rank: u64,
    /// The same time by both clocks.
    epoch: (Instant, f64),
    /// Number of collectives so far.
    number: u64,
}

impl Trace {
    /// Creates or replaces the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: impl AsRef<Path>, rank: usize) -> io::Result<Trace> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = (Instant::now(), micros(since_epoch.unwrap_or_default()));
        let rank = rank as u64;
        let first = TraceEvent::ProcessName {
            process: rank,
            name: &format!("rank {rank}"),
        };
        let mut file = TraceFile::create(path, first)?;
        file.add(TraceEvent::ProcessOrder {
            process: rank,
            order: rank,
        })?;
        for (thread, name) in [
            (RUN_ROW, "collectives"),
            (QUEUE_ROW, "ready, waiting to run"),
        ] {
            let track = Track {
                process: rank,
                thread,
            };
            file.add(TraceEvent::ThreadName { track, name })?;
        }
        Ok(Trace {
            file,
            rank,
            epoch,
            number: 0,
        })
    }

    fn at(&self, time: Instant) -> f64 {
        self.epoch.1 + micros(time.saturating_duration_since(self.epoch.0))
    }

    /// Writes a collective: its wait, its run, and the time of each phase of the run. Phases alternate in many pieces; the trace
    /// has their sums, one after another.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&mut self, record: &CollectiveRecord<'_>) -> io::Result<()> {
        let [queued, began, ended] = record.times.map(|time| self.at(time));
        let row = |thread| Track {
            process: self.rank,
            thread,
        };
        let (run, queue) = (row(RUN_ROW), row(QUEUE_ROW));
        self.number += 1;
        // Several collectives wait at the same time, so their waits are asynchronous events.
        let id = format!("{}.{}", self.rank, self.number);
        for (end, at_us) in [(End::Start, queued), (End::Finish, began)] {
            self.file.add(TraceEvent::Async {
                end,
                track: queue,
                name: record.name,
                category: "queue",
                id: &id,
                at_us,
            })?;
        }
        self.file.add(TraceEvent::Slice {
            track: run,
            name: record.name,
            category: None,
            start_us: began,
            duration_us: ended - began,
            args: &[
                ("bytes", Arg::Number(record.bytes as u64)),
                ("what", Arg::Text(record.kind)),
                ("number", Arg::Number(self.number)),
            ],
        })?;
        let mut from = began;
        for (phase, spent) in record.spent {
            // A phase is no longer than the rest of the run.
            let took = micros(spent).min(ended - from);
            if took > 0.0 {
                self.file.add(TraceEvent::Slice {
                    track: run,
                    name: phase.name(),
                    category: None,
                    start_us: from,
                    duration_us: took,
                    args: &[],
                })?;
                from += took;
            }
        }
        Ok(())
    }
}
