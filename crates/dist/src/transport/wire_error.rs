//! Errors of messages between tasks.

use thalweg_graphdef::ValueError;
use thalweg_tensor::{DType, SegmentError, TensorError};
use thiserror::Error;

use crate::error::{Cause, ClusterError};
use crate::limits::settings::limit_name;

/// An error of a message from or to a peer.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    #[error("the connection ended in the middle of a message")]
    Short,
    #[error("the connection failed: {0}")]
    Broken(String),
    #[error(
        "the descriptor of a value in shared memory: {0}. Run the step again: its values then come over the \
         connection"
    )]
    Descriptor(std::io::Error),
    #[error(
        "a value in shared memory: {0}. Run the step again: its values then come over the connection"
    )]
    Segment(#[from] SegmentError),
    #[error("a message has {found} bytes, {limit} at most are taken")]
    TooLong { found: u64, limit: u64 },
    #[error(
        "a value has {found} bytes, and {limit} at most are taken here (--value-bytes, Limits::value_bytes)"
    )]
    Large { found: u64, limit: u64 },
    #[error("{0} (the task's --expanded-bytes, Limits::expanded_bytes, raises it)")]
    Expanded(Box<WireError>),
    #[error(
        "{limit} bytes of values have come in here at a time, as many as may (Limits::flight_bytes): run \
         fewer steps at a time"
    )]
    Flight { limit: u64 },
    #[error(transparent)]
    Forbidden(ClusterError),
    #[error("a message cannot be read: {0}")]
    Message(#[from] prost::DecodeError),
    #[error("{0} was expected")]
    Expected(&'static str),
    #[error("a value has {found} bytes, its dtype and dimensions say {expected}")]
    Length { expected: u64, found: u64 },
    #[error(
        "a value of {0} lives in one task and cannot be sent to another: place what uses it there"
    )]
    Handle(DType),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("node '{node}' ({op}): {reason}")]
    Node {
        node: String,
        op: String,
        reason: String,
    },
    #[error("{0}")]
    Part(String),
}

impl WireError {
    /// `true` if the peer may be gone.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, WireError::Short | WireError::Broken(_))
    }
}

impl From<WireError> for ClusterError {
    fn from(error: WireError) -> ClusterError {
        let cause = match error {
            WireError::Forbidden(refused) => return refused,
            WireError::Expanded(ref inner) => {
                let met = ClusterError::limit_exceeded(
                    const { limit_name("expanded_bytes") },
                    error.to_string(),
                );
                return match **inner {
                    WireError::Node {
                        ref node, ref op, ..
                    } => met.in_node(node, op),
                    _ => met,
                };
            }
            WireError::Node {
                ref node, ref op, ..
            } => {
                let made = ClusterError::new(Cause::Protocol, error.to_string());
                return made.in_node(node, op);
            }
            WireError::Short
            | WireError::Broken(_)
            | WireError::Descriptor(_)
            | WireError::Segment(_) => Cause::Unreachable,
            WireError::TooLong { .. }
            | WireError::Large { .. }
            | WireError::Flight { .. }
            | WireError::Tensor(TensorError::TooLarge { .. }) => Cause::Exhausted,
            WireError::Handle(_) => Cause::Invalid,
            _ => Cause::Protocol,
        };
        ClusterError::new(cause, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(reason: &str) -> WireError {
        WireError::Node {
            node: "n".to_owned(),
            op: "Const".to_owned(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn every_wire_error_has_a_cause() {
        let broken = || WireError::Broken("reset".to_owned());
        let (found, limit) = (2, 1);
        for (error, cause) in [
            (WireError::Short, Cause::Unreachable),
            (broken(), Cause::Unreachable),
            (WireError::TooLong { found, limit }, Cause::Exhausted),
            (WireError::Large { found, limit }, Cause::Exhausted),
            (WireError::Flight { limit }, Cause::Exhausted),
            (WireError::Expected("a value"), Cause::Protocol),
            (WireError::Length { expected: 1, found }, Cause::Protocol),
            (WireError::Handle(DType::Resource), Cause::Invalid),
            (WireError::Part("empty".to_owned()), Cause::Protocol),
        ] {
            let text = error.to_string();
            let error = ClusterError::from(error);
            assert_eq!((error.cause, error.limit), (cause, None), "{text}");
            assert_eq!(error.message, text);
        }
        assert!(WireError::Short.is_broken() && broken().is_broken());
        assert!(!WireError::Expected("a value").is_broken());
    }

    #[test]
    fn errors_of_nodes_keep_their_node_and_limit() {
        let name = |e: &ClusterError| (e.node.clone().unwrap(), e.op.clone().unwrap());
        let of_node = ("n".to_owned(), "Const".to_owned());
        let plain = ClusterError::from(node("no value"));
        assert_eq!(
            (plain.cause, name(&plain)),
            (Cause::Protocol, of_node.clone())
        );
        let met = ClusterError::from(WireError::Expanded(Box::new(node("too large"))));
        assert_eq!((met.cause, name(&met)), (Cause::Exhausted, of_node));
        assert_eq!(met.limit, Some("expanded_bytes"));
        let refused = ClusterError::new(Cause::Refused, "not allowed");
        let kept = ClusterError::from(WireError::Forbidden(refused.clone()));
        assert_eq!(kept, refused);
    }
}
