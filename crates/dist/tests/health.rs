//! Tests of health checking and reflection.

#[path = "../../../tests/support/addresses.rs"]
mod addresses;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::time::Duration;

use thalweg_dist::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session, Timeouts};
use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::{NewGraph, StateOps};
use thalweg_session::SessionOptions;
use tonic::Code;
use tonic::codegen::tokio_stream::{StreamExt, once};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use wait::until;

fn server(cluster: &ClusterSpec, job: &str) -> Server {
    let options = ServerOptions::listening("")
        .session(SessionOptions::new().threads(1))
        .timeouts(Timeouts::new().heartbeat(Duration::from_millis(500)));
    Server::new(cluster.clone(), job, 0, options).unwrap()
}

async fn channel(server: &Server) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", server.address()));
    endpoint.unwrap().connect().await.unwrap()
}

fn asked(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_ready_once_its_parameter_server_is_reached_and_lives_before() {
    let addresses = addresses::free_addresses(2);
    let cluster = ClusterSpec::new(["ps", "worker"].into_iter().zip(addresses.chunks(1))).unwrap();
    let worker = server(&cluster, "worker");
    let mut client = HealthClient::new(channel(&worker).await);
    let mut status = async |service: &str| {
        let answer = client.check(asked(service)).await?;
        Ok::<_, tonic::Status>(answer.into_inner().status())
    };
    const READY: &str = "tensorflow.MasterService";
    assert_eq!(status("").await.unwrap(), Serving);
    assert_eq!(status(READY).await.unwrap(), NotServing);
    assert_eq!(
        status("no.Service").await.unwrap_err().code(),
        Code::NotFound
    );
    let ps = server(&cluster, "ps");
    let mut of_ps = HealthClient::new(channel(&ps).await);
    let ready = of_ps.check(asked(READY)).await.unwrap();
    assert_eq!(ready.into_inner().status(), Serving);
    assert_eq!(status(READY).await.unwrap(), Serving);
    let mut watched = of_ps.watch(asked("")).await.unwrap().into_inner();
    let first = watched.next().await.unwrap().unwrap();
    assert_eq!(first.status(), Serving);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_ready_as_soon_as_it_knows_that_its_parameter_server_is_lost() {
    let addresses = addresses::free_addresses(2);
    let cluster = ClusterSpec::new(["ps", "worker"].into_iter().zip(addresses.chunks(1))).unwrap();
    let (ps, worker) = (server(&cluster, "ps"), server(&cluster, "worker"));
    let mut client = HealthClient::new(channel(&worker).await);
    let mut status = async || {
        let answer = client.check(asked("tensorflow.MasterService")).await;
        answer.unwrap().into_inner().status()
    };
    let g = Graph::new();
    let on: DeviceSpec = "/job:ps/task:0".parse().unwrap();
    let w = g.device(on, || g.variable("w", 1.0f32));
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    session.run(w.initializer(), []).unwrap();
    assert_eq!(status().await, Serving);
    drop(ps);
    until("the server is not lost", || {
        worker.metrics().contains("\nthalweg_peers_lost 1\n")
    });
    assert_eq!(status().await, NotServing);
    let _ps = server(&cluster, "ps");
    assert_eq!(status().await, Serving);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_find_the_services_by_reflection() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let mut client = ServerReflectionClient::new(channel(&server).await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(once(request)).await.unwrap();
    let answer = answers.into_inner().next().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(services)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = services.service.into_iter().map(|s| s.name).collect();
    for name in ["tensorflow.MasterService", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|n| n == name), "{names:?}");
    }
}
