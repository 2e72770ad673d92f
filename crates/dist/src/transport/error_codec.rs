//! Encoding and decoding of errors. Texts of a peer are truncated and otherwise taken as they are: they are shown to
//! users, and decide nothing but the cause of the error.

use thalweg_graph::Origin;

use super::messages as wire;
use crate::error::{Cause, ClusterError};

/// Maximum length of an error's message from a peer, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// Maximum length of the name of a task, node or op, and of an origin, in bytes.
const MAX_NAME: usize = 4 << 10;
/// Suffix of a truncated text.
const TRUNCATED: &str = " ... [truncated]";

/// Causes and their numbers in messages.
const CAUSES: [(Cause, wire::Cause); 22] = [
    (Cause::Kernel, wire::Cause::Kernel),
    (Cause::Uninitialized, wire::Cause::Uninitialized),
    (Cause::OutOfRange, wire::Cause::OutOfRange),
    (Cause::Invalid, wire::Cause::Invalid),
    (Cause::NotFound, wire::Cause::NotFound),
    (Cause::Unsupported, wire::Cause::Unsupported),
    (Cause::Refused, wire::Cause::Refused),
    (Cause::Unauthenticated, wire::Cause::Unauthenticated),
    (Cause::Exhausted, wire::Cause::Exhausted),
    (Cause::Unreachable, wire::Cause::Unreachable),
    (Cause::Silent, wire::Cause::Silent),
    (Cause::Restarted, wire::Cause::Restarted),
    (Cause::SessionLost, wire::Cause::SessionLost),
    (Cause::ShutDown, wire::Cause::ShutDown),
    (Cause::Device, wire::Cause::Device),
    (Cause::Deadline, wire::Cause::Deadline),
    (Cause::Cancelled, wire::Cause::Cancelled),
    (Cause::Protocol, wire::Cause::Protocol),
    (Cause::Storage, wire::Cause::Storage),
    (Cause::Replaced, wire::Cause::Replaced),
    (Cause::Precondition, wire::Cause::Precondition),
    (Cause::Internal, wire::Cause::Internal),
];

/// Truncates a text to `most` bytes, and marks it.
pub(crate) fn truncated(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|&i| text.is_char_boundary(i));
        text.truncate(end.unwrap_or(0));
        // The text then takes no more memory than it has bytes.
        text.shrink_to(most + TRUNCATED.len());
        text += TRUNCATED;
    }
    text
}

/// Encodes an error for another task or a master.
pub(crate) fn encoded(error: ClusterError) -> wire::Error {
    let cause = CAUSES.iter().find(|(c, _)| *c == error.cause);
    let task = error.task.map(|(job, index)| wire::Task {
        job,
        index,
        ..wire::Task::default()
    });
    wire::Error {
        cause: cause.map_or(wire::Cause::Internal, |(_, number)| *number) as i32,
        message: error.message,
        derived: error.derived,
        task,
        node: error.node.unwrap_or_default(),
        op: error.op.unwrap_or_default(),
        origin: error.origin.map(|o| o.to_string()).unwrap_or_default(),
    }
}

/// Decodes an error of any sender.
pub(crate) fn decoded(error: wire::Error) -> ClusterError {
    let name = |text: String| (!text.is_empty()).then(|| truncated(text, MAX_NAME));
    let cause = CAUSES.iter().find(|(_, c)| *c as i32 == error.cause);
    let cause = cause.map_or(Cause::Internal, |(cause, _)| *cause);
    let mut made = ClusterError::new(cause, truncated(error.message, MAX_TEXT));
    made.derived = error.derived;
    made.task = error
        .task
        .and_then(|t| name(t.job).map(|job| (job, t.index)));
    (made.node, made.op) = (name(error.node), name(error.op));
    made.origin = name(error.origin).map(|o| Origin::Other(o.into()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_survives_the_wire() {
        for number in 0..CAUSES.len() as i32 {
            let error = wire::Error {
                cause: number,
                ..wire::Error::default()
            };
            assert!(wire::Cause::try_from(number).is_ok(), "{number}");
            let cause = decoded(error).cause;
            let back = encoded(ClusterError::new(cause, "")).cause;
            assert_eq!(back, number, "{cause:?}");
        }
        assert!(wire::Cause::try_from(CAUSES.len() as i32).is_err());
    }

    #[test]
    fn every_field_of_an_error_survives_the_wire() {
        let task = ("ps".to_owned(), 3);
        let mut error = ClusterError::new(Cause::Kernel, "the text").at(&task);
        error = error.in_node("n", "Div").derived();
        error.origin = Some(Origin::Other("file.rs:7".into()));
        assert_eq!(decoded(encoded(error.clone())), error);
        let nothing = ClusterError::new(Cause::Deadline, "");
        assert_eq!(decoded(encoded(nothing.clone())), nothing);
    }

    #[test]
    fn decoded_error_texts_are_bounded_and_an_unknown_cause_is_internal() {
        // Three bytes each: no limit falls between two characters.
        let long = "\u{2190}".repeat(1 << 20);
        for cause in [i32::MIN, -1, CAUSES.len() as i32, i32::MAX] {
            let error = decoded(wire::Error {
                cause,
                message: long.clone(),
                derived: true,
                task: Some(wire::Task {
                    job: long.clone(),
                    index: u32::MAX,
                    address: long.clone(),
                    number: 7,
                }),
                node: long.clone(),
                op: long.clone(),
                origin: long.clone(),
            });
            assert_eq!(error.cause, Cause::Internal);
            let origin = error.origin.map(|o| o.to_string());
            let (job, index) = error.task.unwrap();
            assert_eq!(index, u32::MAX);
            for name in [Some(job), error.node, error.op, origin] {
                let name = name.unwrap();
                assert!(name.len() <= MAX_NAME + TRUNCATED.len(), "{}", name.len());
                assert!(
                    name.ends_with(TRUNCATED) && long.starts_with(name.trim_end_matches(TRUNCATED))
                );
            }
            assert!(error.message.len() <= MAX_TEXT + TRUNCATED.len());
            assert!(error.message.capacity() <= 2 * MAX_TEXT);
        }
    }
}
