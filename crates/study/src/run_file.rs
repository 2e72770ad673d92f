//! Records of runs in a file of JSON lines.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Result, StudyError};
use crate::outcome::Outcome;
use crate::point::Point;

/// Record of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Settings of the run.
    #[serde(flatten)]
    pub point: Point,
    /// Number of the run of this point, from 0.
    pub run: u32,
    /// Load of the machine before the run: processes that wanted to run in the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Result of the run.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// First line of a file: the study to which the records belong.
#[derive(Serialize, Deserialize)]
struct Head {
    study: String,
}

/// File with a record of each run. Each record is written when its run has ended, so that a study that was interrupted, or killed,
/// goes on after the last whole record.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
    records: Vec<RunRecord>,
}

impl RunFile {
    /// Opens the file of a study, whose program and options are `study`; creates it if it is not there.
    ///
    /// # Errors
    /// The file cannot be read or written; it is of another study; a line is no record.
    pub fn open(path: &Path, study: &str) -> Result<RunFile> {
        let failed = |source| StudyError::File {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        let (head, records, whole) = read(path, &file)?;
        if let Some(found) = head.filter(|found| found != study) {
            return Err(StudyError::OtherStudy {
                path: path.to_owned(),
                found,
            });
        }
        // A part of a record is left by a study that was killed.
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let mut run_file = RunFile {
            path: path.to_owned(),
            file,
            records,
        };
        if whole == 0 {
            run_file.append(&Head {
                study: study.to_owned(),
            })?;
        }
        Ok(run_file)
    }

    /// Reads the file of a study that may still run: its program and options, and its records.
    ///
    /// # Errors
    /// The file is not there or cannot be read; it has no study; a line is no record.
    pub fn read(path: &Path) -> Result<(String, Vec<RunRecord>)> {
        let file = File::open(path).map_err(|source| StudyError::File {
            path: path.to_owned(),
            source,
        })?;
        let (head, records, _) = read(path, &file)?;
        let study = head.ok_or_else(|| StudyError::Record {
            path: path.to_owned(),
            line: 1,
            reason: "the line with the study is not there".to_owned(),
        })?;
        Ok((study, records))
    }

    /// Records of all runs, in the order of their ends.
    pub fn records(&self) -> &[RunRecord] {
        &self.records
    }

    /// `true` if there is a record of this run of a point.
    pub fn has(&self, point: &Point, run: u32) -> bool {
        self.records
            .iter()
            .any(|r| r.run == run && r.point == *point)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, record: RunRecord) -> Result<()> {
        self.append(&record)?;
        self.records.push(record);
        Ok(())
    }

    fn append(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(|e| self.failed(e.into()))?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        written.map_err(|e| self.failed(e))
    }

    fn failed(&self, source: std::io::Error) -> StudyError {
        StudyError::File {
            path: self.path.clone(),
            source,
        }
    }
}

/// Study of a file, its records, and the length of its whole lines.
fn read(path: &Path, file: &File) -> Result<(Option<String>, Vec<RunRecord>, u64)> {
    let mut reader = BufReader::new(file);
    let (mut study, mut records, mut whole) = (None, Vec::new(), 0);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let length = reader.read_until(b'\n', &mut text);
        let length = length.map_err(|source| StudyError::File {
            path: path.to_owned(),
            source,
        })?;
        if text.last() != Some(&b'\n') {
            break;
        }
        let wrong = |e: serde_json::Error| StudyError::Record {
            path: path.to_owned(),
            line,
            reason: e.to_string(),
        };
        if line == 1 {
            let head: Head = serde_json::from_slice(&text).map_err(wrong)?;
            study = Some(head.study);
        } else {
            records.push(serde_json::from_slice(&text).map_err(wrong)?);
        }
        whole += length as u64;
    }
    Ok((study, records, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Speed;
    use crate::point::Data;

    fn record(tasks: u32, run: u32) -> RunRecord {
        RunRecord {
            point: Point {
                mode: "horovod".to_owned(),
                data: Data::Synthetic,
                batch: 32,
                tasks,
                servers: 0,
            },
            run,
            load: Some(0.5),
            outcome: match run {
                0 => Outcome::Error {
                    error: "no memory".to_owned(),
                },
                _ => Outcome::Speed(Speed {
                    images_per_second: 100.5,
                    exchange: Some(0.1),
                    input: None,
                    step: None,
                }),
            },
        }
    }

    #[test]
    fn a_study_that_was_killed_goes_on_after_its_last_whole_record() {
        let path = std::env::temp_dir().join(format!("thalweg-runs-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let open = || RunFile::open(&path, "bench --model=a").unwrap();
        let mut file = open();
        file.add(record(2, 0)).unwrap();
        file.add(record(2, 1)).unwrap();
        drop(file);
        // Half a record.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"mode\":\"hor")).unwrap();
        let mut file = open();
        assert_eq!(file.records(), [record(2, 0), record(2, 1)]);
        assert!(file.has(&record(2, 1).point, 1) && !file.has(&record(4, 1).point, 1));
        file.add(record(4, 1)).unwrap();
        drop(file);
        assert_eq!(open().records().len(), 3);
        let (study, records) = RunFile::read(&path).unwrap();
        assert_eq!((&*study, records.len()), ("bench --model=a", 3));
        let other = RunFile::open(&path, "bench --model=b")
            .unwrap_err()
            .to_string();
        assert!(other.contains("another study (bench --model=a)"), "{other}");
        std::fs::write(&path, format!("{text}{{}}\n")).unwrap();
        let wrong = RunFile::open(&path, "bench --model=a")
            .unwrap_err()
            .to_string();
        assert!(wrong.contains(": line 4: "), "{wrong}");
        std::fs::remove_file(&path).unwrap();
    }
}
