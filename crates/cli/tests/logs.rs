//! Log and metrics of a server: slow steps, refused callers, lost tasks.

#![cfg(unix)]

#[path = "../../../tests/support/addresses.rs"]
mod addresses;
mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;
use support::server_process::ServerProcess;
use support::{Folder, works};
use thalweg_dist::messages::master_service_client::MasterServiceClient;
use thalweg_dist::messages::{CreateSessionRequest, RunStepRequest};
use thalweg_graph::{DeviceSpec, Graph};
use thalweg_graphdef::{ExportOptions, GraphDef, export};
use thalweg_ops::{ArrayOps, LinalgOps, NewGraph, SourceOps, StateOps};
use tonic::transport::{Channel, Endpoint};
use wait::until;

type Client = MasterServiceClient<Channel>;

fn exported(g: &Graph) -> GraphDef {
    assert_eq!(g.errors(), []);
    export(g, &ExportOptions::default()).unwrap()
}

/// Creates a session of this graph, for [`run`].
async fn session(server: &ServerProcess, graph: GraphDef) -> (Client, String) {
    let endpoint = Endpoint::from_shared(server.http()).unwrap();
    let mut client = MasterServiceClient::new(endpoint.connect().await.unwrap());
    let request = CreateSessionRequest {
        graph_def: Some(graph),
        ..CreateSessionRequest::default()
    };
    let made = client.create_session(request).await.unwrap();
    (client, made.into_inner().session_handle)
}

async fn run((client, handle): &mut (Client, String), target: &str) {
    let request = RunStepRequest {
        session_handle: handle.clone(),
        target: vec![target.to_owned()],
        ..RunStepRequest::default()
    };
    client.run_step(request).await.unwrap();
}

/// Ends a server, and returns the lines of its log with this message.
fn log_lines(server: &mut ServerProcess, message: &str) -> Vec<Value> {
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let lines = said.lines().filter_map(|l| serde_json::from_str(l).ok());
    lines.filter(|l: &Value| l["message"] == message).collect()
}

/// Metrics at this address, by names and labels.
fn numbers(at: &str) -> BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: it\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|l| l.starts_with("thalweg_"));
    let split = lines.filter_map(|l| l.rsplit_once(' '));
    split
        .map(|(name, n)| (name.to_owned(), n.parse().unwrap()))
        .collect()
}

#[test]
fn the_second_slow_step_names_the_node_that_took_longest() {
    let flags = ["--slow-step", "1ms", "--log-format", "json"];
    let mut server = ServerProcess::start(&flags);
    let g = Graph::new();
    let w = g
        .constant(vec![1.0f32; 1 << 20])
        .reshape([1 << 10, 1 << 10]);
    let _ = w.matmul(w).named("product");
    let graph = exported(&g);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut session = session(&server, graph).await;
        for _ in 0..3 {
            run(&mut session, "product").await;
        }
    });
    let slow = log_lines(&mut server, "slow step");
    assert_eq!(slow.len(), 3, "{slow:?}");
    assert!(slow[0]["longest_node"].is_null(), "{slow:?}");
    for step in &slow[1..] {
        assert_eq!(step["longest_node"], "product", "{slow:?}");
        let (node, all) = (&step["longest_seconds"], &step["seconds"]);
        assert!(node.as_f64() <= all.as_f64(), "{slow:?}");
        let device = step["longest_device"].as_str().unwrap();
        assert!(device.ends_with("/device:CPU:0"), "{slow:?}");
    }
}

/// A terminal that is stopped, or a program that ships the log and hangs, reads nothing.
#[test]
fn a_server_whose_standard_error_nobody_reads_works_and_ends() {
    let mut server = ServerProcess::start(&["--listen", "127.0.0.1:0"]);
    let g = Graph::new();
    let long = g.constant(&*"x".repeat(200_000));
    g.op("PrintV2").input(long).name("print").build();
    let graph = exported(&g);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut printing = session(&server, graph.clone()).await;
        run(&mut printing, "print").await;
        // The lines of these sessions are more than a pipe takes (64 KiB).
        for _ in 0..500 {
            session(&server, graph.clone()).await;
        }
        run(&mut printing, "print").await;
    });
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    // The last lines of the log had no place in the pipe.
    assert!(!said.contains("drained"), "{said}");
}

