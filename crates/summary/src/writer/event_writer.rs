//! `SummaryWriter`: an event file, its queue and the thread that writes it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;
use thalweg_checkpoint::disk::SizeLimitedFile;
use thalweg_data::{MAX_RECORD_BYTES, append_record};
use thalweg_tensor::sync::Unpoisoned;

use super::options::{self, SummaryWriterOptions};
use super::queue::{EventQueue, QueueError};
use crate::error::SummaryError;
use crate::messages::Event;

/// The content of the first record of an event file.
const VERSION: &str = "brain.Event:2";

// The fields of an `Event` (`core/util/event.proto`).
const FILE_VERSION: u8 = 3;

/// Writes an event file for TensorBoard.
///
/// A clone writes to the same file; clones may be used by several threads. A call appends to a
/// buffer and returns: the writer's own thread writes to the file when 64 KiB are pending, every
/// 120 seconds, and at [`flush`](SummaryWriter::flush) and [`close`](SummaryWriter::close). A call
/// waits for the disk only while [`queue_bytes`](SummaryWriterOptions::queue_bytes) are pending
/// already.
///
/// If a write fails, every later call returns [`SummaryError::Write`]. Dropping the last clone
/// closes the file and loses its error: call `close` to get it.
///
/// A step is the global step; TensorBoard draws values against it. The time of an event is the time
/// of the call.
///
/// ```
/// use thalweg_summary::{EventReader, SummaryWriter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let logs = std::env::temp_dir().join(format!("thalweg-writer-{}", std::process::id()));
/// let writer = SummaryWriter::create(&logs)?;
/// for step in 0..10 {
///     writer.scalar("loss", 1.0 / (1.0 + step as f64), step)?;
/// }
/// writer.close()?;
/// // The file's version, and ten numbers.
/// assert_eq!(EventReader::open(writer.path())?.count(), 11);
/// # std::fs::remove_dir_all(&logs)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SummaryWriter {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    queue: Arc<EventQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

impl Inner {
    /// Stops taking events, and waits until all pending ones are in the file.
    fn end(&self) {
        self.queue.close();
        let mut thread = self.thread.lock().unpoisoned();
        if let Some(thread) = thread.take() {
            // A panic of the thread does not concern the caller; it could only happen in a `Write`
            // of std.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SummaryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SummaryWriter").field(&self.path()).finish()
    }
}

impl SummaryWriter {
    /// Begins an event file in the folder `dir`, which is created if it does not exist. The file's
    /// name is TensorFlow's: `events.out.tfevents.`, the seconds since 1970 with ten digits, and
    /// the host's name.
    ///
    /// # Errors
    /// [`SummaryError::Create`]; [`SummaryError::Write`] if the file is created and cannot be
    /// written: the disk is full.
    pub fn create(dir: impl AsRef<Path>) -> Result<SummaryWriter, SummaryError> {
        SummaryWriter::with_options(dir, &SummaryWriterOptions::new())
    }

    /// As [`create`](SummaryWriter::create), with options.
    ///
    /// # Errors
    /// Those of [`create`](SummaryWriter::create).
    ///
    /// ```
    /// use thalweg_summary::{SummaryWriter, SummaryWriterOptions};
    ///
    /// # fn main() -> Result<(), thalweg_summary::SummaryError> {
    /// # let logs = std::env::temp_dir().join(format!("thalweg-options-{}", std::process::id()));
    /// let options = SummaryWriterOptions::new().file_suffix(".eval");
    /// let writer = SummaryWriter::with_options(&logs, &options)?;
    /// assert!(writer.path().to_string_lossy().ends_with(".eval"));
    /// # std::fs::remove_dir_all(&logs).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_options(
        dir: impl AsRef<Path>,
        options: &SummaryWriterOptions,
    ) -> Result<SummaryWriter, SummaryError> {
        let dir = dir.as_ref();
        fs::create_dir_all(dir).map_err(|e| cannot_begin(dir, &e))?;
        let name = format!(
            "events.out.tfevents.{:010}.{}{}",
            now() as u64,
            options::host(),
            options.suffix
        );
        let (path, file) = new_file(dir, &name).map_err(|e| cannot_begin(&dir.join(&name), &e))?;
        SummaryWriter::of(&path, file, options)
    }

