//! Sessions in a cluster that the client brings (`ConfigProto.cluster_def`), on servers that know nothing of each other.

mod client;

use client::*;
use thalweg_dist::messages::config_proto::Experimental;
use thalweg_dist::messages::*;
use thalweg_dist::{Server, ServerOptions};
use thalweg_graphdef::GraphDef;
use thalweg_tensor::Tensor;
use tonic::Code;
use tonic::transport::Channel;

const OWN: &str = "/job:worker/replica:0/task:0/device:CPU:0";
const OTHER: &str = "/job:worker/replica:0/task:1/device:CPU:0";

/// [`program`] with `x` on task 0 and all other nodes on task 1.
fn on_both_tasks() -> GraphDef {
    let mut def = program();
    for node in &mut def.node {
        let task = usize::from(node.name != "x");
        node.device = format!("/job:worker/task:{task}");
    }
    def
}

/// A session on the first of the servers, in a cluster of these addresses.
fn session(servers: &[&Server], addresses: &[String], shares: bool) -> CreateSessionRequest {
    let job = JobDef {
        name: "worker".to_owned(),
        tasks: (0..).zip(addresses.iter().cloned()).collect(),
    };
    CreateSessionRequest {
        graph_def: Some(on_both_tasks()),
        config: Some(ConfigProto {
            cluster_def: Some(ClusterDef { job: vec![job] }),
            experimental: Some(Experimental {
                share_session_state_in_clusterspec_propagation: shares,
            }),
            ..ConfigProto::default()
        }),
        target: format!("grpc://{}", servers[0].address()),
    }
}

/// Runs a test against two servers that are each a cluster of their own.
fn with_servers<F: Future<Output = ()>>(test: impl FnOnce(Client, [String; 2], [Server; 2]) -> F) {
    let start = || Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let servers = [start(), start()];
    let addresses = [0, 1].map(|i: usize| servers[i].address().to_string());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Channel::from_shared(format!("http://{}", addresses[0])).unwrap();
        let client = Client::new(endpoint.connect().await.unwrap());
        test(client, addresses, servers).await;
    });
}

#[test]
fn a_session_runs_on_the_tasks_of_the_clients_cluster() {
    with_servers(|mut client, addresses, servers| async move {
        let servers = [&servers[0], &servers[1]];
        let request = session(&servers, &addresses, false);
        let created = client.create_session(request.clone()).await.unwrap();
        let handle = created.into_inner().session_handle;
        // A value of one task is used by the other.
        let fed = [("x:0", Tensor::vector(&[2.0f32, 3.0]))];
        let mut traced = step(&handle, &fed, &["y:0"], &[]);
        traced.options = Some(RunOptions {
            trace_level: 3,
            ..RunOptions::default()
        });
        let response = client.run_step(traced).await.unwrap().into_inner();
        let stats = response.metadata.unwrap().step_stats.unwrap();
        let devices: Vec<&str> = stats.dev_stats.iter().map(|d| &*d.device).collect();
        assert!(devices.contains(&OTHER), "{devices:?}");
        assert!(
            devices.iter().all(|d| d.starts_with("/job:worker/")),
            "{devices:?}"
        );

        // Its variables are its own.
        let run_of = |handle: &str, target: &str| step(handle, &[], &[], &[target]);
        run(&mut client, run_of(&handle, "init")).await.unwrap();
        run(&mut client, run_of(&handle, "add")).await.unwrap();
        let other = client.create_session(request).await.unwrap();
        let other = other.into_inner().session_handle;
        let failed = run(&mut client, run_of(&other, "add")).await;
        assert_eq!(failed.unwrap_err().code(), Code::FailedPrecondition);

        let listed = ListDevicesRequest {
            session_handle: handle,
        };
        let listed = client.list_devices(listed).await.unwrap().into_inner();
        let name = |d: &DeviceAttributes| d.name.clone();
        let own: Vec<String> = listed.local_device.iter().map(name).collect();
        let others: Vec<String> = listed.remote_device.iter().map(name).collect();
        assert_eq!(
            (own, others),
            (vec![OWN.to_owned()], vec![OTHER.to_owned()])
        );
    });
}

#[test]
fn sessions_of_a_cluster_may_share_their_variables() {
    with_servers(|mut client, addresses, servers| async move {
        let servers = [&servers[0], &servers[1]];
        let mut handles = Vec::new();
        for _ in 0..2 {
            let request = session(&servers, &addresses, true);
            let created = client.create_session(request).await.unwrap();
            handles.push(created.into_inner().session_handle);
        }
        for (handle, target) in [(&handles[0], "init"), (&handles[1], "add")] {
            let request = step(handle, &[], &[], &[target]);
            run(&mut client, request).await.unwrap();
        }
    });
}

#[test]
fn a_client_leads_no_server_to_other_machines() {
    with_servers(|mut client, addresses, servers| async move {
        let servers = [&servers[0], &servers[1]];
        let addresses = [addresses[0].clone(), "10.0.0.1:2222".to_owned()];
        let request = session(&servers, &addresses, false);
        let refused = client.create_session(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(
            refused.message().contains("neither on this machine"),
            "{refused}"
        );
    });
}
