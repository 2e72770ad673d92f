//! Replays recorded calls of TensorFlow's client: the responses have to match the recorded ones. `UPDATE_RECORDED=1`
//! records them again, with TensorFlow.

mod calls;
mod tensorflow;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use calls::{Call, Recorder, called, load, save};
use prost::Message;
use tensorflow::{alone, cluster, run};
use thalweg_dist::messages::*;
use thalweg_dist::{Code, Server};
use thalweg_graphdef::messages::{RunMetadata, TensorProto};
use thalweg_graphdef::tensor::{Budget, from_proto};
use thalweg_tensor::Tensor;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// Programs on one task. Not recorded: programs that wait on several threads, and those of many megabytes.
const ALONE: [&str; 9] = [
    "linear_regression",
    "deep_mnist",
    "loops_and_functions",
    "a_graph_that_grows",
    "variables_are_shared",
    "errors_are_those_of_tensorflow",
    "callables_and_traces",
    "partial_runs",
    "devices",
];
/// Programs on a worker and its parameter server.
const CLUSTER: [&str; 2] = ["a_parameter_server", "pieces_over_tasks"];
/// Maximum number of recorded steps of a case, and of a case with large steps: training has many.
const STEPS: usize = 40;
const LARGE: (&str, usize) = ("deep_mnist", 6);

fn connected(runtime: &Runtime, server: &Server) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", server.address())).unwrap();
    let endpoint = endpoint.http2_max_header_list_size(1 << 20);
    runtime.block_on(endpoint.connect()).unwrap()
}

/// Runs a case through a recording proxy.
fn record(case: &str, server: &Server) {
    let runtime = Runtime::new().unwrap();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder {
        server: connected(&runtime, server),
        calls: calls.clone(),
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let server = tonic::transport::Server::builder().add_service(recorder);
        server.serve_with_incoming(incoming).await.unwrap();
    });
    assert!(run(&format!("grpc://{address}"), &[case]));
    let mut left = match LARGE {
        (name, steps) if name == case => steps,
        _ => STEPS,
    };
    let mut kept = calls.lock().unwrap().clone();
    kept.retain(|call| {
        let is_step = call.path.ends_with("/RunStep");
        let keep = !is_step || left > 0;
        left -= usize::from(is_step && keep);
        keep
    });
    save(case, &kept);
}

/// Replays a case, and compares the responses.
fn replay(case: &str, server: &Server) {
    let runtime = Runtime::new().unwrap();
    let mut channel = connected(&runtime, server);
    // Recorded and current handles of sessions.
    let mut handles: HashMap<String, String> = HashMap::new();
    let calls = load(case);
    assert!(!calls.is_empty(), "{case}");
    for (number, was) in calls.iter().enumerate() {
        let request = renamed(&was.request, &handles);
        let is = runtime.block_on(called(&mut channel, &was.path, request));
        let expected = Call {
            message: String::from_utf8_lossy(&renamed(was.message.as_bytes(), &handles)).into(),
            response: renamed(&was.response, &handles),
            ..was.clone()
        };
        let same = compare(&expected, &is, &mut handles);
        same.unwrap_or_else(|why| panic!("{case}, call {number} ({}): {why}", was.path));
    }
}

/// Replaces the recorded handles by the current ones, which have the same length.
fn renamed(bytes: &[u8], handles: &HashMap<String, String>) -> Bytes {
    let mut bytes = bytes.to_vec();
    for (was, is) in handles {
        assert_eq!(was.len(), is.len());
        let mut at = 0;
        while let Some(found) = bytes[at..]
            .windows(was.len())
            .position(|w| w == was.as_bytes())
        {
            at += found;
            bytes[at..at + is.len()].copy_from_slice(is.as_bytes());
        }
    }
    bytes.into()
}

fn equal<T: PartialEq + std::fmt::Debug>(was: &T, is: &T) -> Result<(), String> {
    match was == is {
        true => Ok(()),
        false => Err(format!("it was {was:?} and is {is:?}")),
    }
}

