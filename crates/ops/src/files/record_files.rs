//! Files that a graph names: opened where the session allows it, and read record by record.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_data::{Compression, RecordError, RecordReader};
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{Memory, Reservation};

use super::checkpoint_inputs::disk;
use crate::support::tensors::reserved;

/// Size of the buffer of a file, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Step in which the memory of a line is reserved, in bytes.
const LINE_STEP: usize = 64 << 10;

/// Unpacked bytes that are passed over before a step can stop.
const SKIP_STEP: u64 = 1 << 20;

/// A file that is open.
pub(crate) struct OpenFile {
    /// Its name in the graph, for errors and keys.
    pub(crate) name: String,
    path: PathBuf,
    file: File,
    pub(crate) bytes: u64,
}

impl OpenFile {
    /// Opens a file that the session allows.
    pub(crate) fn new(cx: &TensorCx<'_>, name: &[u8]) -> Result<OpenFile, KernelError> {
        let files = cx.environment().files();
        let path = files.resolve(name)?;
        let name = String::from_utf8_lossy(name).into_owned();
        let wrong = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => {
                KernelError::NotFound(format!("{name}: there is no such file"))
            }
            _ => KernelError::Storage(format!("{name}: {e}")),
        };
        let file = disk(files).open(&path).map_err(wrong)?;
        let about = file.metadata().map_err(wrong)?;
        if !about.is_file() {
            return Err(KernelError::Refused(format!(
                "{name}: it is no regular file"
            )));
        }
        Ok(OpenFile {
            path,
            file,
            bytes: about.len(),
            name,
        })
    }

    fn wrong(&self, error: &dyn std::fmt::Display) -> KernelError {
        KernelError::Storage(format!("{}: {error}", self.name))
    }

    /// Its contents.
    pub(crate) fn contents(
        mut self,
        memory: &Arc<Memory>,
    ) -> Result<(Vec<u8>, Reservation), KernelError> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let held = reserved(bytes, Some(memory))?;
        let mut all = Vec::new();
        all.try_reserve_exact(bytes)
            .map_err(|_| KernelError::Memory { bytes })?;
        // A file that grows meanwhile is read up to the size that it had.
        let read = (&mut self.file).take(self.bytes).read_to_end(&mut all);
        read.map_err(|e| self.wrong(&e))?;
        Ok((all, held))
    }

    /// Its name, and its unpacked bytes, which are buffered.
    fn unpacked(self, compression: Compression) -> Result<(String, Source), KernelError> {
        let file = BufReader::with_capacity(BUFFER_BYTES, self.file);
        let from = compression.unpacked(file, &self.path);
        let from = from.map_err(|e| KernelError::Storage(e.to_string()))?;
        Ok((self.name, Box::new(from)))
    }
}

/// The unpacked bytes of a file.
type Source = Box<dyn Read + Send>;

/// The unpacked bytes of a file, of which the next ones can be looked at.
pub(crate) struct Unpacked {
    name: String,
    from: BufReader<Source>,
}

impl Unpacked {
    pub(crate) fn new(file: OpenFile, compression: Compression) -> Result<Unpacked, KernelError> {
        let (name, from) = file.unpacked(compression)?;
        Ok(Unpacked {
            name,
            from: BufReader::with_capacity(LINE_STEP, from),
        })
    }

    /// The next byte, which stays; `None` at the end.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>, KernelError> {
        let bytes = self.from.fill_buf();
        let bytes = bytes.map_err(|e| KernelError::Storage(format!("{}: {e}", self.name)))?;
        Ok(bytes.first().copied())
    }

    /// The next byte; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<u8>, KernelError> {
        let byte = self.peek()?;
        self.from.consume(usize::from(byte.is_some()));
        Ok(byte)
    }
}

