//! Tests of a server's metrics, and of the dashboard.

mod client;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use client::numbers::{found, met, value};
use client::{Client, created, graph_def, program, run, step};
use thalweg_device::Files;
use thalweg_dist::messages::*;
use thalweg_dist::{Limits, Server, ServerOptions};
use thalweg_graph::{Attr, Graph};
use thalweg_graphdef::tensor::to_proto;
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{DType, Tensor};
use tonic::transport::Channel;

fn limited(limits: Limits) -> ServerOptions {
    ServerOptions::listening("127.0.0.1:0").limits(limits)
}

fn with_metrics<F: Future<Output = ()>>(
    options: ServerOptions,
    test: impl FnOnce(std::sync::Arc<Server>, Client) -> F,
) {
    let server = std::sync::Arc::new(Server::start(options).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Channel::from_shared(format!("http://{}", server.address())).unwrap();
        let client = Client::new(endpoint.connect().await.unwrap());
        let limited = tokio::time::timeout(Duration::from_secs(60), test(server.clone(), client));
        limited.await.expect("the test waits for something");
    });
}

#[test]
fn steps_sessions_errors_and_limits_are_counted() {
    let small = Limits {
        sessions: 1,
        ..Limits::default()
    };
    with_metrics(limited(small), |server, mut client| async move {
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
        assert_eq!((met(&text, "sessions"), met(&text, "steps")), (1.0, 0.0));
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
fn a_loss_is_told_from_the_first_training_step_on() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let told = |name: &str| found(&server.metrics(), name);
    assert_eq!(
        (told("thalweg_loss"), told("thalweg_global_step")),
        (None, None)
    );
    let gauges = server.training();
    for (loss, step) in [(2.5f32, 1), (f32::INFINITY, 2)] {
        gauges.record(loss, step);
        let expected = (Some(f64::from(loss)), Some(step as f64));
        assert_eq!(
            (told("thalweg_loss"), told("thalweg_global_step")),
            expected
        );
    }
    gauges.record(f32::NAN, 3);
    assert!(value(&server.metrics(), "thalweg_loss").is_nan());
}

#[test]
fn metrics_are_served_over_http() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let at = server.serve_metrics("127.0.0.1:0").unwrap();
    let asked = |path: &str| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // A refused reader may be disconnected before it has sent its request.
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: it\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let answer = asked("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    assert!(answer.contains("thalweg_sessions 0\n"), "{answer}");
    assert!(asked("/").starts_with("HTTP/1.1 404"));
    // Seven idle readers block no other one; with eight, the next reader is not answered until one disconnects.
    let mut silent: Vec<_> = (0..7).map(|_| TcpStream::connect(at).unwrap()).collect();
    assert!(asked("/metrics").contains("# EOF"));
    // The slot of the last reader may not be free at once.
    while asked("/metrics").contains("# EOF") {
        silent.push(TcpStream::connect(at).unwrap());
    }
    silent.clear();
    while !asked("/metrics").contains("# EOF") {}
    assert!(server.serve_metrics("nowhere.invalid:1").is_err());
    server.shutdown();
}

#[test]
fn refused_connections_and_expansions_are_counted() {
    let few = Limits {
        connections: 2,
        expanded_bytes: 1 << 10,
        ..Limits::default()
    };
    with_metrics(limited(few), |server, mut client| async move {
        let handle = created(&mut client, program()).await.unwrap();
        let mut large = step(&handle, &[], &["y:0"], &[]);
        // A message of a few bytes that expands to four KiB.
        let mut one = to_proto(&Tensor::vector(&[1.0f32])).unwrap();
        one.tensor_shape.as_mut().unwrap().dim[0].size = 1 << 10;
        one.tensor_content.clear();
        large.feed.push(NamedTensorProto {
            name: "x:0".to_owned(),
            tensor: Some(one),
        });
        run(&mut client, large).await.unwrap_err();
        assert_eq!(met(&server.metrics(), "expanded_bytes"), 1.0);
        // Each but the first evicts the previous one.
        let connect = |_| TcpStream::connect(server.address()).unwrap();
        let guests: Vec<_> = (0..5).map(connect).collect();
        let began = std::time::Instant::now();
        while met(&server.metrics(), "connections") < 4.0 {
            assert!(began.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(guests);
    });
}

#[test]
fn checkpoints_that_steps_write_are_counted() {
    let folder = std::env::temp_dir().join(format!("thalweg-counts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let allowed = Files::within([&folder]).unwrap();
    let options = limited(Limits::default()).files(allowed);
    let place = folder.clone();
    with_metrics(options, |server, mut client| async move {
        let saving = |to: &Path| {
            let g = Graph::new();
            let text = |text: &str| g.constant(Tensor::strings(&[1], &[text]).unwrap());
            let types = Attr::Types(vec![DType::F32]);
            let prefix = g.constant(to.to_str().unwrap());
            let node = g.op("SaveV2").name("save").attr("dtypes", types);
            let node = node.inputs([prefix, text("w"), text(""), g.constant(1.0f32)]);
            node.build();
            assert_eq!(g.errors(), []);
            graph_def(&g)
        };
        for (to, well) in [
            (place.join("model"), true),
            (Path::new("/no").into(), false),
        ] {
            let handle = created(&mut client, saving(&to)).await.unwrap();
            let done = run(&mut client, step(&handle, &[], &[], &["save"])).await;
            assert_eq!(done.is_ok(), well, "{done:?}");
        }
        let text = server.metrics();
        assert_eq!(value(&text, "thalweg_checkpoint_seconds_count"), 1.0);
        assert_eq!(value(&text, "thalweg_checkpoints_failed_total"), 1.0);
    });
    std::fs::remove_dir_all(folder).unwrap();
}

/// Returns the names of all metrics of a server, as Prometheus has them.
fn names() -> BTreeSet<String> {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let text = server.metrics();
    let kinds = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let named = kinds.filter_map(|l| l.split_once(' '));
    let named = named.flat_map(|(base, kind)| match kind {
        "counter" => vec![format!("{base}_total")],
        "histogram" => ["_bucket", "_sum", "_count"]
            .map(|end| format!("{base}{end}"))
            .to_vec(),
        _ => vec![base.to_owned()],
    });
    named.collect()
}

/// Returns the names of metrics in a text.
fn named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|w| w.starts_with("thalweg_"));
    words.map(str::to_owned).collect()
}

fn doc(file: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(file)).unwrap()
}

#[test]
fn the_dashboard_shows_every_metric() {
    let board: serde_json::Value = serde_json::from_str(&doc("grafana.json")).unwrap();
    let mut shown = BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let asked = named_in(target["expr"].as_str().unwrap());
            assert!(!asked.is_empty(), "{target}");
            shown.extend(asked);
        }
    }
    assert_eq!(shown, names());
}

#[test]
fn the_book_documents_every_metric() {
    let book = doc("book/operations.md");
    let table = book.split("## Metrics").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|l| l.starts_with("| `"));
    let said = rows.flat_map(|l| named_in(l.split('|').nth(1).unwrap()));
    // The book has the base name of a histogram.
    let whole = |name: String| {
        let parts = ["_seconds_bucket", "_seconds_sum", "_seconds_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part));
        base.map_or(name.clone(), |base| format!("{base}_seconds"))
    };
    let known: BTreeSet<String> = names().into_iter().map(whole).collect();
    assert_eq!(said.collect::<BTreeSet<_>>(), known);
}

#[test]
fn a_session_of_a_client_that_is_gone_is_collected_after_its_lease() {
    let short = Limits {
        lease: Duration::from_millis(100),
        ..Limits::default()
    };
    with_metrics(limited(short), |server, mut client| async move {
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
        // The session with an open connection outlives any lease.
        tokio::time::sleep(Duration::from_millis(300)).await;
        run(&mut client, step(&kept, &[], &[], &["init"]))
            .await
            .unwrap();
    });
}
