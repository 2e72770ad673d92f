//! Checkpoints of a training: [`Saver`], [`SavedValue`], [`BestCheckpoint`].

mod best;
mod items;
mod restore;
mod save;
mod saved_value;
mod saver;
mod write;

pub use best::{BestCheckpoint, Goal};
pub use saved_value::SavedValue;
pub use saver::Saver;
pub(crate) use saver::numbered;
