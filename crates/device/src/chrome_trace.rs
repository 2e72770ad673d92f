//! Writer of Chrome's trace format ("Trace Event Format"), which Perfetto and `chrome://tracing` open: typed events in,
//! JSON out, as a whole text or as a file that is valid at every time.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// Numbers of a process and of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Track {
    /// The process.
    pub process: u64,
    /// The thread: a row of the process.
    pub thread: u64,
}

/// Value of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A text.
    Text(&'a str),
    /// Several texts.
    Texts(&'a [String]),
    /// A whole number.
    Number(u64),
    /// A number.
    Float(f64),
}

/// Arguments of an event, which viewers show beside it.
pub type Args<'a> = &'a [(&'a str, Arg<'a>)];

/// Start or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The start.
    Start,
    /// The end.
    Finish,
}

/// Event of a trace. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub enum TraceEvent<'a> {
    /// Names a process.
    ProcessName {
        /// The process.
        process: u64,
        /// Its name.
        name: &'a str,
    },
    /// Sets the place of a process among the others.
    ProcessOrder {
        /// The process.
        process: u64,
        /// Its place.
        order: u64,
    },
    /// Names a thread.
    ThreadName {
        /// The thread.
        track: Track,
        /// Its name.
        name: &'a str,
    },
    /// Work on a thread. Slices of one thread nest, or follow each other.
    Slice {
        /// The thread.
        track: Track,
        /// Name of the work.
        name: &'a str,
        /// Category of the work, by which viewers filter.
        category: Option<&'a str>,
        /// Start.
        start_us: f64,
        /// Duration.
        duration_us: f64,
        /// Arguments.
        args: Args<'a>,
    },
    /// One end of a span that may overlap others of its row.
    Async {
        /// Start or end.
        end: End,
        /// The row.
        track: Track,
        /// Name of the span.
        name: &'a str,
        /// Category of the span.
        category: &'a str,
        /// Identity of the span: that of both its ends.
        id: &'a str,
        /// Time.
        at_us: f64,
    },
    /// One end of an arrow between two slices. It belongs to the slice around `at_us`.
    Flow {
        /// Start or end.
        end: End,
        /// The thread of the slice.
        track: Track,
        /// Name of the arrow.
        name: &'a str,
        /// Category of the arrow.
        category: &'a str,
        /// Number of the arrow: that of both its ends.
        id: u64,
        /// Time.
        at_us: f64,
    },
    /// A point in time, for all processes.
    Instant {
        /// Name of the event.
        name: &'a str,
        /// Time.
        at_us: f64,
        /// Arguments.
        args: Args<'a>,
    },
}

impl TraceEvent<'_> {
    fn to_json(self) -> Value {
        match self {
            TraceEvent::ProcessName { process, name } => named("process_name", process, 0, name),
            TraceEvent::ThreadName { track, name } => {
                named("thread_name", track.process, track.thread, name)
            }
            TraceEvent::ProcessOrder { process, order } => json!({
                "name": "process_sort_index", "ph": "M", "pid": process, "args": {"sort_index": order},
            }),
            TraceEvent::Slice {
                track,
                name,
                category,
                start_us,
                duration_us,
                args,
            } => {
                let mut event = json!({
                    "name": name, "ph": "X", "ts": start_us, "dur": duration_us,
                    "pid": track.process, "tid": track.thread,
                });
                if let Some(category) = category {
                    event["cat"] = category.into();
                }
                with_args(event, args)
            }
            TraceEvent::Async {
                end,
                track,
                name,
                category,
                id,
                at_us,
            } => json!({
                "name": name, "cat": category, "ph": match end { End::Start => "b", End::Finish => "e" },
                "id": id, "ts": at_us, "pid": track.process, "tid": track.thread,
            }),
            // `bp` binds the end to the slice around it, not to the next one.
            TraceEvent::Flow {
                end,
                track,
                name,
                category,
                id,
                at_us,
            } => json!({
                "name": name, "cat": category, "ph": match end { End::Start => "s", End::Finish => "f" },
                "id": id, "bp": "e", "ts": at_us, "pid": track.process, "tid": track.thread,
            }),
            TraceEvent::Instant { name, at_us, args } => {
                let event = json!({"name": name, "ph": "i", "s": "g", "ts": at_us, "pid": 0});
                with_args(event, args)
            }
        }
    }
}

