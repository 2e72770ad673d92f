//! Hidden folder in which files are written, until all of them get their names.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use super::plan::Plan;
use crate::failure::Failure;

/// Name of the file in a folder of LMDB.
const DATA_FILE: &str = "data.mdb";

/// Folder of files that are not complete. It is removed when it is dropped.
pub(super) struct Staging {
    folder: PathBuf,
}

impl Staging {
    /// Makes the folder `.NAME.PID.part` in the folder of the results, which is made too.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(results: &Path, name: &str) -> Result<Staging, Failure> {
        let folder = results.join(format!(".{name}.{}.part", std::process::id()));
        // A process of the same number, as the first one of a container has, may have left it.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|e| wrong(&folder, &e))?;
        }
        std::fs::create_dir_all(&folder).map_err(|e| wrong(&folder, &e))?;
        Ok(Staging { folder })
    }

    /// The path of a file until it is complete.
    pub(super) fn path(&self, file: &Path) -> PathBuf {
        self.folder.join(file.file_name().unwrap_or_default())
    }

    /// Waits until a file is on the disk, and returns its length.
    ///
    /// # Errors
    /// The system cannot write it.
    pub(super) fn sync(&self, file: &Path) -> Result<u64, Failure> {
        let path = self.path(file);
        let synced = || {
            let path = match path.is_dir() {
                true => path.join(DATA_FILE),
                false => path,
            };
            let file = OpenOptions::new().append(true).open(path)?;
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        synced().map_err(|e| wrong(file, &e))
    }

    /// Gives all files their names. After an error, none has its name.
    ///
    /// # Errors
    /// The system cannot rename a file.
    pub(super) fn publish(&self, plan: &Plan) -> Result<(), Failure> {
        let files: Vec<&PathBuf> = plan.sets.iter().flat_map(|set| &set.files).collect();
        for (done, file) in files.iter().enumerate() {
            if let Err(e) = std::fs::rename(self.path(file), file) {
                for file in &files[..done] {
                    // The conversion has failed already.
                    let _ = match file.is_dir() {
                        true => std::fs::remove_dir_all(file),
                        false => std::fs::remove_file(file),
                    };
                }
                return Err(wrong(file, &e));
            }
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing reads it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn wrong(path: &Path, error: &io::Error) -> Failure {
    format!("{}: {error}", path.display()).into()
}
