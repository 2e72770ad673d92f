//! Reader of event files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;

use thalweg_data::{RecordError, RecordReader};

use crate::error::SummaryError;
use crate::messages::Event;

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
    records: RecordReader<R>,
    path: PathBuf,
    state: ReaderState,
}

#[derive(Clone, Copy, PartialEq)]
enum ReaderState {
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
            records: RecordReader::new(from),
            path: path.into(),
            state: ReaderState::Reading,
        }
    }

    /// `true` if the file ended after a complete record. It is `false` before the iteration has
    /// ended.
    pub fn complete(&self) -> bool {
        self.state == ReaderState::Ended
    }

    /// Reads the next event; `None` where the file ends.
    fn read(&mut self) -> Result<Option<Event>, SummaryError> {
        let offset = self.records.offset();
        let reason = match self.records.read() {
            Ok(None) => {
                self.state = ReaderState::Ended;
                return Ok(None);
            }
            Ok(Some(data)) => match Event::decode(data) {
                Ok(event) => return Ok(Some(event)),
                Err(_) => "a record is no event",
            },
            Err(RecordError::Truncated) => return Ok(None),
            Err(RecordError::LengthChecksum) => {
                "the length of a record does not match its checksum"
            }
            Err(RecordError::TooLong) => "a record is longer than an event may be, 2 GiB",
            Err(RecordError::DataChecksum) => "the data of a record do not match their checksum",
            Err(error) => {
                return Err(SummaryError::Read {
                    path: self.path.clone(),
                    reason: error.to_string(),
                });
            }
        };
        Err(SummaryError::Corrupt {
            path: self.path.clone(),
            offset,
            reason,
        })
    }
}

impl<R: Read> Iterator for EventReader<R> {
    type Item = Result<Event, SummaryError>;

    fn next(&mut self) -> Option<Result<Event, SummaryError>> {
        if self.state != ReaderState::Reading {
            return None;
        }
        let event = self.read().transpose();
        if !matches!(event, Some(Ok(_))) && self.state == ReaderState::Reading {
            self.state = ReaderState::Broken;
        }
        event
    }
}
