//! Kinds of MPI, and the one that `mpirun` belongs to.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{LaunchError, Result};

/// Time in which `mpirun --version` answers.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of the answer that is read, in bytes.
const MAX_VERSION: u64 = 64 << 10;

/// Kind of an MPI, by the options of its launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiKind {
    /// Open MPI.
    OpenMpi,
    /// MPICH, Intel MPI and others with the launcher Hydra.
    Hydra,
    /// Slurm's `srun --mpi=pmi2`.
    Srun,
}

/// Name, as of the flag `--mpi`.
impl std::fmt::Display for MpiKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MpiKind::OpenMpi => "openmpi",
            MpiKind::Hydra => "mpich",
            MpiKind::Srun => "srun",
        })
    }
}

impl MpiKind {
    /// Launcher of this kind on the PATH.
    pub(super) fn program(self) -> &'static str {
        match self {
            MpiKind::Srun => "srun",
            MpiKind::OpenMpi | MpiKind::Hydra => "mpirun",
        }
    }

    /// Kind of the MPI of a launcher, by what it prints for `--version`.
    ///
    /// # Errors
    /// It cannot be started, does not answer, or is unknown.
    pub fn of_program(program: &str) -> Result<MpiKind> {
        let text = version(program)?;
        let kind = MpiKind::of_version(&text);
        kind.ok_or_else(|| {
            let line = text.lines().next().unwrap_or("");
            format!("{program} --version prints '{line}': give --mpi, the MPI that it belongs to")
                .into()
        })
    }

    /// Kind of the MPI that prints this version.
    pub(super) fn of_version(text: &str) -> Option<MpiKind> {
        let text = text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match () {
            () if has(&["open mpi", "open-mpi", "openrte"]) => Some(MpiKind::OpenMpi),
            () if has(&["hydra", "mpich", "intel(r) mpi"]) => Some(MpiKind::Hydra),
            () if has(&["slurm"]) => Some(MpiKind::Srun),
            () => None,
        }
    }
}

/// Text that a program prints for `--version`.
fn version(program: &str) -> Result<String> {
    let failed = |e| {
        LaunchError::of_attempt(e, |e| {
            let text = format!(
                "'{program}' cannot be started: {e}: install an MPI, give --mpirun, or --mpi srun in a job of Slurm"
            );
            LaunchError::Argument(text)
        })
    };
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let output = child.stdout.take();
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MAX_VERSION).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    })?;
    let began = Instant::now();
    let bytes = answer.recv_timeout(VERSION_TIMEOUT);
    while bytes.is_ok() && began.elapsed() < VERSION_TIMEOUT {
        if let Ok(Some(_)) = child.try_wait() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // It has ended, or does not answer.
    let _ = child.kill();
    let _ = child.wait();
    let slow = format!("{program} --version does not answer: give --mpi");
    let bytes = bytes.map_err(|_| slow)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
