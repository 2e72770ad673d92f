//! What the collectives of all ranks wait for and do, as a trace that Perfetto and Chrome show: a process for each rank.

use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::timeline::{EventFile, micros};
use crate::watch::Phase;

/// The row of what runs, and of what waits to run.
const RUNS: u64 = 0;
const QUEUE: u64 = 1;

/// A collective that has run.
pub(crate) struct Ran<'a> {
    pub(crate) name: &'a str,
    /// Such as `ALLREDUCE`.
    pub(crate) what: &'a str,
    /// The bytes that this rank gave.
    pub(crate) bytes: usize,
    /// When it was asked for, when it began and when it ended.
    pub(crate) times: [Instant; 3],
    pub(crate) spent: [(Phase, std::time::Duration); 3],
}

/// The trace of one rank. Times are of the machine's clock, so those of ranks of one host fit each other.
pub(crate) struct Trace {
    file: EventFile,
    rank: usize,
    /// A time, by both clocks.
    began: (Instant, f64),
    /// How many have run.
    number: u64,
}

impl Trace {
    /// A new file, or one in place of what is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(path: impl AsRef<Path>, rank: usize) -> io::Result<Trace> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let began = (Instant::now(), micros(since_epoch.unwrap_or_default()));
        let name = |what: &str, tid: u64, name: String| json!({"name": what, "ph": "M", "pid": rank, "tid": tid, "args": {"name": name}});
        let first = name("process_name", RUNS, format!("rank {rank}"));
        let mut file = EventFile::create(path, &first)?;
        file.event(&json!({
            "name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank},
        }))?;
        file.event(&name("thread_name", RUNS, "collectives".to_owned()))?;
        file.event(&name(
            "thread_name",
            QUEUE,
            "ready, waiting to run".to_owned(),
        ))?;
        Ok(Trace {
            file,
            rank,
            began,
            number: 0,
        })
    }

    fn at(&self, time: Instant) -> f64 {
        self.began.1 + micros(time.saturating_duration_since(self.began.0))
    }

    /// Writes a collective: when it was ready, when it ran, and what its time went to. The parts are sums: they stand one after
    /// another, and are in truth of many pieces.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn ran(&mut self, ran: &Ran<'_>) -> io::Result<()> {
        let [asked, began, ended] = ran.times.map(|time| self.at(time));
        let pid = self.rank;
        self.number += 1;
        let args = json!({"bytes": ran.bytes, "what": ran.what, "number": self.number});
        // Several wait at the same time, so they are no slices of one row.
        let id = format!("{pid}.{}", self.number);
        for (ph, ts) in [("b", asked), ("e", began)] {
            self.file.event(&json!({
                "name": ran.name, "cat": "queue", "ph": ph, "id": id, "pid": pid, "tid": QUEUE, "ts": ts,
            }))?;
        }
        let slice = |name: &str, from: f64, took: f64| json!({"name": name, "ph": "X", "pid": pid, "tid": RUNS, "ts": from, "dur": took});
        let mut whole = slice(ran.name, began, ended - began);
        whole["args"] = args;
        self.file.event(&whole)?;
        let mut from = began;
        for (phase, spent) in ran.spent {
            // What was measured within is no longer than the whole.
            let took = micros(spent).min(ended - from);
            if took > 0.0 {
                self.file.event(&slice(phase.name(), from, took))?;
                from += took;
            }
        }
        Ok(())
    }
}
