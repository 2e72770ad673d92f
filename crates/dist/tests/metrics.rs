//! The numbers that a server counts, and the dashboard that shows them.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use client::{Client, created, program, run, step};
use thalweg_dist::messages::*;
use thalweg_dist::{Server, ServerOptions};
use thalweg_tensor::Tensor;
use tonic::transport::Channel;

fn with_metrics<F: Future<Output = ()>>(
    change: impl FnOnce(&mut ServerOptions),
    test: impl FnOnce(std::sync::Arc<Server>, Client) -> F,
) {
    let mut options = ServerOptions::listening("127.0.0.1:0");
    change(&mut options);
    let server = std::sync::Arc::new(Server::start(options).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Channel::from_shared(format!("http://{}", server.address())).unwrap();
        let client = Client::new(endpoint.connect().await.unwrap());
        let limited = tokio::time::timeout(Duration::from_secs(60), test(server.clone(), client));
        limited.await.expect("the test waits for something");
    });
}

/// The value on the line that begins so.
fn value(text: &str, begin: &str) -> f64 {
    let line = text
        .lines()
        .find(|l| l.strip_prefix(begin).is_some_and(|r| r.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {begin} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn steps_sessions_errors_and_limits_are_counted() {
    let small = |options: &mut ServerOptions| options.limits.sessions = 1;
    with_metrics(small, |server, mut client| async move {
        let handle = created(&mut client, program()).await.unwrap();
        let x = || Tensor::vector(&[2.0f32]);
        for _ in 0..3 {
            run(&mut client, step(&handle, &[("x:0", x())], &["y:0"], &[]))
                .await
                .unwrap();
        }
        run(&mut client, step(&handle, &[], &["y:0"], &[]))
            .await
            .unwrap_err();
        created(&mut client, program()).await.unwrap_err();
        let text = server.metrics();
        assert_eq!(value(&text, "thalweg_step_seconds_count"), 3.0);
        assert!(value(&text, "thalweg_step_seconds_sum") > 0.0);
        assert_eq!(
            value(
                &text,
                "thalweg_steps_failed_total{code=\"invalid_argument\"}"
            ),
            1.0
        );
        assert_eq!(
            value(&text, "thalweg_limits_met_total{limit=\"sessions\"}"),
            1.0
        );
        assert_eq!(value(&text, "thalweg_sessions"), 1.0);
        assert_eq!(value(&text, "thalweg_sessions_made_total"), 1.0);
        assert!(value(&text, "thalweg_graph_bytes") > 0.0);
        assert_eq!(value(&text, "thalweg_call_bytes"), 0.0);
        let device = "{device=\"/job:localhost/replica:0/task:0/device:CPU:0\"}";
        let limit = value(&text, &format!("thalweg_memory_limit_bytes{device}"));
        assert!(limit > value(&text, &format!("thalweg_memory_bytes{device}")));
        let close = CloseSessionRequest {
            session_handle: handle,
        };
        client.close_session(close).await.unwrap();
        let text = server.metrics();
        assert_eq!(value(&text, "thalweg_sessions"), 0.0);
        assert_eq!(value(&text, "thalweg_sessions_closed_total"), 1.0);
        assert_eq!(value(&text, "thalweg_graph_bytes"), 0.0);
        assert!(text.ends_with("# EOF\n"));
    });
}

#[test]
fn numbers_are_read_over_http() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let at = server.serve_metrics("127.0.0.1:0").unwrap();
    let asked = |path: &str| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: it\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = asked("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    assert!(answer.contains("thalweg_sessions 0\n"), "{answer}");
    assert!(asked("/").starts_with("HTTP/1.1 404"));
    // Who says nothing does not keep others out.
    let silent: Vec<_> = (0..4).map(|_| TcpStream::connect(at).unwrap()).collect();
    assert!(asked("/metrics").contains("# EOF"));
    drop(silent);
    assert!(server.serve_metrics("nowhere.invalid:1").is_err());
    server.shutdown();
}

#[test]
fn the_dashboard_asks_for_numbers_that_there_are() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let text = server.metrics();
    let kinds = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let kinds: Vec<(&str, &str)> = kinds.filter_map(|l| l.split_once(' ')).collect();
    let known = |name: &str| {
        kinds.iter().any(|(base, kind)| match *kind {
            "counter" => name.strip_suffix("_total") == Some(base),
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| name.strip_suffix(end) == Some(base)),
            _ => name == *base,
        })
    };
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana.json");
    let board: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut asked = std::collections::BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<_> = words.filter(|w| w.starts_with("thalweg_")).collect();
            assert!(!names.is_empty(), "{query}");
            for name in names {
                assert!(
                    known(name),
                    "the dashboard asks for {name}, which there is not"
                );
                asked.insert(name.to_owned());
            }
        }
    }
    // Every number is shown.
    for (base, _) in kinds {
        let shown = asked.iter().any(|name| name.starts_with(base));
        assert!(shown, "the dashboard does not show {base}");
    }
}

#[test]
fn a_session_of_a_client_that_is_gone_is_collected_after_its_lease() {
    let short = |options: &mut ServerOptions| options.limits.lease = Duration::from_millis(100);
    with_metrics(short, |server, mut client| async move {
        let endpoint = Channel::from_shared(format!("http://{}", server.address())).unwrap();
        let mut other = Client::new(endpoint.connect().await.unwrap());
        let left = created(&mut other, program()).await.unwrap();
        let kept = created(&mut client, program()).await.unwrap();
        drop(other);
        let began = std::time::Instant::now();
        while value(&server.metrics(), "thalweg_sessions") > 1.0 {
            assert!(began.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let text = server.metrics();
        assert_eq!(value(&text, "thalweg_sessions_collected_total"), 1.0);
        let gone = run(&mut client, step(&left, &[], &["read:0"], &[]))
            .await
            .unwrap_err();
        assert_eq!(gone.code(), tonic::Code::Aborted);
        assert!(gone.message().contains("--lease"), "{gone}");
        // The one whose connection is open outlives any lease.
        tokio::time::sleep(Duration::from_millis(300)).await;
        run(&mut client, step(&kept, &[], &[], &["init"]))
            .await
            .unwrap();
    });
}
