//! `thalweg data check`: verifies the checksums of records.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use thalweg_data::{DataError, RecordError};
use thalweg_image::Decoder;
use thalweg_tensor::text::counted;

use super::record_files::{Reader, expanded};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::table::table;

/// Verify the checksums of all records, and list damaged records; the exit status is 1 if there are any
///
/// After a record whose data are damaged, the next record is checked. After a damaged length and at a cut end, the rest
/// of the file cannot be checked: nothing marks where the next record starts. LMDB has no checksums: its pages and keys
/// are checked, and with --decode its pictures.
#[derive(Args)]
pub(crate) struct Check {
    /// TFRecord files, compressed or not, folders of LMDB, or patterns such as 'data/train-*'
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Decode the pictures too: those under image/encoded, or in a Datum
    #[arg(long)]
    decode: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Damaged record.
struct Damage {
    file: PathBuf,
    record: u64,
    /// Position of the record in the file, in the unpacked bytes of a compressed one; `None` where it is not known.
    offset: Option<u64>,
    reason: String,
}

impl Check {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let files = expanded(&self.files)?;
        let progress = Progress::new("file", files.len() as u64, self.json);
        let (mut records, mut found) = (0, Vec::new());
        for (done, file) in (1..).zip(&files) {
            records += self.check(file, &mut found)?;
            progress.at(done);
        }
        drop(progress);
        let text = match self.json {
            true => format!("{:#}\n", json(files.len(), records, &found)),
            false => text(files.len(), records, &found),
        };
        output::text(&text)?;
        Ok(match found.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// Checks a file, and returns its number of intact records.
    fn check(&self, file: &Path, found: &mut Vec<Damage>) -> Result<u64, Failure> {
        let mut reader = Reader::open(file)?;
        let (mut record, mut intact) = (0, 0);
        let (mut decoder, mut pixels) = (Decoder::default(), Vec::new());
        let mut data = Vec::new();
        loop {
            let damage = match reader.read_into(&mut data) {
                Ok(false) => return Ok(intact),
                Ok(true) if self.decode => decode(&reader, &data, &mut decoder, &mut pixels).err(),
                Ok(true) => None,
                Err(DataError::Record {
                    source: e @ RecordError::Io(_),
                    ..
                }) if !is_content(&e) => {
                    return Err(format!("{}: {e}", file.display()).into());
                }
                Err(DataError::Record { offset, source, .. }) => {
                    found.push(Damage {
                        file: file.to_owned(),
                        record,
                        offset: Some(offset),
                        reason: source.to_string(),
                    });
                    record += 1;
                    continue;
                }
                Err(DataError::Format { offset, reason, .. }) => {
                    found.push(Damage {
                        file: file.to_owned(),
                        record,
                        offset: Some(offset),
                        reason,
                    });
                    return Ok(intact);
                }
                Err(e) => return Err(e.into()),
            };
            match damage {
                Some(reason) => found.push(Damage {
                    file: file.to_owned(),
                    record,
                    offset: None,
                    reason,
                }),
                None => intact += 1,
            }
            record += 1;
        }
    }
}

/// `true` if the bytes of a compressed file are wrong, `false` if the system cannot read them.
fn is_content(error: &RecordError) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error {
        RecordError::Io(e) => matches!(e.kind(), InvalidData | InvalidInput | UnexpectedEof),
        _ => true,
    }
}

/// Decodes the picture of a record. The error is its reason.
fn decode(
    reader: &Reader,
    record: &[u8],
    decoder: &mut Decoder,
    pixels: &mut Vec<u8>,
) -> Result<(), String> {
    match reader.picture(record).map_err(|e| e.to_string())? {
        Some(file) => {
            let decoded = decoder.decode(file, 0, pixels);
            decoded.map(drop).map_err(|e| e.to_string())
        }
        None => Ok(()),
    }
}

fn text(files: usize, records: u64, found: &[Damage]) -> String {
    let (files, intact) = (counted(files, "file"), counted(records, "record"));
    let mut text = format!("{files}, {intact} intact, {} damaged\n", found.len());
    if !found.is_empty() {
        let rows = found.iter().map(|damage| {
            let offset = damage.offset.map(|o| o.to_string()).unwrap_or_default();
            let file = damage.file.display().to_string();
            vec![
                file,
                damage.record.to_string(),
                offset,
                damage.reason.clone(),
            ]
        });
        let head = ["file", "record", "at byte", "reason"];
        text += &format!("\n{}", table(&head, rows.collect(), &[1, 2]));
    }
    text
}

fn json(files: usize, records: u64, found: &[Damage]) -> serde_json::Value {
    let damaged = found.iter().map(|damage| {
        json!({
            "file": damage.file.display().to_string(),
            "record": damage.record,
            "offset": damage.offset,
            "reason": damage.reason,
        })
    });
    json!({"files": files, "intact": records, "damaged": damaged.collect::<Vec<_>>()})
}