    /// A writer of an open file.
    pub(super) fn of(
        path: &Path,
        file: impl Write + Send + 'static,
        options: &SummaryWriterOptions,
    ) -> Result<SummaryWriter, SummaryError> {
        let queue = Arc::new(EventQueue::new(options.queue_bytes));
        let (own, every) = (queue.clone(), options.flush_every);
        let thread = thread::Builder::new()
            .name("summary writer".to_owned())
            .spawn(move || own.write_to(file, every))
            .map_err(|e| cannot_begin(path, &e))?;
        let writer = SummaryWriter {
            inner: Arc::new(Inner {
                path: path.to_owned(),
                queue,
                thread: Mutex::new(Some(thread)),
            }),
        };
        // A reader that opens the file early already finds a valid event file.
        writer.field(now(), 0, FILE_VERSION, VERSION.as_bytes())?;
        writer.flush()?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Writes an event as it is, with its own time.
    ///
    /// # Errors
    /// [`SummaryError::Write`], [`SummaryError::Closed`], [`SummaryError::TooLarge`].
    pub fn event(&self, event: &Event) -> Result<(), SummaryError> {
        self.push(event.encoded_len(), |to| {
            // A vector has room for any encoding.
            let _ = event.encode(to);
        })
    }

    /// Waits until every event so far has been passed to the system: other programs can then read
    /// it, and it survives if this program is killed.
    ///
    /// # Errors
    /// [`SummaryError::Write`], [`SummaryError::Closed`].
    pub fn flush(&self) -> Result<(), SummaryError> {
        self.inner.queue.flush().map_err(|s| self.stopped(s))
    }

    /// Writes the pending events, and closes the file, for all clones. Closing again does nothing.
    ///
    /// # Errors
    /// [`SummaryError::Write`].
    pub fn close(&self) -> Result<(), SummaryError> {
        self.inner.end();
        let failure = self.inner.queue.failure();
        failure.map_or(Ok(()), |s| Err(self.stopped(s)))
    }

    fn stopped(&self, stopped: QueueError) -> SummaryError {
        let path = self.path().to_owned();
        match stopped {
            QueueError::Closed => SummaryError::Closed { path },
            QueueError::Failed(reason) => SummaryError::Write { path, reason },
        }
    }

    /// Adds an event with one field, `bytes`, beside its time and step.
    pub(super) fn field(
        &self,
        time: f64,
        step: i64,
        field: u8,
        bytes: &[u8],
    ) -> Result<(), SummaryError> {
        self.push(bytes.len(), |to| {
            to.push(1 << 3 | 1);
            to.extend_from_slice(&time.to_le_bytes());
            if step != 0 {
                to.push(2 << 3);
                varint(to, step as u64);
            }
            to.push(field << 3 | 2);
            varint(to, bytes.len() as u64);
            to.extend_from_slice(bytes);
        })
    }

    fn push(&self, bytes: usize, add: impl FnOnce(&mut Vec<u8>)) -> Result<(), SummaryError> {
        if bytes > MAX_RECORD_BYTES {
            let path = self.path().to_owned();
            return Err(SummaryError::TooLarge { path, bytes });
        }
        let pushed = self.inner.queue.push(|to| append_record(to, add));
        pushed.map_err(|s| self.stopped(s))
    }
}

/// The error that no event file can be begun there.
fn cannot_begin(path: &Path, error: &io::Error) -> SummaryError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};

    let (path, reason) = (path.to_owned(), error.to_string());
    match error.kind() {
        StorageFull | QuotaExceeded => SummaryError::Write { path, reason },
        _ => SummaryError::Create { path, reason },
    }
}

/// Creates a file that did not exist: two writers of the same second do not overwrite each other.
fn new_file(dir: &Path, name: &str) -> io::Result<(PathBuf, SizeLimitedFile)> {
    let mut tried = 0;
    loop {
        let path = match tried {
            0 => dir.join(name),
            n => dir.join(format!("{name}.{n}")),
        };
        match File::create_new(&path) {
            Ok(file) => return Ok((path, SizeLimitedFile::new(file))),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < 10_000 => tried += 1,
            Err(e) => return Err(e),
        }
    }
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |since| since.as_secs_f64())
}

/// Appends an integer as a protobuf varint.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
