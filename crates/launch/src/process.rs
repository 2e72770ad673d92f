//! Child processes in process groups of their own, which end with the launcher.

use std::io;
use std::process::{Child, Command, ExitStatus};

#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::protocol::StartTask;

/// Makes a command start as its own process group, so that a Ctrl-C of the terminal reaches the launcher alone, which
/// passes it on. On Linux the process is killed when the thread that has started it ends.
///
/// The process ignores SIGXFSZ: a write beyond the limit on file sizes (`ulimit -f`) is an error that its program reports, and
/// does not end it.
#[cfg(unix)]
pub(crate) fn isolate(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
    ignore_file_size_signal(command);
    #[cfg(target_os = "linux")]
    end_with_this_thread(command, Signal::KILL);
}

/// Makes a command start as its own process group, so that a Ctrl-C of the terminal does not reach it. It ends when it sees the
/// end of its input.
pub(crate) fn set_own_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// [`set_own_group`], for a program that may not read its input yet: on Linux it gets SIGTERM when the thread that has started it
/// ends.
pub(crate) fn separate(command: &mut Command) {
    set_own_group(command);
    #[cfg(target_os = "linux")]
    end_with_this_thread(command, Signal::TERM);
}

/// Makes this process die with its parent (Linux).
///
/// # Errors
/// The parent has ended.
#[cfg(unix)]
pub(crate) fn die_with_parent() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getppid, set_parent_process_death_signal};
        let parent = getppid();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The signal is not sent for a parent that has died before this call.
        if getppid() != parent {
            return Err(rustix::io::Errno::SRCH.into());
        }
    }
    Ok(())
}

/// Replaces this process by a command. Returns only an error.
///
/// # Errors
/// The program cannot be started.
#[cfg(unix)]
pub(crate) fn become_program(command: &mut Command) -> io::Result<u8> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

/// Does nothing: the system has no such signal.
#[cfg(not(unix))]
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Runs a command in place of this process, which has no more to do. Returns its exit code.
///
/// # Errors
/// The program cannot be started.
#[cfg(not(unix))]
pub(crate) fn become_program(command: &mut Command) -> io::Result<u8> {
    let status = command.status()?;
    Ok(u8::try_from(exit_code(status)).unwrap_or(1))
}

/// Command of a task on this host.
pub(crate) fn command_of(start: &StartTask) -> Command {
    let mut command = Command::new(&start.program);
    let env = start.env.iter().map(|(name, value)| (name, value));
    command.args(&start.args).envs(env);
    if !start.folder.is_empty() {
        command.current_dir(&start.folder);
    }
    #[cfg(target_os = "linux")]
    bind_to_cores(&mut command, &start.cores);
    command
}

/// Makes a command run on these cores only; on all if there are none.
#[cfg(target_os = "linux")]
fn bind_to_cores(command: &mut Command, cores: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    let known = cores.iter().filter(|core| **core < CpuSet::MAX_CPU);
    known.for_each(|core| set.set(*core));
    if set.count() == 0 {
        return;
    }
    let bind = move || Ok(sched_setaffinity(None, &set)?);
    // SAFETY: between fork and exec a process of several threads may only do what a signal handler may. This does one
    // system call; it allocates nothing and takes no lock.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, bind) };
}

#[cfg(unix)]
fn ignore_file_size_signal(command: &mut Command) {
    let ignore = || {
        // SAFETY: no handler is set, so no code of this process runs on the signal. The call may be made between fork and
        // exec.
        match unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec a process of several threads may only do what a signal handler may. This does one
    // system call; it allocates nothing and takes no lock.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, ignore) };
}

#[cfg(target_os = "linux")]
fn end_with_this_thread(command: &mut Command, signal: Signal) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};
    let launcher = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The signal is not sent for a launcher that has died before this call.
        match getppid() == Some(launcher) {
            true => Ok(()),
            false => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec a process of several threads may only do what a signal handler may. This does two
    // system calls; it allocates nothing and takes no lock.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, ask) };
}

/// Returns the exit status of a process that has ended, and kills the rest of its group.
///
/// # Errors
/// The system does not know the process.
#[cfg(unix)]
pub(crate) fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    // No other process gets its number before it is reaped.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_none() {
        return Ok(None);
    }
    kill(child);
    child.wait().map(Some)
}

/// Returns a function that blocks until this process has ended, and does not reap it. It returns `false` if the end cannot be
/// awaited.
#[cfg(unix)]
pub(crate) fn end_of(child: &Child) -> impl FnOnce() -> bool + Send + 'static {
    let process = Pid::from_child(child);
    move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // An error is a process that is reaped already.
        while matches!(
            waitid(WaitId::Pid(process), options),
            Err(rustix::io::Errno::INTR)
        ) {}
        true
    }
}

/// Sends SIGTERM to a process and its group. It must not have been reaped.
#[cfg(unix)]
pub(crate) fn terminate(child: &Child) {
    // An error is a process that has ended by itself.
    let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
}

/// Sends SIGKILL to a process and its group. It must not have been reaped.
#[cfg(unix)]
pub(crate) fn kill(child: &mut Child) {
    // An error is a process that has ended by itself.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

#[cfg(not(unix))]
pub(crate) use single::{end_of, isolate, kill, terminate, try_wait};

/// The same for systems without process groups and signals: a process is handled by itself. Compiled in tests on Unix
/// too.
#[cfg(any(test, not(unix)))]
mod single {
    use super::*;

    /// Does nothing: the system has no process groups.
    pub(crate) fn isolate(_: &mut Command) {}

    /// Returns the exit status of a process that has ended.
    ///
    /// # Errors
    /// The system does not know the process.
    pub(crate) fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
        child.try_wait()
    }

    /// Awaits nothing: the end of a process is seen when it is polled.
    #[cfg(not(unix))]
    pub(crate) fn end_of(_: &Child) -> impl FnOnce() -> bool + Send + 'static {
        || false
    }

    /// Does nothing: the system has no such signal. The process is killed later.
    pub(crate) fn terminate(_: &Child) {}

    /// Kills a process.
    pub(crate) fn kill(child: &mut Child) {
        // An error is a process that has ended by itself.
        let _ = child.kill();
    }
}

/// Converts an exit status to an exit code as shells do: 128 and the signal's number for a process that a signal has ended.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None::<i32>;
    let code = status.code().or(signal.map(|s| 128 + s));
    code.unwrap_or(1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn without_process_groups_a_process_is_killed_by_itself() {
        let mut command = Command::new("sleep");
        command.arg("60");
        single::isolate(&mut command);
        let mut child = command.spawn().unwrap();
        single::terminate(&child);
        assert!(single::try_wait(&mut child).unwrap().is_none());
        single::kill(&mut child);
        child.wait().unwrap();
        let ended = single::try_wait(&mut child).unwrap();
        assert_eq!(ended.map(exit_code), Some(128 + 9));
    }
}
