//! Folders for the files of a test.

use std::path::{Path, PathBuf};

/// A folder that is removed with this.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one; `name` tells it from those of other tests.
    pub fn new(name: &str) -> Folder {
        let name = format!("thalweg-test-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The names of its files, in order.
    pub fn files(&self) -> Vec<String> {
        let all = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = all
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
