//! Console of a launch: the signals that it gets, and its screen.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::error::Result;
use crate::output_files::output_files;
use crate::screen::{LostLines, Screen, ScreenEvent, show};
use crate::signals::Signals;

/// Number of lines that may wait for the screen until tasks block.
pub(crate) const EVENT_QUEUE: usize = 1024;

/// Console of a launch.
pub(crate) struct Console {
    pub(crate) signals: Signals,
    pub(crate) sender: SyncSender<ScreenEvent>,
    screen: ScreenState,
}

enum ScreenState {
    /// Nothing is shown yet.
    Closed(Receiver<ScreenEvent>),
    Open(Screen),
    /// The system had no thread for it.
    Failed,
}

impl Console {
    /// Catches signals from now on. What is sent waits for the screen.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub(crate) fn catch() -> Result<Console> {
        let (sender, events) = sync_channel(EVENT_QUEUE);
        Ok(Console {
            signals: Signals::catch()?,
            sender,
            screen: ScreenState::Closed(events),
        })
    }

    /// Opens the screen of tasks with these names, with a file in the folder for the output of each. It stays open when the same
    /// tasks are started again.
    ///
    /// # Errors
    /// A file cannot be created; the system has no thread.
    pub(crate) fn open(&mut self, names: Vec<String>, output_dir: Option<&Path>) -> Result<()> {
        if matches!(self.screen, ScreenState::Open(_)) {
            return Ok(());
        }
        let files = match output_dir {
            Some(folder) => output_files(folder, &names)?,
            None => Vec::new(),
        };
        if let ScreenState::Closed(events) =
            std::mem::replace(&mut self.screen, ScreenState::Failed)
        {
            self.screen = ScreenState::Open(Screen::start(names, files, events)?);
        }
        Ok(())
    }

    /// Shows a line of the launcher.
    pub(crate) fn note(&self, line: String) {
        show(ScreenEvent::Note(line), &self.sender);
    }

    /// Shows the state of a task.
    pub(crate) fn show_state(&self, task: usize, state: &str) {
        let state = state.to_owned();
        show(ScreenEvent::State { task, state }, &self.sender);
    }

    /// Waits until the last line is written. Returns the lost lines; `None` on a timeout.
    pub(crate) fn end(self) -> Option<LostLines> {
        // The screen ends when all senders of events are dropped.
        drop(self.sender);
        match self.screen {
            ScreenState::Open(screen) => screen.end(),
            ScreenState::Closed(_) | ScreenState::Failed => Some(LostLines::default()),
        }
    }
}
