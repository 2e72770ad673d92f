//! A small disk for checkpoints, to test full disks.

use std::path::Path;
use std::process::Command;

use thalweg_tests::folders::Folder;

/// A tmpfs of a few MiB, unmounted when this is dropped.
pub struct SmallDisk(Folder);

impl SmallDisk {
    /// Mounts a tmpfs of this size. Prints a message and returns `None` where nothing can be mounted.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the free space.
    pub fn fill(&self) {
        // Writing fails once the disk is full, and the written part stays.
        let most = vec![1u8; 64 << 20];
        let filled = std::fs::write(self.0.join("ballast"), most);
        assert!(filled.is_err(), "the disk is not full");
    }

    /// Frees the filled space.
    pub fn free(&self) {
        // It may have been freed before.
        let _ = std::fs::remove_file(self.0.join("ballast"));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