#[test]
fn many_refused_callers_write_few_lines_to_the_log() {
    /// Number of callers.
    const MANY: u64 = 200;
    let folder = Folder::new("logs-refused");
    let keys = folder.at("keys");
    works(&["protect", &keys, "127.0.0.1"]);
    let metrics = addresses::free_addresses(1).remove(0);
    let mut server = ServerProcess::start(&[
        "--protection",
        &keys,
        "--metrics",
        &metrics,
        "--log-format",
        "json",
    ]);
    let began = Instant::now();
    for _ in 0..MANY {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // No TLS at all. The server may have closed the connection by now.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
        let _ = stream.read(&mut [0; 100]);
    }
    let refused = r#"thalweg_callers_refused_total{cause="certificate"}"#;
    until("they are not counted", || {
        numbers(&metrics)[refused] == MANY as f64
    });
    let lines = log_lines(&mut server, "caller refused");
    let seconds = began.elapsed().as_secs() + 1;
    assert!(
        !lines.is_empty() && lines.len() as u64 <= seconds + 1,
        "{lines:?}"
    );
    assert_eq!(lines[0]["cause"], "certificate");
    assert!(
        lines[0]["address"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    let untold = lines.iter().map(|l| l["untold"].as_u64().unwrap());
    assert!(untold.sum::<u64>() + lines.len() as u64 <= MANY);
}

/// Flags of a task of a cluster with metrics at `metrics`.
fn task<'a>(hosts: &'a [String], job: &'a str, metrics: &'a str) -> Vec<&'a str> {
    let hosts = ["--ps-hosts", &hosts[0], "--worker-hosts", &hosts[1]];
    let own = ["--job", job, "--metrics", metrics, "--silence", "500ms"];
    [&hosts[..], &own, &["--log-format", "json"]].concat()
}

#[test]
fn a_killed_worker_is_lost_at_the_server_until_it_is_back() {
    let hosts = addresses::free_addresses(3);
    let metrics = hosts[2].clone();
    let mut ps = ServerProcess::start(&task(&hosts, "ps", &metrics));
    let g = Graph::new();
    let on: DeviceSpec = "/job:ps/task:0".parse().unwrap();
    let w = g.device(on, || g.variable("w", vec![1.0f32; 1 << 10]));
    let init = w.initializer().name();
    let graph = exported(&g);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let numbers = || numbers(&metrics);
    let steps = |worker: &ServerProcess| {
        let graph = graph.clone();
        runtime.block_on(async {
            let mut session = session(worker, graph).await;
            run(&mut session, &init).await;
            session
        })
    };

    let mut worker = ServerProcess::start(&task(&hosts, "worker", "127.0.0.1:0"));
    let _session = steps(&worker);
    assert_eq!(numbers()["thalweg_peers_lost"], 0.0);
    let received = r#"thalweg_link_received_bytes_total{peer="/job:worker/task:0"}"#;
    assert!(numbers()[received] > 0.0);
    worker.signal("KILL");
    until("the worker is not lost", || {
        numbers()["thalweg_peers_lost"] == 1.0
    });
    assert!(worker.has_ended().is_some() || worker.ended().0.is_none());

    let worker = ServerProcess::start(&task(&hosts, "worker", "127.0.0.1:0"));
    let _session = steps(&worker);
    let now = numbers();
    assert_eq!(now["thalweg_peers_lost"], 0.0);
    let losses = r#"thalweg_peer_losses_total{peer="/job:worker/task:0"}"#;
    assert_eq!(now[losses], 1.0);
    // The worker stays until the server has ended: a worker that leaves counts as lost once more.
    let lost = log_lines(&mut ps, "peer lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["peer"], "/job:worker/task:0");
    drop(worker);
}
