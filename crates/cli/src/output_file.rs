//! Checks of output files, before the work whose result they get.

use std::path::Path;

use thalweg_checkpoint::disk::{self, AtomicFile};

use crate::failure::Failure;

/// Checks that a file can be written. An existing one is left as it is.
///
/// # Errors
/// It is a folder; its folder is not there, or takes no file.
pub(crate) fn check_output_file(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.is_dir() {
        return Err(format!("{shown} is a folder: give the name of a file").into());
    }
    // It leaves nothing behind when it is dropped.
    match AtomicFile::create(&disk::system(), path) {
        Ok(_) => Ok(()),
        Err(e) => {
            let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
            let missing = folder.is_some_and(|f| !f.exists());
            let advice = if missing {
                "; make its folder first"
            } else {
                ""
            };
            Err(format!("{e}{advice}").into())
        }
    }
}
