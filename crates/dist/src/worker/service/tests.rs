//! Tests of calls by a hostile peer, of versions, and of replaced processes.

use proptest::prelude::*;
use prost::Message;
use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::Fetch;
use thalweg_tensor::DType;
use thalweg_tensor::sync::Unpoisoned;

use super::*;
use crate::fuzzing::tasks::{
    CALLS, FuzzedTask, bytes_of, cut, little, message, part, register, registration, run,
};
use crate::limits::allowed_ops::AllowedOps;
use crate::limits::server_limits::Limits;
use crate::transport::error_codec as wire_error;

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
fn a_valid_part_runs() {
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
            opening: 0,
        })))
    };
    for body in [of(most + 1, 0), of(2, most as u32), of(2, u32::MAX)] {
        let answer = end(&task.call("Register", body));
        assert_eq!(answer.unwrap().cause, Cause::Exhausted);
    }
}

#[test]
fn bytes_in_flight_are_bounded_and_announced_bytes_do_not_count() {
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
        opening: 0,
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
fn mismatched_messages_are_errors() {
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

/// Invalid regions: the expected error, and the change of a valid part.
type Wrong = (&'static str, fn(&mut wire::Part, usize));

/// The region of a node.
fn region(part: &mut wire::Part, at: usize) -> &mut wire::Region {
    part.node[at].region.as_mut().unwrap()
}

#[test]
fn an_invalid_region_is_an_error_of_its_node() {
    let task = FuzzedTask::default();
    let wrong: [Wrong; 9] = [
        ("without its graph", |p, at| p.node[at].region = None),
        ("of another op", |p, at| {
            p.node[at].op = "Identity".to_owned()
        }),
        ("of a node that stands for none", |p, at| {
            p.node[at - 1].region = p.node[at].region.clone();
        }),
        ("in a region", |p, at| {
            let node = p.node[at].clone();
            let inside = wire::Node {
                inputs: (0..node.inputs.len() as u32)
                    .map(|node| wire::Output { node, index: 0 })
                    .collect(),
                controls: Vec::new(),
                ..node
            };
            region(p, at).node.push(inside);
        }),
        ("twice", |p, at| p.node.insert(at, p.node[at].clone())),
        ("that gives less", |p, at| region(p, at).results.clear()),
        ("that gives another dtype", |p, at| {
            // Which side a Merge took.
            region(p, at).results[0].index = 1;
        }),
        ("that gives what is not there", |p, at| {
            region(p, at).results[0].node = u32::MAX;
        }),
        ("that uses what is not there", |p, at| {
            let last = region(p, at).node.last_mut().unwrap();
            last.inputs[0].node = u32::MAX;
        }),
    ];
    for (what, change) in wrong {
        let (mut part, values) = part();
        let at = part.node.iter().position(|n| n.region.is_some()).unwrap();
        change(&mut part, at);
        let answer = end(&task.call("Register", registration(part, &values)));
        let answer = answer.unwrap_or_else(|| panic!("a region {what} is taken"));
        assert!(answer.message.contains("node '"), "{what}: {answer:?}");
    }
}

#[test]
fn the_nodes_of_a_region_count_as_those_of_its_part() {
    let task = FuzzedTask::default();
    let (mut part, values) = part();
    let at = part.node.iter().position(|n| n.region.is_some()).unwrap();
    let node = region(&mut part, at).node[0].clone();
    region(&mut part, at).node = vec![node; little().graph_nodes];
    let answer = end(&task.call("Register", registration(part, &values)));
    assert_eq!(answer.unwrap().cause, Cause::Exhausted);
}

#[test]
fn an_op_that_is_not_allowed_is_refused_in_a_region_too() {
    let mut limits = little();
    let names = thalweg_ops::ops().map(|op| op.def.name);
    limits.ops = AllowedOps::only(names.filter(|n| *n != "Sqrt")).unwrap();
    let task = FuzzedTask::new(limits);
    let (mut part, values) = part();
    let at = part.node.iter().position(|n| n.region.is_some()).unwrap();
    region(&mut part, at).node[0].op = "Sqrt".to_owned();
    let answer = end(&task.call("Register", registration(part, &values)));
    let refused = answer.unwrap();
    assert_eq!(refused.cause, Cause::Refused, "{refused:?}");
    assert_eq!(refused.op.as_deref(), Some("Sqrt"), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_of_a_peer_never_panic(
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

/// A call of `Open`; gives how its answer ends, if it does.
fn open(task: &FuzzedTask, open: wire::Open) -> Option<ClusterError> {
    end(&task.call("Open", bytes_of(&mut Frames::of(Kind::Open(open)))))
}

fn opening() -> wire::Open {
    wire::Open {
        session: "another".to_owned(),
        version: Some(version::own_version()),
        ..wire::Open::default()
    }
}

#[test]
fn a_caller_of_another_version_is_refused_and_both_are_named() {
    let task = FuzzedTask::default();
    assert_eq!(open(&task, opening()), None);
    let other = wire::Version {
        protocol: 77,
        program: "9.9.9".to_owned(),
    };
    for (version, said) in [
        (Some(other), "9.9.9, protocol 77"),
        (None, "tells no version"),
    ] {
        let error = open(
            &task,
            wire::Open {
                version,
                job: "localhost".to_owned(),
                index: 3,
                ..opening()
            },
        );
        let error = error.unwrap();
        assert_eq!(error.cause, Cause::Unsupported, "{error}");
        let named = [
            "/job:localhost/task:3",
            "/job:localhost/task:0 at 127.0.0.1:1",
            said,
        ];
        for part in named {
            assert!(error.message.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn a_late_call_for_an_earlier_opening_of_a_session_is_refused() {
    let task = FuzzedTask::default();
    assert_eq!(end(&task.call("Register", register().0)), None);
    let open_again = wire::Open {
        session: "s".to_owned(),
        opening: 5,
        ..opening()
    };
    let body = bytes_of(&mut Frames::of(Kind::Open(open_again)));
    let _opened = task.begin("Open", body);
    for (name, body) in [
        ("Register", register().0),
        ("Run", run(1, 7)),
        ("Forget", message("Forget")),
    ] {
        let error = end(&task.call(name, body)).unwrap();
        assert_eq!(error.cause, Cause::SessionLost, "{name}: {error}");
    }
}

#[test]
fn a_process_refuses_calls_once_a_newer_one_of_its_task_is_known() {
    let task = FuzzedTask::default();
    let own = task.worker.process();
    let hears = |incarnation: u64, started: u64| wire::Open {
        known: vec![wire::Process {
            job: "localhost".to_owned(),
            index: 0,
            incarnation,
            started,
        }],
        ..opening()
    };
    // An older one, and itself.
    assert_eq!(open(&task, hears(1, own.started - 1)), None);
    assert_eq!(open(&task, hears(own.incarnation, own.started)), None);
    assert_eq!(end(&task.call("Register", register().0)), None);
    let replaced = open(&task, hears(2, own.started + 5_000_000)).unwrap();
    assert_eq!(replaced.cause, Cause::Replaced, "{replaced}");
    // Its clock is ahead: it counts from now.
    assert!(
        replaced.message.contains(" s later has taken"),
        "{replaced}"
    );
    for name in CALLS {
        let error = end(&task.call(name, message(name))).unwrap();
        assert_eq!(error.cause, Cause::Replaced, "{name}: {error}");
    }
    assert_eq!(task.worker.held().0, 0, "sessions");
}

#[test]
fn a_master_whose_process_was_replaced_is_refused_and_its_sessions_end() {
    let task = FuzzedTask::new(Limits {
        sessions: 10,
        ..little()
    });
    let master = ("worker".to_owned(), 0);
    let of = |incarnation: u64, started: u64, session: &str| wire::Open {
        session: session.to_owned(),
        job: master.0.clone(),
        index: master.1,
        own: Some(wire::Process {
            incarnation,
            started,
            ..wire::Process::default()
        }),
        ..opening()
    };
    let begin = |open| task.begin("Open", bytes_of(&mut Frames::of(Kind::Open(open))));
    let _old = begin(of(1, 100, "old"));
    assert!(task.worker.session("old").is_ok());
    let _new = begin(of(2, 200, "new"));
    assert!(task.worker.session("new").is_ok());
    let ended = task.worker.session("old").map(|_| ()).unwrap_err();
    assert_eq!(ended.cause, Cause::SessionLost);
    let back = open(&task, of(1, 100, "again")).unwrap();
    assert_eq!(
        (back.cause, back.task.clone()),
        (Cause::Replaced, Some(master.clone())),
        "{back}"
    );
    assert!(task.worker.session("new").is_ok());
}

#[test]
fn a_thread_of_the_network_does_not_wait_for_an_update() {
    let task = FuzzedTask::default();
    let g = Graph::new();
    let w = g.variable("w", [1.0f32, 2.0]);
    let add = w.assign_add(g.constant([1.0f32, 1.0]));
    for update in [w.initializer().id(), add.id()] {
        let (message, values) = cut(&g, &[Fetch::Run(update)], &[]);
        assert_eq!(
            end(&task.call("Register", registration(message, &values))),
            None
        );
    }
    let run = |part: u64, step: u64| {
        bytes_of(&mut Frames::of(Kind::Run(wire::Run {
            session: "s".to_owned(),
            part,
            step,
            limit: 60_000_000,
            ..wire::Run::default()
        })))
    };
    for part in [1, 2] {
        assert_eq!(end(&task.call("Run", run(part, part))), None);
    }
    let part = task.session().parts.lock().unpoisoned().kept[&2].clone();
    part.took(std::time::Duration::ZERO);
    assert!(part.is_short());

    let engine = &task.worker.engine;
    let on = (0, &engine.devices()[0]);
    let store = engine.store();
    let variable = store
        .variable(on, "", "w", DType::F32, &[2].into())
        .unwrap();
    assert!(
        variable.value().is_some(),
        "it is the one that the parts use"
    );
    let (begin, begun) = std::sync::mpsc::channel();
    let (end_it, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let variable = variable.clone();
        let update = threads.spawn(move || {
            let _held = variable.gate().hold();
            let _value = variable.lock();
            begin.send(()).unwrap();
            // It ends by itself where the thread of the network waits for it.
            ended
                .recv_timeout(std::time::Duration::from_secs(5))
                .is_ok()
        });
        begun.recv().unwrap();
        let running = task.begin("Run", run(2, 3));
        assert_eq!(end(&task.call("Finish", message("Finish"))), None);
        let _ = end_it.send(());
        assert!(update.join().unwrap(), "the network waited for the update");
        running.abort();
    });
}

/// A call's body with a part of so many nodes, whose names have this length.
fn nodes(count: usize, name: usize) -> Vec<u8> {
    let node = wire::Node {
        name: "n".repeat(name),
        ..wire::Node::default()
    };
    let part = wire::Part {
        node: vec![node; count],
        ..wire::Part::default()
    };
    registration(part, &[])
}

#[test]
fn a_long_header_counts_while_it_comes_and_as_it_is_decoded_and_one_that_is_too_long_is_refused() {
    let task = FuzzedTask::default();
    let refused = |body: Vec<u8>| end(&task.call("Register", body)).unwrap();
    let is_full = |e: &ClusterError| e.message.contains("flight_bytes");
    // 5 MiB of names, where 4 may come in; and 80 KB that take more once they are decoded.
    let long = nodes(1 << 10, 5 << 10);
    let many = nodes(40 << 10, 0);
    assert!(many.len() < 100_000);
    for body in [long.clone(), many] {
        let full = refused(body);
        assert_eq!(full.cause, Cause::Exhausted, "{full}");
        assert!(is_full(&full), "{full}");
    }
    // What others have begun to send counts too, as far as it has come.
    let half = || task.begin("Register", long[..2 << 20].to_vec());
    let waiting = [half(), half()];
    let small = nodes(300, 20);
    assert!(is_full(&refused(small.clone())));
    waiting.into_iter().for_each(|w| task.end(w));
    let error = refused(small);
    assert!(!is_full(&error), "{error}");

    let too_long = refused((257u32 << 20).to_le_bytes().to_vec());
    assert_eq!(too_long.cause, Cause::Exhausted, "{too_long}");
}
