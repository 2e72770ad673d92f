//! Fetches and feeds of steps, and their results.

mod feed;
mod fetched;
mod list;
mod typed;

pub use feed::{Feed, Feeding};
pub use fetched::Fetched;
pub(crate) use fetched::{scalar, slice, tensor};
pub(crate) use list::fed_outputs;
pub use list::{FetchList, Fetches, Run, check_numbers};
pub use typed::{FetchesAs, Values};
