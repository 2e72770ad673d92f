//! A server and a client that calls it as TensorFlow's client does.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use std::time::Duration;

use prost::Message;
use thalweg_dist::messages::master_service_client::MasterServiceClient;
use thalweg_dist::messages::*;
use thalweg_dist::{Code, Limits, Server, ServerOptions};
use thalweg_graph::Graph;
use thalweg_graphdef::tensor::to_proto;
use thalweg_graphdef::{ExportOptions, GraphDef, export};
use thalweg_ops::{FlowOps, MathOps, NewGraph, SourceOps, StateOps};
use thalweg_session::SessionOptions;
use thalweg_tensor::{DType, Tensor};
use tokio::runtime::Runtime;
use tonic::Response;
use tonic::transport::Channel;

/// The calls of the master's service.
pub const CALLS: [&str; 10] = [
    "CreateSession",
    "RunStep",
    "ExtendSession",
    "MakeCallable",
    "RunCallable",
    "PartialRunSetup",
    "ListDevices",
    "ReleaseCallable",
    "CloseSession",
    "Reset",
];
/// Timeout of a step, in milliseconds.
const STEP_TIMEOUT_MS: i64 = 100;
/// Timeout after which the client drops a call.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// A client with a server of its own, which has low limits.
pub struct Client {
    service: MasterServiceClient<Channel>,
    /// Dropped first: this closes the connection, which the server's shutdown would wait for.
    runtime: Runtime,
    _server: Server,
    /// The server's last names that no client could guess.
    session: String,
    partial: String,
    callable: i64,
    /// Request counter: no request id comes twice.
    requests: i64,
}

impl Default for Client {
    fn default() -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime without threads is made");
        let server = Server::start(low_limits()).expect("a port is free");
        let connected = async {
            let address = format!("http://{}", server.address());
            let endpoint = Channel::from_shared(address).expect("an address is a part of one");
            endpoint.connect().await.expect("the server listens")
        };
        let channel = runtime.block_on(connected);
        let mut client = Client {
            service: MasterServiceClient::new(channel),
            runtime,
            _server: server,
            session: String::new(),
            partial: String::new(),
            callable: 0,
            requests: 0,
        };
        client.call("CreateSession", &message("CreateSession"));
        client
    }
}

/// Options with low limits.
fn low_limits() -> ServerOptions {
    let session = SessionOptions::new()
        .threads(1)
        .default_memory_limit(1 << 20);
    let limits = Limits {
        value_bytes: 1 << 20,
        flight_bytes: 4 << 20,
        expanded_bytes: 1 << 20,
        graph_nodes: 1 << 12,
        sessions: 4,
        callables: 4,
        ..Limits::default()
    };
    ServerOptions::listening("127.0.0.1:0")
        .session(session)
        .limits(limits)
}

impl Client {
    /// Closes the session with all its state, and creates another one.
    pub fn reopen(&mut self) {
        self.call("CloseSession", &[]);
        self.call("Reset", &[]);
        self.call("CreateSession", &message("CreateSession"));
    }

    /// Calls `name` with these bytes as its message, with the server's names put in. Returns the error's code; `None`
    /// where the bytes are no message.
    pub fn call(&mut self, name: &str, bytes: &[u8]) -> Option<Code> {
        let mut service = self.service.clone();
        self.requests += 1;
        let (session, request) = (self.session.clone(), self.requests);
        // A call: the type of its message, the fields to fill in, the method, and the names to keep from the answer.
        macro_rules! call {
            ($message:ident, $put:expr, $call:ident, $keep:expr) => {{
                let mut message = $message::decode(bytes).ok()?;
                let put: &dyn Fn(&Client, &mut $message) = &$put;
                put(self, &mut message);
                let answer = self.wait_for_answer(service.$call(message));
                self.keep_names(answer, $keep)
            }};
        }
        Some(match name {
            "CreateSession" => call!(CreateSessionRequest, |_, _| {}, create_session, |c, a| c
                .session =
                a.session_handle),
            "ExtendSession" => call!(
                ExtendSessionRequest,
                |_, m| m.session_handle = session.clone(),
                extend_session,
                |_, _| {}
            ),
            "RunStep" => call!(
                RunStepRequest,
                |c, m| {
                    m.session_handle = session.clone();
                    m.request_id = request;
                    if !m.partial_run_handle.is_empty() {
                        m.partial_run_handle = c.partial.clone();
                    }
                    limit(m.options.get_or_insert_default());
                },
                run_step,
                |_, _| {}
            ),
            "PartialRunSetup" => call!(
                PartialRunSetupRequest,
                |_, m| (m.session_handle, m.request_id) = (session.clone(), request),
                partial_run_setup,
                |c, a| c.partial = a.partial_run_handle
            ),
            "MakeCallable" => call!(
                MakeCallableRequest,
                |_, m| {
                    (m.session_handle, m.request_id) = (session.clone(), request);
                    let options = m.options.get_or_insert_default();
                    limit(options.run_options.get_or_insert_default());
                },
                make_callable,
                |c, a| c.callable = a.handle
            ),
            "RunCallable" => call!(
                RunCallableRequest,
                |c, m| {
                    (m.session_handle, m.request_id) = (session.clone(), request);
                    m.handle = c.callable;
                },
                run_callable,
                |_, _| {}
            ),
            "ReleaseCallable" => call!(
                ReleaseCallableRequest,
                |c, m| (m.session_handle, m.handle) = (session.clone(), c.callable),
                release_callable,
                |_, _| {}
            ),
            "ListDevices" => call!(
                ListDevicesRequest,
                |_, m| m.session_handle = session.clone(),
                list_devices,
                |_, _| {}
            ),
            "Reset" => call!(ResetRequest, |_, _| {}, reset, |_, _| {}),
            _ => call!(
                CloseSessionRequest,
                |_, m| m.session_handle = session.clone(),
                close_session,
                |_, _| {}
            ),
        })
    }