/// The compression that a graph names: empty, GZIP or ZLIB.
pub(crate) fn compression(name: &[u8]) -> Result<Compression, KernelError> {
    match name {
        b"" => Ok(Compression::None),
        b"GZIP" => Ok(Compression::Gzip),
        b"ZLIB" => Ok(Compression::Zlib),
        other => Err(KernelError::Invalid(format!(
            "the compression '{}' is none: use '', GZIP or ZLIB",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// The form of a file's records.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    /// TFRecord.
    TfRecord(Compression),
    /// Lines of text, behind so many that are passed over.
    Lines {
        compression: Compression,
        header: u64,
    },
    /// Records of one length in bytes, between a header and a footer. A record starts `hop` bytes after the one before.
    Fixed {
        compression: Compression,
        header: u64,
        record: u64,
        footer: u64,
        hop: u64,
        /// Refuses a file with bytes that are no whole record.
        whole: bool,
    },
    /// The file as one record.
    Whole,
}

/// A record, and where it stands in its file: what a reader's key says of it.
pub(crate) struct Record {
    pub(crate) data: Vec<u8>,
    /// Its number or offset; `None` for a whole file.
    pub(crate) place: Option<u64>,
    /// Memory that is accounted for the data.
    _held: Reservation,
}

impl Record {
    /// A name of a file as a record.
    pub(crate) fn of_name(name: Vec<u8>) -> Record {
        Record {
            data: name,
            place: None,
            _held: Reservation::of(None),
        }
    }
}

/// The records of a file.
pub(crate) enum Records {
    TfRecord {
        name: String,
        reader: RecordReader<Source>,
    },
    Lines {
        file: Unpacked,
        header: u64,
        /// Number of the next line, from 1.
        number: u64,
    },
    Fixed(Fixed),
    Whole(Option<OpenFile>),
}

impl Format {
    /// Lines of a text file.
    pub(crate) const LINES: Format = Format::Lines {
        compression: Compression::None,
        header: 0,
    };

    /// Opens a file of this form. A TFRecord file is read from the record at a position in its unpacked bytes on.
    pub(crate) fn open(
        &self,
        cx: &TensorCx<'_>,
        name: &[u8],
        start: u64,
    ) -> Result<Records, KernelError> {
        let file = OpenFile::new(cx, name)?;
        Ok(match *self {
            Format::TfRecord(compression) => tf_records(cx, file, compression, start)?,
            Format::Lines {
                compression,
                header,
            } => Records::Lines {
                file: Unpacked::new(file, compression)?,
                header,
                number: 1,
            },
            Format::Fixed {
                compression,
                header,
                record,
                footer,
                hop,
                whole,
            } => Records::Fixed(Fixed::new(
                file,
                compression,
                [header, record, footer, hop],
                whole,
            )?),
            Format::Whole => Records::Whole(Some(file)),
        })
    }
}

/// The records of a TFRecord file from a position on; none if the file ends before it.
fn tf_records(
    cx: &TensorCx<'_>,
    mut file: OpenFile,
    compression: Compression,
    start: u64,
) -> Result<Records, KernelError> {
    let bytes = file.bytes;
    if compression == Compression::None {
        let start = start.min(bytes);
        let moved = file.file.seek(SeekFrom::Start(start));
        moved.map_err(|e| file.wrong(&e))?;
        let (name, from) = file.unpacked(compression)?;
        let reader = RecordReader::with_size(from, bytes, start);
        return Ok(Records::TfRecord { name, reader });
    }
    let (name, mut from) = file.unpacked(compression)?;
    let mut left = start;
    while left > 0 {
        if cx.environment().is_stopped() {
            return Err(KernelError::Stopped);
        }
        let passed = std::io::copy(
            &mut (&mut from).take(left.min(SKIP_STEP)),
            &mut std::io::sink(),
        )
        .map_err(|e| KernelError::Storage(format!("{name}: {e}")))?;
        left = if passed == 0 { 0 } else { left - passed };
    }
    let reader = RecordReader::starting_at(from, start);
    Ok(Records::TfRecord { name, reader })
}

impl Records {
    /// The next record; `None` at the end.
    pub(crate) fn next(&mut self, memory: &Arc<Memory>) -> Result<Option<Record>, KernelError> {
        match self {
            Records::TfRecord { name, reader } => {
                let (place, mut data) = (reader.offset(), Vec::new());
                let mut held = Reservation::of(Some(memory));
                let more = reader.read_counted(&mut data, &mut held);
                let more = more.map_err(|e| match e {
                    RecordError::Memory { bytes } => KernelError::Memory { bytes },
                    e => KernelError::Storage(format!(
                        "{name}: the record at byte {}: {e}",
                        reader.offset()
                    )),
                })?;
                Ok(more.then_some(Record {
                    data,
                    place: Some(place),
                    _held: held,
                }))
            }
            Records::Lines {
                file,
                header,
                number,
            } => loop {
                let Some((data, held)) = line(file, *number, memory)? else {
                    return Ok(None);
                };
                let place = Some(*number);
                *number += 1;
                match header {
                    0 => {
                        return Ok(Some(Record {
                            data,
                            place,
                            _held: held,
                        }));
                    }
                    _ => *header -= 1,
                }
            },
            Records::Fixed(fixed) => fixed.next(memory),
            Records::Whole(file) => match file.take() {
                Some(file) => {
                    let (data, held) = file.contents(memory)?;
                    Ok(Some(Record {
                        data,
                        place: None,
                        _held: held,
                    }))
                }
                None => Ok(None),
            },
        }
    }
}

/// The next line, without the carriage returns in it; `None` at the end.
fn line(
    file: &mut Unpacked,
    number: u64,
    memory: &Arc<Memory>,
) -> Result<Option<(Vec<u8>, Reservation)>, KernelError> {
    let (mut all, mut held, mut ended, mut found) =
        (Vec::new(), Reservation::of(Some(memory)), false, false);
    while !ended {
        let wrong =
            |e: std::io::Error| KernelError::Storage(format!("{}: line {number}: {e}", file.name));
        let bytes = file.from.fill_buf().map_err(wrong)?;
        if bytes.is_empty() {
            break;
        }
        let bytes = &bytes[..bytes.len().min(LINE_STEP)];
        let end = bytes.iter().position(|&b| b == b'\n');
        (found, ended) = (true, end.is_some());
        let (taken, used) = match end {
            Some(end) => (&bytes[..end], end + 1),
            None => (bytes, bytes.len()),
        };
        if !held.grow(taken.len()) {
            return Err(KernelError::Memory {
                bytes: all.len() + taken.len(),
            });
        }
        all.extend(taken.iter().filter(|&&b| b != b'\r'));
        file.from.consume(used);
    }
    Ok((ended || (found && !all.is_empty())).then_some((all, held)))
}

/// Records of one length.
pub(crate) struct Fixed {
    file: Unpacked,
    record: u64,
    hop: u64,
    footer: u64,
    /// Bytes before the footer that were not read, if the size of the unpacked file is known.
    left: Option<u64>,
    /// Bytes that were read and belong to the next record, or to the footer.
    ahead: Vec<u8>,
    number: u64,
    whole: bool,
}

impl Fixed {
    fn new(
        mut file: OpenFile,
        compression: Compression,
        [header, record, footer, hop]: [u64; 4],
        whole: bool,
    ) -> Result<Fixed, KernelError> {
        let plain = compression == Compression::None;
        let body = file.bytes.saturating_sub(header.saturating_add(footer));
        if plain && whole && (file.bytes < header.saturating_add(footer) || body % record != 0) {
            return Err(KernelError::Invalid(format!(
                "{}: behind a header of {header} bytes, and before a footer of {footer}, there are {body} bytes, which \
                 are no whole number of records of {record}",
                file.name
            )));
        }
        if plain {
            let start = SeekFrom::Start(header.min(file.bytes));
            file.file.seek(start).map_err(|e| file.wrong(&e))?;
        }
        let mut file = Unpacked::new(file, compression)?;
        if !plain {
            let wrong = |e: std::io::Error| KernelError::Storage(format!("{}: {e}", file.name));
            std::io::copy(&mut (&mut file.from).take(header), &mut std::io::sink())
                .map_err(wrong)?;
        }
        Ok(Fixed {
            file,
            record,
            hop,
            footer,
            left: plain.then_some(body),
            ahead: Vec::new(),
            number: 0,
            whole,
        })
    }

    fn read(&mut self, bytes: u64, to: &mut Vec<u8>) -> Result<bool, KernelError> {
        let name = &self.file.name;
        let read = (&mut self.file.from).take(bytes).read_to_end(to);
        let read =
            read.map_err(|e| KernelError::Storage(format!("{name}: record {}: {e}", self.number)))?;
        Ok(read as u64 == bytes)
    }

    fn next(&mut self, memory: &Arc<Memory>) -> Result<Option<Record>, KernelError> {
        let bytes = usize::try_from(self.record).unwrap_or(usize::MAX);
        if self.left.is_some_and(|left| left < self.record) {
            return Ok(None);
        }
        // The footer of a compressed file shows only at its end.
        let wanted = match self.left {
            Some(_) => self.record,
            None => self.record.saturating_add(self.footer),
        };
        let most = usize::try_from(wanted).unwrap_or(usize::MAX);
        let held = reserved(most, Some(memory))?;
        let mut data = std::mem::take(&mut self.ahead);
        if !self.read(wanted.saturating_sub(data.len() as u64), &mut data)? {
            return match self.whole && data.len() as u64 > self.footer {
                true => Err(KernelError::Storage(format!(
                    "{}: record {} is cut off",
                    self.file.name, self.number
                ))),
                false => Ok(None),
            };
        }
        // Records overlap if they are longer than the hop.
        let hop = usize::try_from(self.hop).unwrap_or(usize::MAX);
        self.ahead = data.get(hop..).unwrap_or(&[]).to_vec();
        let gap = self.hop.saturating_sub(data.len() as u64);
        let name = &self.file.name;
        std::io::copy(&mut (&mut self.file.from).take(gap), &mut std::io::sink())
            .map_err(|e| KernelError::Storage(format!("{name}: {e}")))?;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(self.hop);
        }
        data.truncate(bytes);
        let place = Some(self.number);
        self.number += 1;
        Ok(Some(Record {
            data,
            place,
            _held: held,
        }))
    }
}
