//! Names of limits, in errors and metrics.

pub(crate) const MESSAGE_BYTES: &str = "message_bytes";
pub(crate) const DECODED_BYTES: &str = "decoded_bytes";
pub(crate) const CALL_BYTES: &str = "call_bytes";
pub(crate) const SESSION_BYTES: &str = "session_bytes";
pub(crate) const GRAPH_BYTES: &str = "graph_bytes";
pub(crate) const GRAPH_NODES: &str = "graph_nodes";
pub(crate) const EXPANDED_BYTES: &str = "expanded_bytes";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const VALUE_BYTES: &str = "value_bytes";
pub(crate) const FLIGHT_BYTES: &str = "flight_bytes";
pub(crate) const SESSIONS: &str = "sessions";
pub(crate) const CLIENT_SESSIONS: &str = "client_sessions";
pub(crate) const STEPS: &str = "steps";
pub(crate) const CALLABLES: &str = "callables";
pub(crate) const PARTS: &str = "parts";
pub(crate) const CONNECTIONS: &str = "connections";
pub(crate) const ARRIVAL: &str = "arrival";
pub(crate) const IDLE: &str = "idle";
pub(crate) const SILENCE: &str = "silence";

/// All limits that a caller or a connection can meet.
pub(crate) const ALL: [&str; 19] = [
    MESSAGE_BYTES,
    DECODED_BYTES,
    CALL_BYTES,
    SESSION_BYTES,
    GRAPH_BYTES,
    GRAPH_NODES,
    EXPANDED_BYTES,
    MEMORY,
    VALUE_BYTES,
    FLIGHT_BYTES,
    SESSIONS,
    CLIENT_SESSIONS,
    STEPS,
    CALLABLES,
    PARTS,
    CONNECTIONS,
    ARRIVAL,
    IDLE,
    SILENCE,
];
