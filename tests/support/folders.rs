//! Folders for the files of a test. Tests of other packages include this file too.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that is removed when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder that no other test uses.
    pub fn new(name: &str) -> Folder {
        Folder::under(&std::env::temp_dir(), name)
    }

    /// A folder on a tmpfs, where syncs cost nothing, if the system has one.
    pub fn in_memory(name: &str) -> Folder {
        let memory = Path::new("/dev/shm");
        match memory.is_dir() {
            true => Folder::under(memory, name),
            false => Folder::new(name),
        }
    }

    fn under(place: &Path, name: &str) -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("thalweg-test-{name}-{}-{number}", std::process::id());
        let path = place.join(name);
        // An earlier process with the same id may have left it.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of a file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Path of a file in it, as text.
    pub fn at(&self, name: &str) -> String {
        self.join(name).to_str().unwrap().to_owned()
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
