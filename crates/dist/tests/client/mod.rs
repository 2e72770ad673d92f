//! A server of a test's own, and a client of its `tensorflow.MasterService` that is not TensorFlow's.

#![allow(dead_code, reason = "each of the tests uses a part")]

pub mod numbers;

use std::time::Duration;

use thalweg_dist::messages::master_service_client::MasterServiceClient;
use thalweg_dist::messages::*;
use thalweg_dist::{Server, ServerOptions};
use thalweg_graph::{Attr, Graph};
use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
use thalweg_graphdef::{ExportOptions, GraphDef, export};
use thalweg_ops::{MathOps, NewGraph, SourceOps};
use thalweg_tensor::{DType, Shape, Tensor};
use tonic::transport::Channel;
use tonic::{Code, Status};

pub type Client = MasterServiceClient<Channel>;

/// Runs a test against a server of its own.
pub fn with_server<F: Future<Output = ()>>(
    change: impl FnOnce(&mut ServerOptions),
    test: impl FnOnce(Client) -> F,
) {
    let mut options = ServerOptions::listening("127.0.0.1:0");
    change(&mut options);
    let server = Server::start(options).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let address = format!("http://{}", server.address());
        let endpoint = Channel::from_shared(address).unwrap();
        let client = Client::new(endpoint.connect().await.unwrap());
        let limited = tokio::time::timeout(Duration::from_secs(60), test(client));
        limited.await.expect("the test waits for something");
    });
    server.shutdown();
    server.join().unwrap();
}

pub fn graph_def(g: &Graph) -> GraphDef {
    export(g, &ExportOptions::default()).unwrap()
}

pub async fn created(client: &mut Client, def: GraphDef) -> Result<String, Status> {
    let request = CreateSessionRequest {
        graph_def: Some(def),
        ..CreateSessionRequest::default()
    };
    let response = client.create_session(request).await?;
    Ok(response.into_inner().session_handle)
}

pub fn step(
    handle: &str,
    feeds: &[(&str, Tensor)],
    fetch: &[&str],
    target: &[&str],
) -> RunStepRequest {
    let feed = feeds.iter().map(|(name, value)| NamedTensorProto {
        name: (*name).to_owned(),
        tensor: Some(to_proto(value).unwrap()),
    });
    let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    RunStepRequest {
        session_handle: handle.to_owned(),
        feed: feed.collect(),
        fetch: owned(fetch),
        target: owned(target),
        ..RunStepRequest::default()
    }
}

pub async fn run(client: &mut Client, request: RunStepRequest) -> Result<Vec<Tensor>, Status> {
    let response = client.run_step(request).await?.into_inner();
    let value = |t: NamedTensorProto| {
        let budget = &mut Budget::new(1 << 20);
        from_proto(&t.tensor.unwrap_or_default(), budget).unwrap()
    };
    Ok(response.tensor.into_iter().map(value).collect())
}

/// `y = x * x + 1`; `count`, which `init` sets to 0 and `add` adds one to; `element`, which waits for
/// a queue that nobody fills.
pub fn program() -> GraphDef {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let _ = (x.square() + 1.0).named("y");
    let handle = g.op("VarHandleOp").name("count").attr("dtype", DType::F32);
    let handle = handle
        .attr("shape", Shape::scalar())
        .attr("shared_name", "count");
    let handle = handle.output();
    let update = |op: &str, name: &str, value: f32| {
        let node = g.op(op).name(name).input(handle);
        node.input(g.constant(value)).build();
    };
    update("AssignVariableOp", "init", 0.0);
    update("AssignAddVariableOp", "add", 1.0);
    g.op("ReadVariableOp")
        .name("read")
        .input(handle)
        .attr("dtype", DType::F32)
        .build();
    let types = Attr::Types(vec![DType::F32]);
    let queue = g
        .op("FIFOQueueV2")
        .attr("component_types", types.clone())
        .output();
    let element = g.op("QueueDequeueV2").name("element").input(queue);
    element.attr("component_types", types).build();
    assert_eq!(g.errors(), []);
    graph_def(&g)
}

pub fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}
