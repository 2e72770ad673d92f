//! Lines of JSON over a stream: writer, reader, greeting.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tensor::sync::Unpoisoned;

use super::timing::{HEARTBEAT_INTERVAL, SILENCE_TIMEOUT};
use crate::secret::Secret;
use crate::stream::Stream;

/// Maximum bytes of the first line of a connection, which is not authenticated yet.
const MAX_FIRST_LINE: usize = 4 << 10;
/// Maximum bytes of other lines: a plan of some 100,000 collectives.
const MAX_LINE: usize = 16 << 20;

/// Timeout of the first line of a new connection.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Formats a message as a line.
pub(crate) fn line(message: &Value) -> String {
    format!("{message}\n")
}

/// Timeout of the write of a line: a peer that reads nothing for so long is lost anyway.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writer of lines, for use by any thread.
pub(crate) struct Writer {
    stream: Arc<Stream>,
    /// Locked while a line is written.
    line: Mutex<()>,
}

impl Writer {
    pub(crate) fn new(stream: &Arc<Stream>) -> Writer {
        Writer {
            stream: stream.clone(),
            line: Mutex::new(()),
        }
    }

    pub(crate) fn write(&self, message: &Value) -> io::Result<()> {
        self.write_line(&line(message))
    }

    /// Writes a line that [`line`] has formatted.
    pub(crate) fn write_line(&self, line: &str) -> io::Result<()> {
        let _line = self.line.lock().unpoisoned();
        self.stream.write_all_within(line.as_bytes(), WRITE_TIMEOUT)
    }

    /// Shuts down both directions.
    pub(crate) fn close(&self) {
        self.stream.close();
    }
}

/// Reader of lines.
pub(crate) struct Reader {
    stream: Arc<Stream>,
    read: Vec<u8>,
    /// Maximum bytes of a line.
    max_line: usize,
    /// Number of leading bytes without an end of line.
    scanned: usize,
    /// Deadline of the greeting.
    deadline: Option<Instant>,
    /// Time of the last read.
    last_read: Instant,
}

/// Result of a read.
pub(crate) enum WireLine {
    /// A line.
    Message(Value),
    /// Nothing yet.
    Nothing,
}

impl Reader {
    pub(crate) fn new(stream: Arc<Stream>) -> Reader {
        Reader {
            stream,
            read: Vec::new(),
            max_line: MAX_FIRST_LINE,
            scanned: 0,
            deadline: Some(Instant::now() + GREETING_TIMEOUT),
            last_read: Instant::now(),
        }
    }

    /// Allows long lines, after the peer is authenticated.
    pub(crate) fn trust(&mut self) {
        self.max_line = MAX_LINE;
        self.deadline = None;
    }

    /// Time since the last read.
    pub(crate) fn silence(&self) -> Duration {
        self.last_read.elapsed()
    }

    /// Reads the next line, if it comes before the next heartbeat.
    ///
    /// # Errors
    /// The stream has ended; a line is not JSON, or too long.
    pub(crate) fn next(&mut self) -> io::Result<WireLine> {
        loop {
            let end = self.read[self.scanned..].iter().position(|&b| b == b'\n');
            if let Some(end) = end.map(|end| self.scanned + end) {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                self.scanned = 0;
                return Ok(WireLine::Message(serde_json::from_slice(&line)?));
            }
            if self.read.len() > self.max_line {
                return Err(io::Error::other("a line is too long"));
            }
            self.scanned = self.read.len();
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() > deadline)
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut bytes = [0; 4096];
            match self.stream.read_within(&mut bytes, HEARTBEAT_INTERVAL) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.last_read = Instant::now();
                    self.read.extend_from_slice(&bytes[..n]);
                }
                Err(e) if is_timeout(&e) => return Ok(WireLine::Nothing),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Reads the first message of a new connection. A peer with another secret is refused and closed.
pub(crate) fn accept_peer(
    stream: TcpStream,
    secret: &Secret,
) -> Option<(Value, Reader, Arc<Writer>)> {
    let stream = Arc::new(Stream::accepted(stream, secret).ok()?);
    let writer = Arc::new(Writer::new(&stream));
    let mut reader = Reader::new(stream);
    let first = loop {
        match reader.next() {
            Ok(WireLine::Message(message)) => break message,
            Ok(WireLine::Nothing) => {}
            Err(_) => return None,
        }
    };
    let presented = first["secret"].as_str()?;
    if !secret.admits(presented.as_bytes()) {
        let _ = writer.write(&json!({"refused": "the secret of the job is another one"}));
        writer.close();
        return None;
    }
    reader.trust();
    Some((first, reader, writer))
}

/// Handles messages of the other end, and writes heartbeats, until `leaves` is set. Returns `None` then. If the other end
/// leaves first, returns the reason, as a predicate.
pub(crate) fn handle_messages(
    mut reader: Reader,
    writer: &Writer,
    leaves: &AtomicBool,
    mut handle: impl FnMut(&mut Value),
) -> Option<String> {
    reader.trust();
    let mut heartbeat = Instant::now();
    loop {
        match reader.next() {
            Ok(WireLine::Message(mut message)) => handle(&mut message),
            Ok(WireLine::Nothing) => {}
            Err(e) => return Some(format!("is lost: {e}")),
        }
        if leaves.load(Ordering::Acquire) {
            return None;
        }
        if reader.silence() > SILENCE_TIMEOUT {
            return Some(format!("was not heard of for {SILENCE_TIMEOUT:?}"));
        }
        if heartbeat.elapsed() >= HEARTBEAT_INTERVAL {
            heartbeat = Instant::now();
            // A lost peer is noticed by reads.
            let _ = writer.write(&json!({}));
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
