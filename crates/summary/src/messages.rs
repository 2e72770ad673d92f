//! What an event file consists of: messages with the names, fields and numbers of TensorFlow's
//! `core/util/event.proto`.
//!
//! ```
//! use thalweg_summary::messages::{Event, SessionLog, event::What, session_log::Status};
//!
//! let log = SessionLog { status: Status::Start.into(), ..SessionLog::default() };
//! let event = Event { step: 100, what: Some(What::SessionLog(log)), ..Event::default() };
//! assert_eq!(event.step, 100);
//! ```

pub use thalweg_graphdef::messages::{HistogramProto, Summary, SummaryMetadata, summary};

/// What happened at a moment of a run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    /// The global step.
    #[prost(int64, tag = "2")]
    pub step: i64,
    /// What happened; `None` where it is of a kind that is not listed here.
    #[prost(oneof = "event::What", tags = "3, 4, 5, 7, 8, 9")]
    pub what: Option<event::What>,
}

/// Kinds of events.
pub mod event {
    /// What an event tells.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum What {
        /// The first record's: "brain.Event:2".
        #[prost(string, tag = "3")]
        FileVersion(String),
        /// An encoded GraphDef.
        #[prost(bytes, tag = "4")]
        GraphDef(Vec<u8>),
        /// Values with their tags.
        #[prost(message, tag = "5")]
        Summary(super::Summary),
        /// A session began, ended, or saved a checkpoint.
        #[prost(message, tag = "7")]
        SessionLog(super::SessionLog),
        /// What a traced step cost.
        #[prost(message, tag = "8")]
        TaggedRunMetadata(super::TaggedRunMetadata),
        /// An encoded MetaGraphDef.
        #[prost(bytes, tag = "9")]
        MetaGraphDef(Vec<u8>),
    }
}

/// A session began, ended, or saved a checkpoint.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionLog {
    /// Which of them.
    #[prost(enumeration = "session_log::Status", tag = "1")]
    pub status: i32,
    /// The prefix of the checkpoint's files.
    #[prost(string, tag = "2")]
    pub checkpoint_path: String,
    /// More about it, for people.
    #[prost(string, tag = "3")]
    pub msg: String,
}

/// Kinds of session logs.
pub mod session_log {
    /// What a session did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum Status {
        /// Not said.
        StatusUnspecified = 0,
        /// It began. TensorBoard drops what earlier events say of this step and later ones.
        Start = 1,
        /// It ended.
        Stop = 2,
        /// It saved a checkpoint.
        Checkpoint = 3,
    }
}

/// What a traced step cost.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaggedRunMetadata {
    /// Its name in TensorBoard; each is used once.
    #[prost(string, tag = "1")]
    pub tag: String,
    /// An encoded RunMetadata.
    #[prost(bytes = "vec", tag = "2")]
    pub run_metadata: Vec<u8>,
}
