//! The results file: a line of JSON for each unit that has finished, for whatever commit.

use std::collections::HashSet;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The file, open for more lines.
pub struct ResultsFile {
    file: File,
    path: PathBuf,
    commit: String,
    /// The lines of this commit.
    pub lines: Vec<Value>,
}

impl ResultsFile {
    /// Opens or creates the file. An unfinished last line of a killed run is cut off.
    pub fn open(path: &Path, commit: &str) -> Result<ResultsFile, Box<dyn Error>> {
        let failed = |e| format!("{}: {e}", path.display());
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(failed)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |at| at + 1);
        file.set_len(whole as u64).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes[..whole]);
        let lines = text
            .lines()
            .filter_map(|l| serde_json::from_str::<Value>(l).ok());
        Ok(ResultsFile {
            file,
            path: path.to_owned(),
            commit: commit.to_owned(),
            lines: lines.filter(|l| l["commit"] == commit).collect(),
        })
    }

    /// The units that have a line.
    pub fn finished(&self) -> HashSet<String> {
        let unit = |line: &Value| line["unit"].as_str().map(str::to_owned);
        self.lines.iter().filter_map(unit).collect()
    }

    /// Adds a line, which is on the disk when this returns.
    pub fn add(&mut self, mut line: Value) -> Result<(), Box<dyn Error>> {
        line["commit"] = self.commit.clone().into();
        writeln!(self.file, "{line}")
            .and_then(|()| self.file.sync_data())
            .map_err(|e| format!("{}: {e}", self.path.display()))?;
        self.lines.push(line);
        Ok(())
    }
}
