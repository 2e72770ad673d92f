//! What one connection may ask of a server at a time.

use std::time::Duration;

use thalweg_dist::{Limits, Server, ServerOptions};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_those_that_one_connection_may_have_open_wait() {
    /// What [`Limits`] of one step and one session give.
    const CALLS: usize = 72;
    let limits = Limits::new().steps(1).sessions(1);
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
