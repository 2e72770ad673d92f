//! A disk for checkpoints that is easily full.

use std::path::Path;
use std::process::Command;

use thalweg_tests::folders::Folder;

/// A tmpfs of a few MiB, which is gone with this.
pub struct SmallDisk(Folder);

impl SmallDisk {
    /// One of so many MiB; none where nothing can be mounted.
    pub fn new(name: &str, mebibytes: usize) -> Option<SmallDisk> {
        let folder = Folder::new(name);
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={mebibytes}m"),
                "thalweg-test",
            ])
            .arg(folder.path())
            .status();
        mounted
            .is_ok_and(|s| s.success())
            .then(|| SmallDisk(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes what is left of it.
    pub fn fill(&self) {
        let mut size = 8 << 20;
        let file = self.0.join("ballast");
        // Writing fails where no room is left, which is what it is for.
        while size > 0 && std::fs::write(&file, vec![1u8; size]).is_err() {
            size /= 2;
        }
    }

    /// Gives it back.
    pub fn free(&self) {
        // An error is one that was given back before.
        let _ = std::fs::remove_file(self.0.join("ballast"));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