/// Metadata that names a process or a thread.
fn named(kind: &str, process: u64, thread: u64, name: &str) -> Value {
    json!({"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})
}

fn with_args(mut event: Value, args: Args<'_>) -> Value {
    for &(name, arg) in args {
        event["args"][name] = match arg {
            Arg::Text(text) => text.into(),
            Arg::Texts(texts) => texts.into(),
            Arg::Number(number) => number.into(),
            Arg::Float(number) => number.into(),
        };
    }
    event
}

/// Returns the text of a file with these events.
///
/// ```
/// use thalweg_device::chrome_trace::{TraceEvent, to_json};
///
/// let name = TraceEvent::ProcessName { process: 1, name: "a GPU" };
/// assert!(to_json([name]).contains("\"a GPU\""));
/// ```
pub fn to_json<'a>(events: impl IntoIterator<Item = TraceEvent<'a>>) -> String {
    let events: Vec<Value> = events.into_iter().map(TraceEvent::to_json).collect();
    json!({"traceEvents": events, "displayTimeUnit": "ms"}).to_string()
}

/// Returns a time in the unit of events.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// End of a file. The next event overwrites it.
const CLOSING: &[u8] = b"\n]\n";

/// File of events that is valid JSON at every time.
pub struct TraceFile(File);

impl TraceFile {
    /// Creates or replaces the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: impl AsRef<Path>, first: TraceEvent<'_>) -> io::Result<TraceFile> {
        let mut file = File::create(path)?;
        file.write_all(format!("[\n{}", first.to_json()).as_bytes())?;
        file.write_all(CLOSING)?;
        Ok(TraceFile(file))
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The file cannot be written; it then ends with the last whole event, or within one.
    pub fn add(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
        self.0.seek(SeekFrom::End(-(CLOSING.len() as i64)))?;
        let mut text = format!(",\n{}", event.to_json()).into_bytes();
        text.extend_from_slice(CLOSING);
        self.0.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACK: Track = Track {
        process: 3,
        thread: 4,
    };

    #[test]
    fn every_event_has_the_fields_of_its_phase() {
        let texts = ["a".to_owned(), "b".to_owned()];
        let slice = |category, args| TraceEvent::Slice {
            track: TRACK,
            name: "n",
            category,
            start_us: 1.5,
            duration_us: 2.0,
            args,
        };
        let args = [
            ("op", Arg::Text("Add")),
            ("bytes", Arg::Number(u64::MAX)),
            ("rate", Arg::Float(0.5)),
            ("nodes", Arg::Texts(&texts)),
        ];
        let flow = |end| TraceEvent::Flow {
            end,
            track: TRACK,
            name: "n",
            category: "c",
            id: 7,
            at_us: 1.0,
        };
        let span = |end| TraceEvent::Async {
            end,
            track: TRACK,
            name: "n",
            category: "c",
            id: "3.1",
            at_us: 1.0,
        };
        for (event, expected) in [
            (
                TraceEvent::ProcessName {
                    process: 3,
                    name: "\"q\"",
                },
                json!({"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "\"q\""}}),
            ),
            (
                TraceEvent::ThreadName {
                    track: TRACK,
                    name: "t",
                },
                json!({"name": "thread_name", "ph": "M", "pid": 3, "tid": 4, "args": {"name": "t"}}),
            ),
            (
                TraceEvent::ProcessOrder {
                    process: 3,
                    order: 9,
                },
                json!({"name": "process_sort_index", "ph": "M", "pid": 3, "args": {"sort_index": 9}}),
            ),
            (
                slice(None, &[]),
                json!({"name": "n", "ph": "X", "pid": 3, "tid": 4, "ts": 1.5, "dur": 2.0}),
            ),
            (
                slice(Some("c"), &args),
                json!({
                    "name": "n", "cat": "c", "ph": "X", "pid": 3, "tid": 4, "ts": 1.5, "dur": 2.0,
                    "args": {"op": "Add", "bytes": u64::MAX, "rate": 0.5, "nodes": ["a", "b"]},
                }),
            ),
            (
                flow(End::Start),
                json!({"name": "n", "cat": "c", "ph": "s", "id": 7, "bp": "e", "pid": 3, "tid": 4, "ts": 1.0}),
            ),
            (
                flow(End::Finish),
                json!({"name": "n", "cat": "c", "ph": "f", "id": 7, "bp": "e", "pid": 3, "tid": 4, "ts": 1.0}),
            ),
            (
                span(End::Start),
                json!({"name": "n", "cat": "c", "ph": "b", "id": "3.1", "pid": 3, "tid": 4, "ts": 1.0}),
            ),
            (
                span(End::Finish),
                json!({"name": "n", "cat": "c", "ph": "e", "id": "3.1", "pid": 3, "tid": 4, "ts": 1.0}),
            ),
            (
                TraceEvent::Instant {
                    name: "n",
                    at_us: 0.0,
                    args: &args[1..2],
                },
                json!({"name": "n", "ph": "i", "s": "g", "pid": 0, "ts": 0.0, "args": {"bytes": u64::MAX}}),
            ),
        ] {
            assert_eq!(event.to_json(), expected);
        }
    }

    #[test]
    fn a_file_is_valid_after_each_event() {
        let name = format!("thalweg-trace-file-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let event = |name| TraceEvent::ThreadName { track: TRACK, name };
        let mut file = TraceFile::create(&path, event("0")).unwrap();
        for number in 1..4 {
            let text = std::fs::read(&path).unwrap();
            let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
            assert_eq!(events.len(), number);
            file.add(event("more")).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }
}
