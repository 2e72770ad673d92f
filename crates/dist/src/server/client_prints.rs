//! Lines that graphs of clients print (Print, PrintV2): events of the log, at a limited rate.

use std::sync::Mutex;
use std::time::Instant;

use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::text::one_line;

/// Bytes per second that all graphs together may print.
const BYTES_PER_SECOND: f64 = 64.0 * 1024.0;
/// Bytes that they may print at once.
const BURST_BYTES: f64 = 1024.0 * 1024.0;
/// Maximum length of one line, in bytes.
const MAX_LINE: usize = 16 << 10;

/// A bucket of bytes that fills at a steady rate.
struct ByteBucket {
    left: f64,
    filled: Instant,
    dropped: u64,
}

impl ByteBucket {
    /// Takes the bytes of a line, and returns the number of lines that were dropped before it; `None` drops it too.
    fn take(&mut self, bytes: usize, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + passed * BYTES_PER_SECOND).min(BURST_BYTES);
        self.filled = now;
        if self.left < bytes as f64 {
            self.dropped += 1;
            return None;
        }
        self.left -= bytes as f64;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Printer of the graphs of a server.
pub(super) struct ClientPrints(Mutex<ByteBucket>);

impl Default for ClientPrints {
    fn default() -> ClientPrints {
        ClientPrints(Mutex::new(ByteBucket {
            left: BURST_BYTES,
            filled: Instant::now(),
            dropped: 0,
        }))
    }
}

impl ClientPrints {
    /// Logs a line as a client's. Control characters are escaped.
    pub(super) fn print(&self, line: &str) {
        let shown = shown(line);
        let taken = self.0.lock().unpoisoned().take(shown.len(), Instant::now());
        let Some(dropped) = taken else {
            return;
        };
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "lines of clients were dropped: they print too much"
            );
        }
        tracing::info!(target: "client", "{shown}");
    }
}

/// The start of a printed text, as one line.
fn shown(text: &str) -> String {
    let mut end = text.len().min(MAX_LINE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { " ..." } else { "" };
    one_line(&text[..end]) + cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_is_cut_and_has_no_control_characters() {
        assert_eq!(shown("a\tb\n\u{1b}[0m"), "a\tb\\n\\u{1b}[0m");
        let long = shown(&"\u{e9}".repeat(MAX_LINE));
        assert!(long.len() < MAX_LINE + 8 && long.ends_with(" ..."));
    }

    #[test]
    fn lines_beyond_the_rate_are_dropped_and_counted() {
        let start = Instant::now();
        let mut bucket = ByteBucket {
            left: 1000.0,
            filled: start,
            dropped: 0,
        };
        assert_eq!(bucket.take(600, start), Some(0));
        assert_eq!(bucket.take(600, start), None);
        assert_eq!(bucket.take(500, start), None);
        let later = start + Duration::from_secs(1);
        assert_eq!(bucket.take(600, later), Some(2));
        assert_eq!(bucket.take(600, later), Some(0));
        // It fills up to the burst.
        let much_later = later + Duration::from_secs(3600);
        assert_eq!(bucket.take(BURST_BYTES as usize + 1, much_later), None);
        assert_eq!(bucket.take(BURST_BYTES as usize, much_later), Some(1));
    }
}
