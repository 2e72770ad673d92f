//! Files of the output of tasks.

use std::fs::File;
use std::path::Path;

use crate::error::{LaunchError, Result};

/// Creates a file for the output of each task: `worker-0.log` for `worker 0`.
///
/// # Errors
/// The folder or a file cannot be created.
pub(crate) fn output_files(folder: &Path, names: &[String]) -> Result<Vec<File>> {
    let failed = |path: &Path, e| {
        LaunchError::of_attempt(e, |e| {
            LaunchError::Argument(format!("--output-dir: {}: {e}", path.display()))
        })
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let create = |name: &String| {
        let path = folder.join(format!("{}.log", name.replace(' ', "-")));
        File::create(&path).map_err(|e| failed(&path, e))
    };
    names.iter().map(create).collect()
}
