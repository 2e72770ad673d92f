//! A disk for checkpoints that is easily full.

use std::path::Path;
use std::process::Command;

use thalweg_tests::folders::Folder;

/// A tmpfs of a few MiB, which is gone with this.
pub struct SmallDisk(Folder);

impl SmallDisk {
    /// One of so many MiB; none, and a word about it, where nothing can be mounted.
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
        if !mounted.is_ok_and(|s| s.success()) {
            println!("SKIPPED: no tmpfs can be mounted here, which takes root");
            assert!(std::env::var_os("REQUIRE_TMPFS").is_none());
            return None;
        }
        Some(SmallDisk(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes what is left of it.
    pub fn fill(&self) {
        // Writing fails where no room is left, and what was written stays.
        let most = vec![1u8; 64 << 20];
        let filled = std::fs::write(self.0.join("ballast"), most);
        assert!(filled.is_err(), "the disk is not full");
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
