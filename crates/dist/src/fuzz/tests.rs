use proptest::prelude::*;
use tonic::Code;

use super::client::Client;
use super::*;

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
