//! A bounded queue of log lines, which a thread writes to standard error: a reader that stops does not stop the server.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::text::one_line;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum bytes of lines that wait.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// Lines that wait to be written. A line that does not fit is dropped, and counted.
#[derive(Clone)]
pub struct LogQueue(Arc<Shared>);

struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    /// The thread writes a line.
    writing: bool,
}

impl LogQueue {
    /// A queue whose lines a new thread writes to `out`.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn writing_to(out: impl Write + Send + 'static) -> io::Result<LogQueue> {
        let shared = Arc::new(Shared {
            lines: Mutex::default(),
            changed: Condvar::new(),
        });
        let queue = LogQueue(shared);
        let lines = queue.clone();
        std::thread::Builder::new()
            .name("thalweg-log".to_owned())
            .spawn(move || lines.write_all(out))?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unpoisoned()
    }

    /// Adds a line, which may have come from a client in part: its control characters are escaped.
    pub fn push(&self, line: &[u8]) {
        let line = escaped(line);
        let mut lines = self.lock();
        if lines.bytes + line.len() > MAX_QUEUED_BYTES {
            lines.dropped += 1;
            return;
        }
        lines.bytes += line.len();
        lines.waiting.push_back(line);
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written, for this time at most.
    pub fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut lines = self.lock();
        while !lines.waiting.is_empty() || lines.dropped > 0 || lines.writing {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            lines = self.0.changed.wait_timeout(lines, left).unpoisoned().0;
        }
    }

    /// Writes lines as they come, for as long as the process lives.
    fn write_all(&self, mut out: impl Write) {
        let mut lines = self.lock();
        loop {
            // The note of dropped lines never was in the queue.
            let (next, queued) = match std::mem::take(&mut lines.dropped) {
                0 => (lines.waiting.pop_front(), true),
                dropped => (Some(dropped_note(dropped)), false),
            };
            let Some(line) = next else {
                lines = self.0.changed.wait(lines).unpoisoned();
                continue;
            };
            lines.writing = true;
            drop(lines);
            // A closed standard error loses the line, and not the server.
            let _ = out.write_all(&line).and_then(|()| out.flush());
            lines = self.lock();
            lines.writing = false;
            lines.bytes -= if queued { line.len() } else { 0 };
            self.0.changed.notify_all();
        }
    }
}

fn dropped_note(dropped: u64) -> Vec<u8> {
    format!("note: {dropped} log lines were dropped: standard error was not read\n").into_bytes()
}

/// The line with one end of line, at its end.
fn escaped(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    (one_line(text.trim_end_matches('\n')) + "\n").into_bytes()
}

/// Writer of one event, which becomes one line.
pub struct EventWriter {
    queue: LogQueue,
    line: Vec<u8>,
}

impl Write for EventWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.queue.push(&self.line);
        }
    }
}

impl MakeWriter<'_> for LogQueue {
    type Writer = EventWriter;

    fn make_writer(&self) -> EventWriter {
        EventWriter {
            queue: self.clone(),
            line: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A writer that takes a line each time it is told to.
    struct Slow {
        turns: Receiver<()>,
        lines: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.turns.recv();
            let _ = self.lines.send(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_blocks_nobody_and_hears_of_dropped_lines() {
        let ((turn, turns), (lines, written)) = (channel(), channel());
        let queue = LogQueue::writing_to(Slow { turns, lines }).unwrap();
        let long = vec![b'x'; MAX_QUEUED_BYTES / 4];
        for _ in 0..20 {
            queue.push(&long);
        }
        queue.flush(Duration::from_millis(1));
        drop(turn);
        queue.flush(Duration::from_secs(60));
        let all: Vec<String> = written.try_iter().collect();
        let note = all.iter().filter(|l| l.starts_with("note: "));
        let dropped: u64 = note
            .map(|l| l.split(' ').nth(1).unwrap().parse::<u64>().unwrap())
            .sum();
        let kept = all.iter().filter(|l| l.starts_with('x')).count() as u64;
        assert!(kept >= 3 && dropped > 0);
        assert_eq!(kept + dropped, 20);
    }

    #[test]
    fn a_line_is_one_line_whatever_a_client_writes_in_it() {
        let escaped = |text: &str| String::from_utf8(escaped(text.as_bytes())).unwrap();
        assert_eq!(escaped("plain \u{e9}\n"), "plain \u{e9}\n");
        assert_eq!(
            escaped("x\n{\"level\":\"ERROR\"}\n"),
            "x\\n{\"level\":\"ERROR\"}\n"
        );
        assert_eq!(escaped("\u{1b}[2J\r\u{7}"), "\\u{1b}[2J\\r\\u{7}\n");
    }
}
