//! Processes as a launch needs them: each is a process group, and ends with the launcher.

use std::io;
use std::process::{Child, Command, ExitStatus};

#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Makes a command start as its own process group, so that a Ctrl-C of the terminal reaches the launcher alone, which
/// passes it on. On Linux the process is killed when the thread that has started it ends.
#[cfg(unix)]
pub fn prepare(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(target_os = "linux")]
    ends_with_this_thread(command);
}

#[cfg(target_os = "linux")]
fn ends_with_this_thread(command: &mut Command) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};
    let launcher = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that has died before was not noticed.
        match getppid() == Some(launcher) {
            true => Ok(()),
            false => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec a process of several threads may only do what a signal handler may. This does two
    // system calls; it allocates nothing and takes no lock.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, ask) };
}

/// Whether it has ended, and how. What it has started and left is killed.
///
/// # Errors
/// The system does not tell.
#[cfg(unix)]
pub fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    // While it is not reaped, no other process gets its number.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::Pid(Pid::from_child(child)), look)?.is_none() {
        return Ok(None);
    }
    kill(child);
    child.wait().map(Some)
}

/// Asks a process, and what it has started, to end. It must not have been reaped.
#[cfg(unix)]
pub fn terminate(child: &Child) {
    // An error is one that has ended by itself.
    let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
}

/// Ends a process, and what it has started. It must not have been reaped.
#[cfg(unix)]
pub fn kill(child: &mut Child) {
    // As above.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Nothing: the system has no groups of processes.
#[cfg(not(unix))]
pub fn prepare(_: &mut Command) {}

/// Whether it has ended, and how.
///
/// # Errors
/// The system does not tell.
#[cfg(not(unix))]
pub fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    child.try_wait()
}

/// Nothing: the system has no such signal. It is killed later.
#[cfg(not(unix))]
pub fn terminate(_: &Child) {}

/// Ends a process.
#[cfg(not(unix))]
pub fn kill(child: &mut Child) {
    // An error is one that has ended by itself.
    let _ = child.kill();
}

/// An exit status as shells have it: 128 and the signal's number for one that was ended by a signal.
pub fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None::<i32>;
    let code = status.code().or(signal.map(|s| 128 + s));
    code.unwrap_or(1)
}
