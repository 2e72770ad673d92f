//! Files that appear when they are whole: written beside their place, and put there at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A file that is being written.
pub(crate) struct Pending {
    to: PathBuf,
    at: PathBuf,
    done: bool,
}

impl Pending {
    /// Begins to write what is to be at `to`.
    pub(crate) fn create(to: &Path) -> io::Result<(Pending, BufWriter<File>)> {
        let name = to
            .file_name()
            .ok_or_else(|| io::Error::other("it has no file's name"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let at = to.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&at)?;
        let pending = Pending {
            to: to.to_owned(),
            at,
            done: false,
        };
        Ok((pending, BufWriter::new(file)))
    }

    /// Puts the file in its place; all of it has been written.
    pub(crate) fn finish(mut self, file: BufWriter<File>) -> io::Result<()> {
        let file = file.into_inner().map_err(|e| e.into_error())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&self.at, &self.to)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            // What it was written for has failed already.
            let _ = fs::remove_file(&self.at);
        }
    }
}

/// Writes a text file.
pub(crate) fn write_text(to: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    let (pending, mut file) = Pending::create(to)?;
    file.write_all(text.as_bytes())?;
    pending.finish(file)
}
