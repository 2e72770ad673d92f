//! Tests of draining: a server that got a signal finishes its running steps and exits.

#![cfg(unix)]

mod support;

use std::time::Duration;

use support::Folder;
use support::server_process::ServerProcess;
use thalweg_checkpoint::BundleReader;
use thalweg_dist::messages::master_service_client::MasterServiceClient;
use thalweg_dist::messages::{CloseSessionRequest, CreateSessionRequest};
use thalweg_dist::{ClusterOptions, Code, Session, Timeouts};
use thalweg_graph::{Attr, Graph};
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_tensor::{DType, Tensor};
use tonic::transport::Endpoint;

/// Node that waits for an empty queue.
fn blocked(g: &Graph) -> thalweg_graph::Output<'_> {
    let types = Attr::Types(vec![DType::F32]);
    let queue = g.op("FIFOQueueV2").attr("component_types", types.clone());
    let element = g.op("QueueDequeueV2").input(queue.output());
    element.attr("component_types", types).output()
}

#[test]
fn a_server_that_drains_refuses_sessions_and_saves_its_variables() {
    let folder = Folder::new("drain-saves");
    let place = folder.path().display().to_string();
    let mut server = ServerProcess::start(&["--drain", "1s", "--drain-checkpoint", &place]);
    let g = Graph::new();
    let w = g.variable("w", vec![1.0f32, 2.0]);
    let waits = blocked(&g);
    let session = Session::connect(&server.target, &g, ClusterOptions::default()).unwrap();
    session.step(w.initializer(), []).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.step(waits, []));
        // Time for the step to begin, which clients cannot observe.
        std::thread::sleep(Duration::from_millis(300));
        server.signal("TERM");
        std::thread::sleep(Duration::from_millis(200));
        let other = Graph::new();
        let timeouts = Timeouts::new().connect(Duration::ZERO);
        let options = ClusterOptions::default().timeouts(timeouts);
        let refused = Session::connect(&server.target, &other, options);
        let refused = refused.and_then(|s| s.step(other.constant(1.0f32), []).map(|_| ()));
        let refused = refused.unwrap_err();
        assert!(refused.message.contains("drains"), "{refused}");
        let ended = waiting.join().unwrap();
        assert!(ended.is_err());
    });
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("did not end within 1s"), "{said}");
    let saved = BundleReader::open(folder.path().join("localhost-0")).unwrap();
    assert_eq!(saved.tensor("w").unwrap(), Tensor::vector(&[1.0f32, 2.0]));
}

#[test]
fn a_failed_save_of_variables_is_a_failure_status() {
    let folder = Folder::new("drain-fails");
    let place = folder.path().join("gone");
    let shown = place.display().to_string();
    let mut server = ServerProcess::start(&["--drain-checkpoint", &shown]);
    std::fs::remove_dir(&place).unwrap();
    std::fs::write(&place, "no folder").unwrap();
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the variables are not saved"), "{said}");
}

#[test]
fn a_server_without_steps_ends_at_once_and_a_second_signal_ends_any() {
    let mut idle = ServerProcess::start(&[]);
    idle.signal("TERM");
    assert_eq!(idle.ended().0, Some(0));
    let mut server = ServerProcess::start(&["--drain", "1h"]);
    let g = Graph::new();
    let waits = blocked(&g);
    let session = Session::connect(&server.target, &g, ClusterOptions::default()).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.step(waits, []));
        std::thread::sleep(Duration::from_millis(300));
        server.signal("TERM");
        std::thread::sleep(Duration::from_millis(300));
        assert!(server.has_ended().is_none(), "it did not wait");
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(143));
        assert!(waiting.join().unwrap().is_err());
    });
}

#[test]
fn the_log_has_sessions_limits_and_the_end() {
    let flags = ["--log-format", "json", "--sessions", "1"];
    let mut server = ServerProcess::start(&flags);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let target = server.http();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(target).unwrap();
        let mut client = MasterServiceClient::new(endpoint.connect().await.unwrap());
        let made = client.create_session(CreateSessionRequest::default()).await;
        let refused = client.create_session(CreateSessionRequest::default()).await;
        assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted);
        let close = CloseSessionRequest {
            session_handle: made.unwrap().into_inner().session_handle,
        };
        client.close_session(close).await.unwrap();
    });
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let lines = said.lines().map(|l| serde_json::from_str(l).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let told = |message: &str| {
        let line = lines.iter().find(|l| l["message"] == message);
        line.unwrap_or_else(|| panic!("no '{message}' in {said}"))
    };
    let made = told("session made");
    assert_eq!(made["level"], "INFO");
    assert_eq!(made["client"], "127.0.0.1");
    assert_eq!(told("session closed")["session"], made["session"]);
    assert_eq!(told("limit met")["limit"], "sessions");
    told("draining");
    let quiet = ServerProcess::start(&["--log-level", "off"]);
    quiet.signal("TERM");
    let mut quiet = quiet;
    assert_eq!(quiet.ended(), (Some(0), String::new()));
}
