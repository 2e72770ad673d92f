//! Reader of event files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;

use thalweg_checkpoint::crc;

use crate::error::SummaryError;
use crate::messages::Event;
use crate::record::{HEAD, MOST_BYTES, TAIL};

/// Reads the events of a file, one at a time.
///
/// A truncated tail ends the events without an error: a writer that is still running, or that was
/// killed, leaves such a file. [`complete`](EventReader::complete) is `true` if the last record was
/// complete. Any other damage is an error, after which there are no more events.
///
/// A record never takes more memory than the file has bytes.
///
/// ```
/// use thalweg_summary::messages::event::What;
/// use thalweg_summary::{EventReader, SummaryWriter};
///
/// # fn main() -> Result<(), thalweg_summary::SummaryError> {
/// # let logs = std::env::temp_dir().join(format!("thalweg-reader-{}", std::process::id()));
/// let writer = SummaryWriter::create(&logs)?;
/// writer.scalar("loss", 0.5, 7)?;
/// writer.flush()?;
/// for event in EventReader::open(writer.path())? {
///     let event = event?;
///     if let Some(What::Summary(summary)) = event.what {
///         assert_eq!((event.step, summary.value[0].tag.as_str()), (7, "loss"));
///     }
/// }
/// # std::fs::remove_dir_all(&logs).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct EventReader<R = BufReader<File>> {
    from: R,
    path: PathBuf,
    /// The offset of the next record.
    offset: u64,
    data: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Reading,
    /// The file ended after a record.
    Ended,
    /// The file ended inside a record, or has bytes that are not a record.
    Broken,
}

impl EventReader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`SummaryError::Read`].
    pub fn open(path: impl AsRef<Path>) -> Result<EventReader, SummaryError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|e| SummaryError::Read {
            path: path.to_owned(),
            reason: e.to_string(),
        })?;
        Ok(EventReader::new(BufReader::new(file), path))
    }
}

impl<R: Read> EventReader<R> {
    /// Reads from any reader; errors show `path` as its name.
    ///
    /// ```
    /// let no_events: &[u8] = b"";
    /// assert!(thalweg_summary::EventReader::new(no_events, "memory").next().is_none());
    /// ```
    pub fn new(from: R, path: impl Into<PathBuf>) -> EventReader<R> {
        EventReader {
            from,
            path: path.into(),
            offset: 0,
            data: Vec::new(),
            state: State::Reading,
        }
    }

    /// `true` if the file ended after a complete record. It is `false` before the iteration has
    /// ended.
    pub fn complete(&self) -> bool {
        self.state == State::Ended
    }

    /// The next event; `None` at the end of the file.
    fn read(&mut self) -> Result<Option<Event>, SummaryError> {
        let mut head = [0; HEAD];
        match self.fill(&mut head)? {
            HEAD => {}
            0 => {
                self.state = State::Ended;
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let (length, sum) = head.split_at(8);
        if crc::masked(length) != number(sum) as u32 {
            return Err(self.corrupt("the length of a record does not match its checksum"));
        }
        let length = number(length);
        if length > MOST_BYTES as u64 {
            return Err(self.corrupt("a record is longer than an event may be, 2 GiB"));
        }
        let whole = length as usize + TAIL;
        self.data.clear();
        // The buffer grows with the bytes read, not with the claimed length.
        let read = (&mut self.from)
            .take(whole as u64)
            .read_to_end(&mut self.data);
        read.map_err(|e| self.unreadable(&e))?;
        if self.data.len() < whole {
            return Ok(None);
        }
        let (data, sum) = self.data.split_at(length as usize);
        if crc::masked(data) != number(sum) as u32 {
            return Err(self.corrupt("the data of a record do not match their checksum"));
        }
        let event = Event::decode(data);
        let event = event.map_err(|_| self.corrupt("a record is no event"))?;
        self.offset += (HEAD + whole) as u64;
        Ok(Some(event))
    }

    /// Reads until `to` is full or the file ends.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize, SummaryError> {
        let mut filled = 0;
        while filled < to.len() {
            match self.from.read(&mut to[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.unreadable(&e)),
            }
        }
        Ok(filled)
    }

    fn unreadable(&self, error: &std::io::Error) -> SummaryError {
        SummaryError::Read {
            path: self.path.clone(),
            reason: error.to_string(),
        }
    }

    fn corrupt(&self, reason: &'static str) -> SummaryError {
        SummaryError::Corrupt {
            path: self.path.clone(),
            offset: self.offset,
            reason,
        }
    }
}

impl<R: Read> Iterator for EventReader<R> {
    type Item = Result<Event, SummaryError>;

    fn next(&mut self) -> Option<Result<Event, SummaryError>> {
        if self.state != State::Reading {
            return None;
        }
        let event = self.read().transpose();
        if !matches!(event, Some(Ok(_))) && self.state == State::Reading {
            self.state = State::Broken;
        }
        event
    }
}

/// A little-endian number.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | u64::from(byte))
}
