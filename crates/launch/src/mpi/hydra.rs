//! Hydra's socket of a process, by which a member tells that its program has failed.
//!
//! Hydra ends all processes when one fails that uses MPI, or that a signal ends. A program without MPI may end with an error
//! while the others wait for it. PMI, the protocol between Hydra and its processes, has a command for that: `abort`.

use std::io;
use std::process::Command;

#[cfg(unix)]
use crate::job::POLL_INTERVAL;
use crate::process;
#[cfg(unix)]
use crate::signals::Signals;

/// Variable with the number of the socket, as a file descriptor.
const SOCKET: &str = "PMI_FD";

/// Socket that Hydra has given to this process.
pub(super) struct HydraSocket(i32);

impl HydraSocket {
    /// Socket that the variables tell, which `get` looks up; `None` under another launcher.
    pub(super) fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Option<HydraSocket> {
        // Slurm's PMI has such a socket too. There srun ends all tasks when one fails.
        let is_srun = get("SLURM_STEP_ID").is_some() && get("MPI_LOCALNRANKS").is_none();
        let number = get(SOCKET).filter(|_| !is_srun)?.parse().ok()?;
        // The first three are the standard streams.
        (number > 2).then_some(HydraSocket(number))
    }

    /// Runs a program until it ends, and passes signals on to it. If it fails, Hydra ends the job with its exit code, which is
    /// returned.
    ///
    /// # Errors
    /// The program cannot be started.
    #[cfg(unix)]
    pub(super) fn supervise(&self, command: &mut Command) -> io::Result<u8> {
        let mut signals = Signals::catch()?;
        process::isolate(command);
        let mut child = command.spawn()?;
        let status = loop {
            if let Some(status) = process::try_wait(&mut child)? {
                break status;
            }
            if !signals.pending().is_empty() {
                process::terminate(&child);
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let code = process::exit_code(status);
        if code != 0 {
            // An error is a job that ends already.
            let _ = self.send(&format!("cmd=abort exitcode={code}\n"));
        }
        Ok(u8::try_from(code).unwrap_or(1))
    }

    /// Runs a program until it ends.
    ///
    /// # Errors
    /// The program cannot be started.
    #[cfg(not(unix))]
    pub(super) fn supervise(&self, command: &mut Command) -> io::Result<u8> {
        process::become_program(command)
    }

    #[cfg(unix)]
    fn send(&self, text: &str) -> io::Result<()> {
        use std::os::fd::BorrowedFd;
        // SAFETY: Hydra has opened the descriptor for this process, and nothing here closes it. A number that is not open makes
        // the write fail.
        let socket = unsafe { BorrowedFd::borrow_raw(self.0) };
        rustix::io::write(socket, text.as_bytes())?;
        Ok(())
    }
}
