//! Limits of one connection: concurrent calls, and the time to read a response.

mod client;

use std::time::Duration;

use client::numbers::{met, value};
use client::{Client, created, program, step};
use http_body_util::{BodyExt, Full};
use prost::Message;
use thalweg_dist::{Limits, Server, ServerOptions, Timeouts};
use thalweg_tensor::Tensor;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_those_that_one_connection_may_have_open_wait() {
    /// Maximum number of open calls for [`Limits`] of one step and one session.
    const CALLS: usize = 72;
    let limits = Limits {
        steps: 1,
        sessions: 1,
        ..Limits::default()
    };
    let server = Server::start(ServerOptions::listening("127.0.0.1:0").limits(limits)).unwrap();
    let endpoint = Channel::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    // Calls that do not end by themselves.
    let mut open = Vec::new();
    for _ in 0..CALLS {
        let watched = client.watch(HealthCheckRequest::default()).await.unwrap();
        open.push(watched.into_inner());
    }
    let mut other = client.clone();
    let mut waits = tokio::spawn(async move { other.check(HealthCheckRequest::default()).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waits).await;
    assert!(early.is_err(), "{early:?}");
    open.pop();
    let late = tokio::time::timeout(Duration::from_secs(20), waits).await;
    late.unwrap().unwrap().unwrap();
}

/// Calls for a response of a MiB. Returns its body, unread.
async fn unread(server: &Server) -> Body {
    let endpoint = Channel::from_shared(format!("http://{}", server.address())).unwrap();
    // The client receives no more than is read.
    let endpoint = endpoint.initial_stream_window_size(65_535);
    let mut channel = endpoint.connect().await.unwrap();
    let mut client = Client::new(channel.clone());
    let handle = created(&mut client, program()).await.unwrap();
    let x = Tensor::vector(&vec![1.0f32; 1 << 18]);
    let message = step(&handle, &[("x:0", x)], &["y:0"], &[]).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let bytes = [&[0][..], &length, &message].concat();
    let path = "http://server/tensorflow.MasterService/RunStep";
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::from(bytes)))
        .unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx))
        .await
        .unwrap();
    channel.call(request).await.unwrap().into_body()
}

fn silent_for(silence: Duration) -> Server {
    let timeouts = Timeouts::new().heartbeat(silence);
    let options = ServerOptions::listening("127.0.0.1:0").timeouts(timeouts);
    Server::start(options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_loses_its_connection_and_the_server_its_memory() {
    let server = silent_for(Duration::from_secs(2));
    let held = || value(&server.metrics(), "thalweg_call_bytes");
    let body = unread(&server).await;
    let before = held();
    assert!(before > f64::from(1 << 20), "{before}");
    let waits = "thalweg_calls_waiting{for=\"receiver\"}";
    assert_eq!(value(&server.metrics(), waits), 1.0);
    let freed = async {
        while held() > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(30), freed).await;
    freed.expect("the answer is kept");
    assert_eq!(met(&server.metrics(), "silence"), 1.0);
    body.collect().await.map(|_| ()).unwrap_err();
    assert_eq!(value(&server.metrics(), waits), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_its_answer_slowly_has_all_of_it() {
    let server = silent_for(Duration::from_millis(1500));
    let mut body = unread(&server).await;
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().map_or(0, |d| d.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(bytes > 1 << 20, "{bytes}");
    assert_eq!(met(&server.metrics(), "silence"), 0.0);
}
