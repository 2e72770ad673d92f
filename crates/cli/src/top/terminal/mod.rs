//! Terminal of `thalweg top`: set up, and always restored.

use std::io::IsTerminal;

use ratatui::DefaultTerminal;

use crate::failure::Failure;

/// Terminal in raw mode, with the alternate screen. A drop restores it, and so does a panic before its message.
pub(super) struct Screen {
    pub(super) terminal: DefaultTerminal,
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
            Ok(terminal) => Ok(Screen { terminal }),
            Err(e) => {
                // It may be set up in part.
                restore();
                Err(format!("the terminal cannot be set up: {e}").into())
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. An error is a terminal that is gone.
fn restore() {
    let _ = ratatui::try_restore();
}

#[cfg(all(test, unix))]
mod tests;