    /// Keeps the server's names from an answer.
    fn keep_names<T>(
        &mut self,
        answer: Result<Response<T>, tonic::Status>,
        keep: impl FnOnce(&mut Client, T),
    ) -> Code {
        match answer {
            Ok(answer) => keep(self, answer.into_inner()),
            Err(status) => return status.code(),
        }
        Code::Ok
    }

    /// Waits for an answer until the client's timeout.
    fn wait_for_answer<T>(
        &self,
        answer: impl Future<Output = Result<Response<T>, tonic::Status>>,
    ) -> Result<Response<T>, tonic::Status> {
        let wait_for_answer = async { tokio::time::timeout(CLIENT_TIMEOUT, answer).await };
        let gone = |_| Err(tonic::Status::cancelled("the client has gone"));
        self.runtime.block_on(wait_for_answer).unwrap_or_else(gone)
    }
}

fn limit(options: &mut RunOptions) {
    options.timeout_in_ms = STEP_TIMEOUT_MS;
}

/// A valid message of a call.
pub fn message(name: &str) -> Vec<u8> {
    static MESSAGES: OnceLock<HashMap<&str, Vec<u8>>> = OnceLock::new();
    let made = MESSAGES.get_or_init(|| CALLS.map(|name| (name, make(name))).into());
    made.get(name).cloned().unwrap_or_default()
}

/// A graph with feeds, a variable, a queue and a loop.
fn graph() -> GraphDef {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let w = g.variable("w", 2.0f32);
    let looped = g.while_loop(
        &[g.constant(0i32)],
        |b, v| v[0].less(b.constant(3i32)),
        |b, v| vec![v[0] + b.constant(1i32)],
    );
    let _ = (
        (x * 2.0).named("product"),
        looped[0] + looped[0],
        w.value() * 2.0,
    );
    let _ = g
        .op("FIFOQueueV2")
        .attr("component_types", vec![DType::F32])
        .output();
    export(&g, &ExportOptions::default()).expect("the graph fits a file")
}

fn make(name: &str) -> Vec<u8> {
    let x = to_proto(&Tensor::vector(&[1.0f32, 2.0])).ok();
    let feed = |name: &str| NamedTensorProto {
        name: name.to_owned(),
        tensor: x.clone(),
    };
    let [fed, product, initial] = ["x:0", "product:0", "w/Assign"].map(str::to_owned);
    match name {
        "CreateSession" => CreateSessionRequest {
            graph_def: Some(graph()),
            ..CreateSessionRequest::default()
        }
        .encode_to_vec(),
        "ExtendSession" => {
            let mut def = graph();
            def.node.iter_mut().for_each(|n| {
                n.name.insert(0, 'a');
                let names = n.input.iter_mut();
                names.for_each(|i| i.insert(usize::from(i.starts_with('^')), 'a'));
            });
            ExtendSessionRequest {
                graph_def: Some(def),
                ..ExtendSessionRequest::default()
            }
            .encode_to_vec()
        }
        "RunStep" => RunStepRequest {
            feed: vec![feed(&fed)],
            fetch: vec![product],
            target: vec![initial],
            ..RunStepRequest::default()
        }
        .encode_to_vec(),
        "PartialRunSetup" => PartialRunSetupRequest {
            feed: vec![fed],
            fetch: vec![product],
            ..PartialRunSetupRequest::default()
        }
        .encode_to_vec(),
        "MakeCallable" => MakeCallableRequest {
            options: Some(CallableOptions {
                feed: vec![fed],
                fetch: vec![product],
                feed_devices: BTreeMap::new(),
                ..CallableOptions::default()
            }),
            ..MakeCallableRequest::default()
        }
        .encode_to_vec(),
        "RunCallable" => RunCallableRequest {
            feed: x.into_iter().collect(),
            ..RunCallableRequest::default()
        }
        .encode_to_vec(),
        "Reset" => ResetRequest {
            container: vec!["c".to_owned()],
            ..ResetRequest::default()
        }
        .encode_to_vec(),
        // The other messages consist of the server's names only.
        _ => Vec::new(),
    }
}
