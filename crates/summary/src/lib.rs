//! TensorBoard event files: scalars, histograms, images, text, hyperparameters and graphs.
//!
//! [`SummaryWriter`] writes them, and [`EventReader`] reads them.
//!
//! ```
//! use thalweg_summary::SummaryWriter;
//!
//! # fn main() -> Result<(), thalweg_summary::SummaryError> {
//! # let logs = std::env::temp_dir().join(format!("thalweg-summary-{}", std::process::id()));
//! let writer = SummaryWriter::create(&logs)?;
//! writer.scalar("loss", 0.5, 1)?;
//! writer.text("notes", "The *first* run.", 0)?;
//! writer.close()?;
//! // tensorboard --logdir LOGS
//! # std::fs::remove_dir_all(&logs).unwrap();
//! # Ok(())
//! # }
//! ```

mod error;
pub mod messages;
mod reader;
mod writer;

pub use error::SummaryError;
pub use messages::Event;
pub use reader::EventReader;
pub use thalweg_data::write_record;
pub use writer::{HParam, RunStatus, SessionEvent, SummaryWriter, SummaryWriterOptions};
