//! Event files, which TensorBoard reads: records with checksums, each an [`Event`].
//!
//! ```
//! use thalweg_summary::EventWriter;
//! use thalweg_graphdef::messages::{Event, Summary, event::What, summary};
//!
//! # fn main() -> std::io::Result<()> {
//! // In a program: a file such as "logs/events.out.tfevents.1".
//! let mut writer = EventWriter::new(Vec::new(), 0.0)?;
//! let loss = summary::Value {
//!     tag: "loss".into(),
//!     value: Some(summary::value::Value::SimpleValue(0.5)),
//!     ..summary::Value::default()
//! };
//! let what = What::Summary(Summary { value: vec![loss] });
//! writer.write(&Event { wall_time: 0.1, step: 1, what: Some(what) })?;
//! let bytes = writer.finish()?;
//! assert!(bytes.windows(4).any(|w| w == b"loss"));
//! # Ok(())
//! # }
//! ```

use std::io::{self, Write};

use prost::Message;

use thalweg_checkpoint::crc;
use thalweg_graphdef::messages::{Event, GraphDef, event::What};

/// What the first record of an event file says.
const VERSION: &str = "brain.Event:2";

/// Writes events to a file, whose name must have `tfevents` in it for TensorBoard to find it.
pub struct EventWriter<W: Write> {
    to: W,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file; `wall_time` is in seconds since 1970.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(to: W, wall_time: f64) -> io::Result<EventWriter<W>> {
        let mut writer = EventWriter { to };
        writer.write(&Event {
            wall_time,
            what: Some(What::FileVersion(VERSION.to_owned())),
            ..Event::default()
        })?;
        Ok(writer)
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&mut self, event: &Event) -> io::Result<()> {
        write_record(&mut self.to, &event.encode_to_vec())
    }

    /// Adds a graph, which TensorBoard's graph view shows.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_graph(&mut self, graph: &GraphDef, wall_time: f64) -> io::Result<()> {
        self.write(&Event {
            wall_time,
            what: Some(What::GraphDef(graph.encode_to_vec())),
            ..Event::default()
        })
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Writes a record as TensorFlow's files of records have it: length, checksum of the length, bytes,
/// checksum of the bytes.
///
/// # Errors
/// Those of writing.
pub fn write_record(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = (bytes.len() as u64).to_le_bytes();
    to.write_all(&length)?;
    to.write_all(&crc::masked(&length).to_le_bytes())?;
    to.write_all(bytes)?;
    to.write_all(&crc::masked(bytes).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_tensorflows() {
        // What TensorFlow's TFRecordWriter makes of b"abc".
        let mut written = Vec::new();
        write_record(&mut written, b"abc").unwrap();
        assert_eq!(written, RECORD);
    }

    const RECORD: [u8; 19] = [
        3, 0, 0, 0, 0, 0, 0, 0, 176, 153, 73, 14, 97, 98, 99, 110, 87, 241, 33,
    ];
}