fn compare(was: &Call, is: &Call, handles: &mut HashMap<String, String>) -> Result<(), String> {
    equal(&(was.code, &was.message), &(is.code, &is.message))?;
    if was.code != Code::Ok as i32 {
        return Ok(());
    }
    fn both<M: Message + Default>(was: &Call, is: &Call) -> (M, M) {
        let decoded = |call: &Call| M::decode(call.response.clone()).unwrap();
        (decoded(was), decoded(is))
    }
    match was.path.rsplit('/').next().unwrap_or_default() {
        "CreateSession" => {
            let (was, is): (CreateSessionResponse, CreateSessionResponse) = both(was, is);
            handles.insert(was.session_handle, is.session_handle);
            equal(&was.graph_version, &is.graph_version)
        }
        "RunStep" => {
            let (was, is): (RunStepResponse, RunStepResponse) = both(was, is);
            equal(&was.status_code, &is.status_code)?;
            equal(&was.status_error_message, &is.status_error_message)?;
            values(&was.tensor, &is.tensor)?;
            equal(&recorded(&was.metadata), &recorded(&is.metadata))
        }
        "RunCallable" => {
            let (was, is): (RunCallableResponse, RunCallableResponse) = both(was, is);
            equal(&was.fetch.len(), &is.fetch.len())?;
            for (was, is) in was.fetch.iter().zip(&is.fetch) {
                near(was, is)?;
            }
            equal(&recorded(&was.metadata), &recorded(&is.metadata))
        }
        "ListDevices" => {
            let (was, is): (ListDevicesResponse, ListDevicesResponse) = both(was, is);
            let names = |all: ListDevicesResponse| {
                let all = all.local_device.into_iter().chain(all.remote_device);
                all.map(|d| (d.name, d.device_type)).collect::<Vec<_>>()
            };
            equal(&names(was), &names(is))
        }
        "ExtendSession" | "PartialRunSetup" | "MakeCallable" | "ReleaseCallable"
        | "CloseSession" | "Reset" => equal(&was.response, &is.response),
        other => Err(format!("no comparison of {other}")),
    }
}

/// Returns the nodes of a trace, in the order of their names.
fn recorded(metadata: &Option<RunMetadata>) -> Vec<(String, String)> {
    let stats = metadata.iter().flat_map(|m| &m.step_stats);
    let devices = stats.flat_map(|s| &s.dev_stats);
    let nodes = devices.flat_map(|d| {
        // A node that took no time did not run by itself.
        let ran = d.node_stats.iter().filter(|n| n.all_end_rel_micros > 0);
        let names = ran.map(|n| n.node_name.clone());
        names.map(|n| (d.device.clone(), n))
    });
    let mut all: Vec<_> = nodes.collect();
    all.sort();
    all
}

fn values(was: &[NamedTensorProto], is: &[NamedTensorProto]) -> Result<(), String> {
    equal(&was.len(), &is.len())?;
    for (was, is) in was.iter().zip(is) {
        equal(&was.name, &is.name)?;
        let tensor = |t: &NamedTensorProto| t.tensor.clone().unwrap();
        near(&tensor(was), &tensor(is)).map_err(|why| format!("{}: {why}", was.name))?;
    }
    Ok(())
}

/// Sums have another order on another processor.
fn near(was: &TensorProto, is: &TensorProto) -> Result<(), String> {
    let read = |t| from_proto(t, &mut Budget::new(1 << 24)).unwrap();
    let (was, is): (Tensor, Tensor) = (read(was), read(is));
    equal(&(was.dtype(), was.dims()), &(is.dtype(), is.dims()))?;
    let (Ok(a), Ok(b)) = (was.as_slice::<f32>(), is.as_slice::<f32>()) else {
        return match was.as_strings() {
            Ok(strings) => equal(&Ok(strings), &is.as_strings()),
            Err(_) => equal(&was.bytes(), &is.bytes()),
        };
    };
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * a.abs().max(1.0);
    match a.iter().zip(b).all(close) {
        true => Ok(()),
        false => Err(format!("it was {a:?} and is {b:?}")),
    }
}

fn each(case: &str, server: &Server) {
    match std::env::var("UPDATE_RECORDED").is_ok_and(|v| v == "1") {
        true => record(case, server),
        false => replay(case, server),
    }
}

#[test]
fn recorded_clients_get_the_recorded_responses_from_a_server() {
    ALONE.iter().for_each(|case| each(case, &alone()));
}

#[test]
fn recorded_clients_get_the_recorded_responses_from_a_cluster() {
    for case in CLUSTER {
        let tasks = cluster(1, 1, None);
        each(case, &tasks[1]);
    }
}
