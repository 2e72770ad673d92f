//! A fake terminal that records the output of progress bars.

use std::sync::{Arc, Mutex};

use indicatif::TermLike;

/// A terminal that records its output.
#[derive(Clone, Debug)]
pub struct Screen {
    columns: u16,
    written: Arc<Mutex<Vec<String>>>,
}

impl Screen {
    /// An empty terminal.
    pub fn new(columns: u16) -> Screen {
        Screen {
            columns,
            written: Arc::default(),
        }
    }

    /// The output, in order.
    pub fn written(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        self.written.lock().unwrap().push(text.to_owned());
        Ok(())
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.columns
    }

    fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> std::io::Result<()> {
        self.write(text)
    }

    fn write_str(&self, text: &str) -> std::io::Result<()> {
        self.write(text)
    }

    fn clear_line(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
}
