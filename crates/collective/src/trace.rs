//! Trace of the collectives of all ranks, for Perfetto and Chrome: waits, copies and reductions, a process for each rank.

use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::phase_timer::Phase;
use crate::timeline::{EventFile, micros};

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
    file: EventFile,
    rank: usize,
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
        let name = |event: &str, tid: u64, name: String| json!({"name": event, "ph": "M", "pid": rank, "tid": tid, "args": {"name": name}});
        let first = name("process_name", RUN_ROW, format!("rank {rank}"));
        let mut file = EventFile::create(path, &first)?;
        file.event(&json!({
            "name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank},
        }))?;
        file.event(&name("thread_name", RUN_ROW, "collectives".to_owned()))?;
        file.event(&name(
            "thread_name",
            QUEUE_ROW,
            "ready, waiting to run".to_owned(),
        ))?;
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
        let pid = self.rank;
        self.number += 1;
        let args = json!({"bytes": record.bytes, "what": record.kind, "number": self.number});
        // Several collectives wait at the same time, so their waits are asynchronous events.
        let id = format!("{pid}.{}", self.number);
        for (ph, ts) in [("b", queued), ("e", began)] {
            self.file.event(&json!({
                "name": record.name, "cat": "queue", "ph": ph, "id": id, "pid": pid, "tid": QUEUE_ROW, "ts": ts,
            }))?;
        }
        let slice = |name: &str, from: f64, took: f64| json!({"name": name, "ph": "X", "pid": pid, "tid": RUN_ROW, "ts": from, "dur": took});
        let mut whole = slice(record.name, began, ended - began);
        whole["args"] = args;
        self.file.event(&whole)?;
        let mut from = began;
        for (phase, spent) in record.spent {
            // A phase is no longer than the rest of the run.
            let took = micros(spent).min(ended - from);
            if took > 0.0 {
                self.file.event(&slice(phase.name(), from, took))?;
                from += took;
            }
        }
        Ok(())
    }
}
