//! What comes from a peer that does not mean well.

use proptest::prelude::*;
use prost::Message;
use thalweg_tensor::DType;

use super::*;
use crate::allowed::AllowedOps;
use crate::fuzzing::tasks::{CALLS, FuzzedTask, bytes_of, little, message, register, run};
use crate::net::error as wire_error;

/// The error that an answer ends with, if it does.
fn end(answer: &[u8]) -> Option<ClusterError> {
    let (mut rest, mut last) = (answer, Some(ClusterError::invalid("there is no answer")));
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (header, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        rest = after;
        match wire::Header::decode(header).unwrap().kind {
            Some(Kind::Value(v)) => rest = &rest[v.bytes as usize..],
            Some(Kind::End(e)) => last = e.error.map(wire_error::decoded),
            _ => last = None,
        }
    }
    last
}

#[test]
fn a_part_that_is_as_it_should_be_runs() {
    let task = FuzzedTask::default();
    let (message, values) = register();
    assert!(values > 0);
    for (name, body) in [("Register", message), ("Run", run(1, 7))] {
        let end = end(&task.call(name, body));
        assert_eq!(end, None, "{name}");
    }
}

#[test]
fn a_part_with_an_op_that_is_not_allowed_is_refused() {
    let mut limits = little();
    limits.ops = AllowedOps::only(["MatMul"]).unwrap();
    let task = FuzzedTask::new(limits);
    let answer = end(&task.call("Register", register().0));
    let refused = answer.unwrap();
    assert_eq!(refused.cause, Cause::Refused, "{refused:?}");
    assert_eq!(refused.task, Some(("localhost".to_owned(), 0)));
    assert!(
        refused.node.is_some() && refused.op.is_some(),
        "{refused:?}"
    );
}

#[test]
fn a_part_of_too_many_nodes_or_values_is_refused_before_they_come() {
    let task = FuzzedTask::default();
    let most = little().graph_nodes;
    let of = |nodes: usize, known: u32| {
        let node = wire::Node {
            op: "Const".to_owned(),
            known,
            ..wire::Node::default()
        };
        bytes_of(&mut Frames::of(Kind::Register(wire::Register {
            session: "s".to_owned(),
            part: Some(wire::Part {
                node: vec![node; nodes],
                ..wire::Part::default()
            }),
        })))
    };
    for body in [of(most + 1, 0), of(2, most as u32), of(2, u32::MAX)] {
        let answer = end(&task.call("Register", body));
        assert_eq!(answer.unwrap().cause, Cause::Exhausted);
    }
}

#[test]
fn what_comes_in_on_calls_that_go_on_is_bounded_and_what_is_announced_does_not_count() {
    let task = FuzzedTask::default();
    let asked = wire::Register {
        session: "s".to_owned(),
        part: Some(wire::Part {
            node: vec![wire::Node {
                name: "n".to_owned(),
                op: "Const".to_owned(),
                known: 8,
                ..wire::Node::default()
            }],
            ..wire::Part::default()
        }),
    };
    let value = Tensor::zeros(DType::F32, &[1 << 18]).unwrap();
    let mut frames = Frames::of(Kind::Register(asked.clone()));
    for _ in 0..8 {
        frames.push_value(0, &value).unwrap();
    }
    // 8 MiB on one call, where 4 may be.
    let answer = end(&task.call("Register", bytes_of(&mut frames)));
    let answer = answer.unwrap();
    assert_eq!(answer.cause, Cause::Exhausted, "{answer:?}");
    assert!(answer.message.contains("flight_bytes"), "{answer:?}");
    // As much is announced by others, who then send nothing.
    let mut announced = Frames::of(Kind::Register(asked));
    announced.push_value(0, &value).unwrap();
    let mut announced = bytes_of(&mut announced);
    announced.truncate(announced.len() - (1 << 20));
    let waiting = (0..8).map(|_| task.begin("Register", announced.clone()));
    let waiting: Vec<_> = waiting.collect();
    let answer = end(&task.call("Register", register().0));
    assert_eq!(answer, None);
    waiting.iter().for_each(|w| w.abort());
}

#[test]
fn what_does_not_belong_together_is_an_error() {
    let task = FuzzedTask::default();
    for (name, body) in [
        ("Run", run(99, 1)),
        ("Register", run(1, 1)),
        ("Nothing", run(1, 1)),
        ("Run", Vec::new()),
        ("Open", vec![0xff; 3]),
        ("Open", vec![0xff; 64]),
    ] {
        let answer = end(&task.call(name, body));
        assert!(answer.is_some(), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_of_a_peer_do_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        name in proptest::sample::select(&CALLS[..]),
    ) {
        let mut message = message("Register");
        for (at, byte) in &changes {
            let at = at.index(message.len());
            message[at] = *byte;
        }
        if let Some(cut) = cut {
            message.truncate(cut.index(message.len()));
        }
        let task = FuzzedTask::default();
        task.call("Register", message.clone());
        // Whatever was taken for a part is run.
        task.call("Run", run(1, 7));
        task.call(name, message);
    }
}
