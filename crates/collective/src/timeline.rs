//! Horovod's timeline: the waits and the run of each collective, as a trace for Perfetto and Chrome.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// End of the file. The next event overwrites it, so that the file is valid JSON at every time.
const CLOSING: &[u8] = b"\n]\n";

/// Timeline of a rank: a file of events. Each tensor has a row of its own.
///
/// ```
/// use std::time::Instant;
/// use thalweg_collective::Timeline;
///
/// # let folder = std::env::temp_dir().join(format!("timeline-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("timeline.json");
/// let mut timeline = Timeline::create(&path)?;
/// let asked = Instant::now();
/// timeline.span("gradients", "QUEUE", asked, Instant::now())?;
/// // The file can be read while it grows.
/// let events: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
/// assert_eq!(events[2]["name"], "QUEUE");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Timeline {
    file: EventFile,
    began: Instant,
    /// Row numbers by name of the tensor.
    rows: HashMap<String, u64>,
}

impl Timeline {
    /// Creates or replaces the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Timeline> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let first = json!({
            "name": "start", "ph": "i", "s": "g", "pid": 0, "ts": 0,
            "args": {"us_since_epoch": micros(since_epoch.unwrap_or_default())},
        });
        Ok(Timeline {
            file: EventFile::create(path, &first)?,
            began: Instant::now(),
            rows: HashMap::new(),
        })
    }

    /// Adds a span: an activity of a tensor with its start and end.
    ///
    /// # Errors
    /// The file cannot be written; it then ends with the last whole event, or within one.
    pub fn span(
        &mut self,
        tensor: &str,
        activity: &str,
        from: Instant,
        to: Instant,
    ) -> io::Result<()> {
        let row = match self.rows.get(tensor) {
            Some(&row) => row,
            None => {
                let row = self.rows.len() as u64 + 1;
                self.rows.insert(tensor.to_owned(), row);
                self.file.event(&json!({
                    "name": "process_name", "ph": "M", "pid": row, "args": {"name": tensor},
                }))?;
                row
            }
        };
        let at = micros(from.saturating_duration_since(self.began));
        let took = micros(to.saturating_duration_since(from));
        self.file.event(
            &json!({"name": activity, "ph": "X", "pid": row, "tid": 0, "ts": at, "dur": took}),
        )
    }
}

/// File of events that is valid JSON at every time.
pub(crate) struct EventFile(File);

impl EventFile {
    /// Creates or replaces the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: impl AsRef<Path>, first: &Value) -> io::Result<EventFile> {
        let mut file = File::create(path)?;
        file.write_all(format!("[\n{first}").as_bytes())?;
        file.write_all(CLOSING)?;
        Ok(EventFile(file))
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The file cannot be written; it then ends with the last whole event, or within one.
    pub(crate) fn event(&mut self, event: &Value) -> io::Result<()> {
        self.0.seek(SeekFrom::End(-(CLOSING.len() as i64)))?;
        let mut text = format!(",\n{event}").into_bytes();
        text.extend_from_slice(CLOSING);
        self.0.write_all(&text)
    }
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
