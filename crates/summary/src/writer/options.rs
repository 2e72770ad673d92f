//! Options of a writer.

use std::time::Duration;

/// Options of a [`SummaryWriter`](crate::SummaryWriter).
///
/// ```
/// use std::time::Duration;
/// use thalweg_summary::SummaryWriterOptions;
///
/// let options = SummaryWriterOptions::new().flush_every(Duration::from_secs(5)).file_suffix(".eval");
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct SummaryWriterOptions {
    pub(super) suffix: String,
    pub(super) flush_every: Duration,
    pub(super) queue_bytes: usize,
}

impl Default for SummaryWriterOptions {
    fn default() -> SummaryWriterOptions {
        SummaryWriterOptions {
            suffix: String::new(),
            flush_every: Duration::from_secs(120),
            queue_bytes: 16 << 20,
        }
    }
}

impl SummaryWriterOptions {
    /// The defaults.
    pub fn new() -> SummaryWriterOptions {
        SummaryWriterOptions::default()
    }

    /// Sets the suffix of the file's name; empty by default.
    pub fn file_suffix(mut self, suffix: &str) -> SummaryWriterOptions {
        suffix.clone_into(&mut self.suffix);
        self
    }

    /// Sets the longest time until an event is in the file; 120 seconds by default.
    pub fn flush_every(mut self, every: Duration) -> SummaryWriterOptions {
        self.flush_every = every;
        self
    }

    /// Sets the limit of pending bytes, above which a call waits; 16 MiB by default. A single event
    /// may be larger.
    pub fn queue_bytes(mut self, bytes: usize) -> SummaryWriterOptions {
        self.queue_bytes = bytes;
        self
    }
}

/// The host's name, with only the characters that a file's name can have.
pub(super) fn host() -> String {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let variable = || {
        ["HOSTNAME", "COMPUTERNAME"]
            .iter()
            .find_map(|v| std::env::var(v).ok())
    };
    let named = named.or_else(variable).unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String = named.chars().filter(fits).collect();
    match name.is_empty() {
        true => "localhost".to_owned(),
        false => name,
    }
}
