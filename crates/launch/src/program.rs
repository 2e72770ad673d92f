//! Path of a program by its name.

use std::path::{Path, PathBuf};

/// Returns the path of a program: a bare name, such as `cnn_benchmarks`, is first looked for beside the running program;
/// otherwise the system looks for it.
pub fn program_path(name: &str) -> PathBuf {
    let bare = Path::new(name).components().count() == 1 && !name.starts_with('.');
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(name)));
    match beside.filter(|path| bare && path.is_file()) {
        Some(path) => path,
        None => name.into(),
    }
}
