//! Horovod's timeline: the waits and the run of each collective, as a trace for Perfetto and Chrome.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use thalweg_device::chrome_trace::{Arg, TraceEvent, TraceFile, Track, micros};

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
    file: TraceFile,
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
        let since_epoch = micros(since_epoch.unwrap_or_default());
        let first = TraceEvent::Instant {
            name: "start",
            at_us: 0.0,
            args: &[("us_since_epoch", Arg::Float(since_epoch))],
        };
        Ok(Timeline {
            file: TraceFile::create(path, first)?,
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
                self.file.add(TraceEvent::ProcessName {
                    process: row,
                    name: tensor,
                })?;
                row
            }
        };
        self.file.add(TraceEvent::Slice {
            track: Track {
                process: row,
                thread: 0,
            },
            name: activity,
            category: None,
            start_us: micros(from.saturating_duration_since(self.began)),
            duration_us: micros(to.saturating_duration_since(from)),
            args: &[],
        })
    }
}
