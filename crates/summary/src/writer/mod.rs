//! Writer of event files.

mod event_writer;
mod hparams;
mod options;
mod queue;
mod values;

#[cfg(test)]
mod tests;

pub use event_writer::SummaryWriter;
pub use hparams::{HParam, RunStatus};
pub use options::SummaryWriterOptions;
pub use values::SessionEvent;
