//! CSV records of a file, field by field. The rules are those of TensorFlow's `csv_dataset_op.cc`: a record with a mistake
//! is read to its end, so that the next one is whole.

use thalweg_data::Compression;
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::Reservation;

use crate::files::record_files::{OpenFile, Unpacked};

/// Step in which the memory of a field is reserved, in bytes.
const FIELD_STEP: usize = 4 << 10;

/// The marks between fields.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    pub(super) delimiter: u8,
    pub(super) quotes: bool,
}

/// An open file.
pub(super) struct CsvRecords {
    file: Unpacked,
    marks: Marks,
    field: Vec<u8>,
    /// Memory for the longest field so far.
    held: Reservation,
    reserved: usize,
}

/// The end of a field.
struct Field {
    last: bool,
    mistake: Option<&'static str>,
}

impl CsvRecords {
    pub(super) fn open(
        cx: &TensorCx<'_>,
        name: &[u8],
        compression: Compression,
        marks: Marks,
    ) -> Result<CsvRecords, KernelError> {
        Ok(CsvRecords {
            file: Unpacked::new(OpenFile::new(cx, name)?, compression)?,
            marks,
            field: Vec::new(),
            held: Reservation::of(Some(cx.memory())),
            reserved: 0,
        })
    }

    /// Reads a record: `keeps` chooses fields by their number, `take` gets each that is chosen. `false` at the end of the
    /// file.
    pub(super) fn record(
        &mut self,
        cx: &TensorCx<'_>,
        keeps: impl Fn(usize) -> bool,
        mut take: impl FnMut(&[u8]) -> Result<(), KernelError>,
    ) -> Result<bool, KernelError> {
        if self.file.peek()?.is_none() {
            return Ok(false);
        }
        let mut stop = cx.stop_check();
        let mut first = Ok(());
        for number in 0.. {
            let keep = keeps(number);
            self.field.clear();
            let quoted = self.marks.quotes && self.file.peek()? == Some(b'"');
            let field = match quoted {
                true => self.quoted(keep, &mut || stop.tick())?,
                false => self.plain(keep, &mut || stop.tick())?,
            };
            let taken = match field.mistake {
                Some(mistake) => Err(KernelError::Invalid(mistake.to_owned())),
                None if keep => take(&self.field),
                None => Ok(()),
            };
            first = first.and(taken);
            if field.last {
                break;
            }
        }
        first.map(|()| true)
    }

    fn push(&mut self, byte: u8) -> Result<(), KernelError> {
        if self.field.len() == self.reserved {
            if !self.held.grow(FIELD_STEP) {
                return Err(KernelError::Memory {
                    bytes: self.reserved + FIELD_STEP,
                });
            }
            self.reserved += FIELD_STEP;
        }
        self.field.push(byte);
        Ok(())
    }

    /// The byte behind a field: `true` if the record ends there, `None` if the field goes on.
    fn end(&mut self, byte: u8) -> Result<Option<bool>, KernelError> {
        let last = match byte {
            b'\n' => true,
            b'\r' => {
                if self.file.peek()? == Some(b'\n') {
                    self.file.next()?;
                }
                true
            }
            byte if byte == self.marks.delimiter => false,
            _ => return Ok(None),
        };
        Ok(Some(last))
    }

    fn plain(
        &mut self,
        keep: bool,
        tick: &mut dyn FnMut() -> Result<(), KernelError>,
    ) -> Result<Field, KernelError> {
        let mut mistake = None;
        while let Some(byte) = self.file.next()? {
            tick()?;
            if let Some(last) = self.end(byte)? {
                return Ok(Field { last, mistake });
            }
            if self.marks.quotes && byte == b'"' {
                mistake = Some(
                    "Unquoted fields cannot have quotes inside: put the field into quotes, and double those in it",
                );
            }
            if keep {
                self.push(byte)?;
            }
        }
        Ok(Field {
            last: true,
            mistake,
        })
    }

    fn quoted(
        &mut self,
        keep: bool,
        tick: &mut dyn FnMut() -> Result<(), KernelError>,
    ) -> Result<Field, KernelError> {
        self.file.next()?;
        let mut mistake = None;
        while let Some(byte) = self.file.next()? {
            tick()?;
            if byte == b'"' {
                let Some(next) = self.file.next()? else {
                    return Ok(Field {
                        last: true,
                        mistake,
                    });
                };
                if let Some(last) = self.end(next)? {
                    return Ok(Field { last, mistake });
                }
                if next != b'"' {
                    mistake = Some("Quote inside a string has to be escaped by another quote");
                }
            }
            if keep && mistake.is_none() {
                self.push(byte)?;
            }
        }
        mistake = mistake.or(Some(
            "Reached end of file without closing quoted field in record",
        ));
        Ok(Field {
            last: true,
            mistake,
        })
    }
}
