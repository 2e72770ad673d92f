//! Terminal of `thalweg top`: set up, and always restored.

use std::io::IsTerminal;
use std::mem::ManuallyDrop;
use std::time::Duration;

use ratatui::DefaultTerminal;

use crate::failure::Failure;

/// Terminal in raw mode, with the alternate screen. A drop restores it, and so does a panic before its message.
pub(super) struct Screen {
    /// Never dropped: its drop would panic where standard error is gone with the terminal.
    pub(super) terminal: ManuallyDrop<DefaultTerminal>,
}

impl Screen {
    /// Sets the terminal up.
    ///
    /// # Errors
    /// Standard output is no terminal, or its modes cannot be set.
    pub(super) fn open() -> Result<Screen, Failure> {
        if !std::io::stdout().is_terminal() {
            return Err("standard output is no terminal: --once prints one table".into());
        }
        match ratatui::try_init() {
            Ok(terminal) => Ok(Screen {
                terminal: ManuallyDrop::new(terminal),
            }),
            Err(e) => {
                // It may be set up in part.
                restore();
                Err(format!("the terminal cannot be set up: {e}").into())
            }
        }
    }
}

/// Waits for a key, for at most this time. Crossterm would read a terminal that is gone forever.
///
/// # Errors
/// The terminal is gone.
#[cfg(unix)]
pub(super) fn wait(limit: Duration) -> Result<(), Failure> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
    match poll(&mut fds, Some(&Timespec::try_from(limit)?)) {
        // A signal, such as that of a new size.
        Err(rustix::io::Errno::INTR) => return Ok(()),
        done => done?,
    };
    match (fds[0].revents()).intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        true => Err("the terminal is gone".into()),
        false => Ok(()),
    }
}

/// Waits for a key, for at most this time.
///
/// # Errors
/// The terminal cannot be read.
#[cfg(not(unix))]
pub(super) fn wait(limit: Duration) -> Result<(), Failure> {
    ratatui::crossterm::event::poll(limit)?;
    Ok(())
}

impl Drop for Screen {
    fn drop(&mut self) {
        // An error is a terminal that is gone.
        let _ = self.terminal.show_cursor();
        restore();
    }
}

/// Restores the terminal. An error is a terminal that is gone.
fn restore() {
    let _ = ratatui::try_restore();
}

#[cfg(all(test, unix))]
mod tests;
