//! What TensorBoard shows: event files of scalars, histograms, images, text and graphs.
//!
//! ```
//! use thalweg_graphdef::GraphDef;
//! use thalweg_summary::EventWriter;
//!
//! # fn main() -> std::io::Result<()> {
//! let mut writer = EventWriter::new(Vec::new(), 0.0)?;
//! writer.write_graph(&GraphDef::default(), 0.0)?;
//! assert!(!writer.finish()?.is_empty());
//! # Ok(())
//! # }
//! ```

mod events;

pub use events::{EventWriter, write_record};
