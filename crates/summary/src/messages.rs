//! Messages of event files, with the names, fields and numbers of TensorFlow's
//! `core/util/event.proto`.
//!
//! ```
//! use thalweg_summary::messages::{Event, SessionLog, event::What, session_log::SessionStatus};
//!
//! let log = SessionLog { status: SessionStatus::Start.into(), ..SessionLog::default() };
//! let event = Event { step: 100, what: Some(What::SessionLog(log)), ..Event::default() };
//! assert_eq!(event.step, 100);
//! ```

pub use thalweg_graphdef::messages::{
    Event, HistogramProto, RunMetadata, SessionLog, Summary, SummaryMetadata, TaggedRunMetadata,
    event, session_log, summary,
};
