//! Guard of a service: the task that a launcher or an agent starts and kills.
//!
//! The processes of a service may be in sessions of their own, as the kernels of a notebook server are, so that a signal to the
//! group of the task does not reach them. The guard starts a reaper in another group, which adopts all of them. A pipe tells
//! the reaper that the guard has ended, however it has.

use crate::error::Result;

/// Runs a service, and ends all of its processes when this one ends or gets SIGTERM. Without Linux, this process becomes the
/// service. Returns the exit code of the service.
///
/// # Errors
/// The program cannot be started.
#[cfg(target_os = "linux")]
pub fn run_guard(command: &[String]) -> Result<u8> {
    use std::process::{Command, Stdio};

    use crate::job::POLL_INTERVAL;
    use crate::process::{exit_code, set_own_group};
    use crate::signals::Signals;

    let mut signals = Signals::catch()?;
    let mut reaper = Command::new(std::env::current_exe()?);
    reaper
        .args(["launch", "reaper", "--"])
        .args(command)
        .stdin(Stdio::piped());
    set_own_group(&mut reaper);
    let mut reaper = reaper.spawn()?;
    loop {
        if let Some(status) = reaper.try_wait()? {
            return Ok(u8::try_from(exit_code(status)).unwrap_or(1));
        }
        if !signals.pending().is_empty() {
            drop(reaper.stdin.take());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Becomes the service.
///
/// # Errors
/// The program cannot be started.
#[cfg(not(target_os = "linux"))]
pub fn run_guard(command: &[String]) -> Result<u8> {
    let mut command = crate::access::command_of_words(command);
    Ok(crate::process::become_program(&mut command)?)
}
