use proptest::prelude::*;
use tonic::Code;

use super::client::Client;
use super::*;
use crate::error::{Cause, ClusterError};
use crate::wire::frames::Frames;
use crate::wire::messages as wire;
use crate::wire::messages::header::Kind;

#[test]
fn the_messages_of_a_client_that_others_are_changed_from_are_as_they_should_be() {
    let mut client = Client::default();
    for name in client::CALLS {
        assert_eq!(
            client.call(name, &client::message(name)),
            Some(Code::Ok),
            "{name}"
        );
    }
}

#[test]
fn the_answers_that_others_are_changed_from_are_as_they_should_be() {
    // Opened, two values or three, and an end that is itself a message.
    assert_eq!([1, 2].map(|kind| answers::read(&[kind])), [4, 5]);
}

/// An answer that is this error, with one text in place of another of the same length.
fn error(error: wire::Error, text: &[u8], by: &[u8]) -> Result<Kind, ClusterError> {
    let end = wire::End { error: Some(error) };
    let mut bytes = tasks::bytes_of(&mut Frames::of(Kind::End(end)));
    for at in 0..bytes.len() + 1 - text.len() {
        if bytes[at..].starts_with(text) {
            bytes[at..at + by.len()].copy_from_slice(by);
        }
    }
    answers::first(bytes)
}

#[test]
fn an_error_of_a_peer_that_does_not_mean_well_is_bounded_and_tells_who_sent_it() {
    let sender = Some(("ps".to_owned(), 0));
    let told = |fields: wire::Error| error(fields, b"\x07\x07", b"\x07\x07").unwrap_err();
    // No text of it is UTF-8.
    for field in 0..5 {
        let mut fields = wire::Error::default();
        let task = fields.task.get_or_insert_default();
        let texts = [
            &mut fields.message,
            &mut fields.node,
            &mut fields.op,
            &mut fields.origin,
            &mut task.job,
        ];
        *texts.into_iter().nth(field).unwrap() = "\x07\x07\x07\x07".to_owned();
        assert_ne!(told(fields.clone()).cause, Cause::Protocol);
        let wrong = error(fields, b"\x07\x07\x07\x07", b"\xff\xfe\xc3\x28").unwrap_err();
        assert_eq!(wrong.cause, Cause::Protocol, "{wrong:?}");
        assert_eq!(wrong.task, sender);
        assert!(wrong.message.contains("cannot be read"), "{wrong}");
    }
    // What it says is longer than anybody reads, and of no kind that there is.
    let long = wire::Error {
        cause: i32::MAX,
        message: "x".repeat(1 << 22),
        ..wire::Error::default()
    };
    let long = told(long);
    assert_eq!((long.cause, long.task), (Cause::Internal, sender));
    assert!(long.message.len() < 1 << 15, "{}", long.message.len());
    assert!(
        long.message
            .starts_with("/job:ps/task:0 at 127.0.0.1:1: xxx")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_of_a_client_and_no_answer_do_harm(
        input in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut client = Client::default();
        for (name, body) in calls(&input, &client::CALLS, client::message) {
            client.call(name, &body);
        }
        answers::read(&input);
    }
}
