//! A real Slurm on this machine, which `tests/slurm.sh` starts. Tests of several packages include this file.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Slurm of several nodes in a folder, which ends when it is dropped.
pub struct Slurm {
    pub folder: PathBuf,
}

impl Slurm {
    /// Starts it; `None` where it is not installed or the user is not root, which `REQUIRE_SLURM=1` makes a failure.
    pub fn start(name: &str, nodes: usize) -> Option<Slurm> {
        let folder = std::env::temp_dir().join(format!("slurm-{name}-{}", std::process::id()));
        let slurm = Slurm { folder };
        let started = slurm.script(&["start"], &[&nodes.to_string()]);
        if started.status.success() {
            return Some(slurm);
        }
        let why = String::from_utf8_lossy(&started.stderr).into_owned();
        let required = std::env::var("REQUIRE_SLURM").is_ok_and(|v| v == "1");
        assert!(!required, "Slurm does not start: {why}");
        eprintln!("SKIPPED: Slurm does not start: {why}");
        None
    }

    fn script(&self, before: &[&str], after: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slurm.sh");
        let mut command = Command::new(script);
        command.args(before).arg(&self.folder).args(after);
        command.output().unwrap()
    }

    /// A program that is to find this Slurm.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.script(&["stop"], &[]);
    }
}
