//! Lines of JSON over a stream.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::timing::{HEARTBEAT_INTERVAL, SILENCE_TIMEOUT};
use crate::secret::Secret;
use crate::stream::Stream;

/// The most bytes of the first line of a connection, whose other end is not known yet.
const MOST_AT_FIRST: usize = 4 << 10;
/// The most bytes of other lines: a plan of some 100,000 collectives.
const MOST: usize = 16 << 20;

/// How long a new connection may take to say who it is.
const FIRST: Duration = Duration::from_secs(10);

/// A message as it is written.
pub(crate) fn line(message: &Value) -> String {
    format!("{message}\n")
}

/// How long the other end may take to read a line: who takes nothing for so long is lost anyway.
const TAKE: Duration = Duration::from_secs(5);

/// Writes lines, from any thread.
pub(crate) struct Writer {
    stream: Arc<Stream>,
    /// Held while a line is written.
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

    /// What [`line`] gives.
    pub(crate) fn write_line(&self, line: &str) -> io::Result<()> {
        let _line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        self.stream.write_all_within(line.as_bytes(), TAKE)
    }

    /// Ends both directions.
    pub(crate) fn close(&self) {
        self.stream.close();
    }
}

/// Reads lines.
pub(crate) struct Reader {
    stream: Arc<Stream>,
    read: Vec<u8>,
    /// The most bytes of a line.
    most: usize,
    /// Bytes in which there is no end of a line.
    looked: usize,
    /// When whoever is at the other end must be known.
    until: Option<Instant>,
    /// When something was last read.
    heard: Instant,
}

/// What a read came to.
pub(crate) enum Line {
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
            most: MOST_AT_FIRST,
            looked: 0,
            until: Some(Instant::now() + FIRST),
            heard: Instant::now(),
        }
    }

    /// Whoever is at the other end is known: it may write long lines.
    pub(crate) fn trust(&mut self) {
        self.most = MOST;
        self.until = None;
    }

    /// How long nothing was read.
    pub(crate) fn silence(&self) -> Duration {
        self.heard.elapsed()
    }

    /// The next line, if it comes before the next beat.
    ///
    /// # Errors
    /// The stream has ended, or what comes is not JSON, or too long.
    pub(crate) fn next(&mut self) -> io::Result<Line> {
        loop {
            let end = self.read[self.looked..].iter().position(|&b| b == b'\n');
            if let Some(end) = end.map(|end| self.looked + end) {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                self.looked = 0;
                return Ok(Line::Message(serde_json::from_slice(&line)?));
            }
            if self.read.len() > self.most {
                return Err(io::Error::other("a line is too long"));
            }
            self.looked = self.read.len();
            if self.until.is_some_and(|until| Instant::now() > until) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut bytes = [0; 4096];
            match self.stream.read_within(&mut bytes, HEARTBEAT_INTERVAL) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.heard = Instant::now();
                    self.read.extend_from_slice(&bytes[..n]);
                }
                Err(e) if is_late(&e) => return Ok(Line::Nothing),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// What the other end of a new connection says first, if it knows the secret; one that does not is told and closed.
pub(crate) fn greeted(stream: TcpStream, secret: &Secret) -> Option<(Value, Reader, Arc<Writer>)> {
    let stream = Arc::new(Stream::accepted(stream, secret).ok()?);
    let writer = Arc::new(Writer::new(&stream));
    let mut reader = Reader::new(stream);
    let first = loop {
        match reader.next() {
            Ok(Line::Message(message)) => break message,
            Ok(Line::Nothing) => {}
            Err(_) => return None,
        }
    };
    let said = first["secret"].as_str()?;
    if !secret.admits(said.as_bytes()) {
        let _ = writer.write(&json!({"refused": "the secret of the job is another one"}));
        writer.close();
        return None;
    }
    reader.trust();
    Some((first, reader, writer))
}

/// Hears the other end, and says something each beat, until `leaves` is set: gives nothing then. Gives why where the other end
/// goes first, as a predicate.
pub(crate) fn follow(
    mut reader: Reader,
    writer: &Writer,
    leaves: &AtomicBool,
    mut hear: impl FnMut(&mut Value),
) -> Option<String> {
    reader.trust();
    let mut beat = Instant::now();
    loop {
        match reader.next() {
            Ok(Line::Message(mut message)) => hear(&mut message),
            Ok(Line::Nothing) => {}
            Err(e) => return Some(format!("is lost: {e}")),
        }
        if leaves.load(Ordering::Acquire) {
            return None;
        }
        if reader.silence() > SILENCE_TIMEOUT {
            return Some(format!("was not heard of for {SILENCE_TIMEOUT:?}"));
        }
        if beat.elapsed() >= HEARTBEAT_INTERVAL {
            beat = Instant::now();
            // That it is gone is noticed by reading.
            let _ = writer.write(&json!({}));
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
