//! A server and a client of its `tensorflow.MasterService` that is not TensorFlow's.

use std::time::Duration;

use thalweg_dist::messages::master_service_client::MasterServiceClient;
use thalweg_dist::messages::*;
use thalweg_dist::{AllowedOps, Server, ServerOptions};
use thalweg_graph::{Attr, DType, Graph, Shape, Tensor};
use thalweg_graphdef::messages::{NodeDef, TensorProto, TensorShapeProto, tensor_shape_proto};
use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
use thalweg_graphdef::{ExportOptions, GraphDef, export};
use thalweg_ops::{FlowOps, MathOps, NewGraph, SourceOps};
use tonic::transport::Channel;
use tonic::{Code, Status};

type Client = MasterServiceClient<Channel>;

/// Runs a test against a server of its own.
fn with_server<F: Future<Output = ()>>(
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

fn graph_def(g: &Graph) -> GraphDef {
    export(g, &ExportOptions::default()).unwrap()
}

async fn created(client: &mut Client, def: GraphDef) -> Result<String, Status> {
    let request = CreateSessionRequest {
        graph_def: Some(def),
        ..CreateSessionRequest::default()
    };
    let response = client.create_session(request).await?;
    Ok(response.into_inner().session_handle)
}

fn step(handle: &str, feeds: &[(&str, Tensor)], fetch: &[&str], target: &[&str]) -> RunStepRequest {
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

async fn run(client: &mut Client, request: RunStepRequest) -> Result<Vec<Tensor>, Status> {
    let response = client.run_step(request).await?.into_inner();
    let value = |t: NamedTensorProto| {
        let budget = &mut Budget::new(1 << 20);
        from_proto(&t.tensor.unwrap_or_default(), budget).unwrap()
    };
    Ok(response.tensor.into_iter().map(value).collect())
}

/// `y = x * x + 1`; `count`, which `init` sets to 0 and `add` adds one to; `element`, which waits for
/// a queue that nobody fills.
fn program() -> GraphDef {
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

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}

#[test]
fn a_step_is_run_by_names() {
    with_server(
        |_| {},
        |mut client| async move {
            let handle = created(&mut client, program()).await.unwrap();
            let x = || Tensor::vector(&[1.0f32, 3.0]);
            let got = run(&mut client, step(&handle, &[("x:0", x())], &["y:0"], &[])).await;
            assert_eq!(got.unwrap(), [Tensor::vector(&[2.0f32, 10.0])]);
            for wrong in [
                step(&handle, &[], &[], &[]),
                step(&handle, &[], &["y:0"], &[]),
                step(&handle, &[("x:0", x()), ("x:0", x())], &["y:0"], &[]),
                step(&handle, &[("y:0", x())], &["y:0"], &[]),
                step(&handle, &[("x:0", x())], &["y:1"], &[]),
                step(&handle, &[("x:0", Tensor::from(1i64))], &["y:0"], &[]),
            ] {
                assert_eq!(code(run(&mut client, wrong).await), Code::InvalidArgument);
            }
            for wrong in [
                step(&handle, &[], &["nowhere:0"], &[]),
                step(&handle, &[("nowhere:0", x())], &["read:0"], &[]),
                step(&handle, &[], &[], &["nowhere"]),
            ] {
                assert_eq!(code(run(&mut client, wrong).await), Code::NotFound);
            }
            let unset = run(&mut client, step(&handle, &[], &["read:0"], &[])).await;
            assert_eq!(code(unset), Code::FailedPrecondition);
            // Errors can come in the body, where they may be of any length.
            let mut request = step(&handle, &[], &["y:0"], &[]);
            request.store_errors_in_response_body = true;
            let response = client.run_step(request).await.unwrap().into_inner();
            assert_eq!(response.status_code, Code::InvalidArgument as i32);
            let text = response.status_error_message;
            assert!(text.contains("[[{{node x}}]]"), "{text}");
        },
    );
}

#[test]
fn a_session_that_is_not_there_is_aborted_so_that_clients_make_another() {
    with_server(
        |_| {},
        |mut client| async move {
            let handle = created(&mut client, program()).await.unwrap();
            let close = |handle: &str| CloseSessionRequest {
                session_handle: handle.to_owned(),
            };
            client.close_session(close(&handle)).await.unwrap();
            let again = client.close_session(close(&handle)).await;
            assert_eq!(code(again), Code::Aborted);
            let late = run(&mut client, step(&handle, &[], &["read:0"], &[])).await;
            assert_eq!(code(late), Code::Aborted);
            let extend = ExtendSessionRequest {
                session_handle: handle,
                ..ExtendSessionRequest::default()
            };
            assert_eq!(code(client.extend_session(extend).await), Code::Aborted);
        },
    );
}

#[test]
fn no_handle_comes_again_and_no_request_runs_twice() {
    with_server(
        |_| {},
        |mut client| async move {
            let first = created(&mut client, program()).await.unwrap();
            client.reset(ResetRequest::default()).await.unwrap();
            let second = created(&mut client, program()).await.unwrap();
            assert_ne!(first, second);
            let mut request = step(&second, &[], &[], &["init"]);
            request.request_id = -7;
            run(&mut client, request.clone()).await.unwrap();
            assert_eq!(code(run(&mut client, request).await), Code::Aborted);
        },
    );
}

#[test]
fn a_client_in_the_middle_of_a_call_does_not_keep_the_server() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    // A call whose body never comes.
    let mut socket = std::net::TcpStream::connect(server.address()).unwrap();
    std::io::Write::write_all(&mut socket, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    std::io::Write::write_all(&mut socket, &[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    server.shutdown();
    server.join().unwrap();
}

#[test]
fn an_extension_is_taken_whole_or_not_at_all() {
    with_server(
        |_| {},
        |mut client| async move {
            let handle = created(&mut client, program()).await.unwrap();
            // The client sends new nodes only; they name those that it has sent before.
            let whole = {
                let g = Graph::new();
                let x = g.placeholder("x", DType::F32, [-1]);
                let y = (x.square() + 1.0).named("y");
                let z = g.op("Neg").name("z").input(y);
                z.control(y.operation()).build();
                graph_def(&g)
            };
            let new = whole.node.iter().filter(|n| n.name == "z").cloned();
            let mut def = GraphDef {
                node: new.collect(),
                ..GraphDef::default()
            };
            let request = |def: &GraphDef, version| ExtendSessionRequest {
                session_handle: handle.clone(),
                graph_def: Some(def.clone()),
                current_graph_version: version,
            };
            assert_eq!(
                code(client.extend_session(request(&def, 7)).await),
                Code::Aborted
            );
            let mut broken = def.clone();
            broken.node.push(NodeDef {
                name: "bad".to_owned(),
                op: "Neg".to_owned(),
                input: vec!["missing:0".to_owned()],
                ..NodeDef::default()
            });
            let refused = client.extend_session(request(&broken, 0)).await;
            assert_eq!(code(refused), Code::InvalidArgument);
            let extended = client.extend_session(request(&def, 0)).await.unwrap();
            assert_eq!(extended.into_inner().new_graph_version, 1);
            let x = Tensor::vector(&[2.0f32]);
            let got = run(&mut client, step(&handle, &[("x:0", x)], &["z:0"], &[])).await;
            assert_eq!(got.unwrap(), [Tensor::vector(&[-5.0f32])]);
            let twice = client.extend_session(request(&def, 1)).await;
            assert_eq!(code(twice), Code::InvalidArgument);
            def.node[0].op = "NoSuchOp".to_owned();
            def.node[0].name = "other".to_owned();
            assert_eq!(
                code(client.extend_session(request(&def, 1)).await),
                Code::NotFound
            );
        },
    );
}

#[test]
fn sessions_share_variables_unless_they_are_isolated() {
    with_server(
        |_| {},
        |mut client| async move {
            let one = created(&mut client, program()).await.unwrap();
            let two = created(&mut client, program()).await.unwrap();
            run(&mut client, step(&one, &[], &[], &["init"]))
                .await
                .unwrap();
            for handle in [&one, &two] {
                run(&mut client, step(handle, &[], &[], &["add"]))
                    .await
                    .unwrap();
            }
            let got = run(&mut client, step(&one, &[], &["read:0"], &[])).await;
            assert_eq!(got.unwrap(), [Tensor::from(2.0f32)]);
            let request = CreateSessionRequest {
                graph_def: Some(program()),
                config: Some(ConfigProto {
                    isolate_session_state: true,
                    ..ConfigProto::default()
                }),
                ..CreateSessionRequest::default()
            };
            let alone = client.create_session(request).await.unwrap().into_inner();
            let got = run(
                &mut client,
                step(&alone.session_handle, &[], &["read:0"], &[]),
            )
            .await;
            assert_eq!(code(got), Code::FailedPrecondition);
            client.reset(ResetRequest::default()).await.unwrap();
            let got = run(&mut client, step(&one, &[], &["read:0"], &[])).await;
            assert_eq!(code(got), Code::Aborted);
            let next = created(&mut client, program()).await.unwrap();
            let got = run(&mut client, step(&next, &[], &["read:0"], &[])).await;
            assert_eq!(code(got), Code::FailedPrecondition);
        },
    );
}

#[test]
fn closing_a_session_ends_its_steps() {
    with_server(
        |_| {},
        |mut client| async move {
            let handle = created(&mut client, program()).await.unwrap();
            let waiting = {
                let (mut client, request) =
                    (client.clone(), step(&handle, &[], &["element:0"], &[]));
                tokio::spawn(async move { run(&mut client, request).await })
            };
            let mut timed = step(&handle, &[], &["element:0"], &[]);
            timed.options = Some(RunOptions {
                timeout_in_ms: 50,
                ..RunOptions::default()
            });
            assert_eq!(code(run(&mut client, timed).await), Code::DeadlineExceeded);
            assert!(!waiting.is_finished());
            let close = CloseSessionRequest {
                session_handle: handle,
            };
            client.close_session(close).await.unwrap();
            let ended = waiting.await.unwrap().unwrap_err();
            assert_eq!(ended.code(), Code::Cancelled);
            assert!(ended.message().contains("Session::Close"), "{ended}");
        },
    );
}

#[test]
fn a_client_that_goes_away_leaves_no_step_behind() {
    with_server(
        |options| options.limits.steps = 1,
        |mut client| async move {
            let handle = created(&mut client, program()).await.unwrap();
            let waiting = {
                let (mut client, request) =
                    (client.clone(), step(&handle, &[], &["element:0"], &[]));
                // The other steps may be there first.
                tokio::spawn(async move {
                    while run(&mut client, request.clone()).await.is_err() {
                        tokio::task::yield_now().await;
                    }
                })
            };
            let full = loop {
                let other = run(&mut client, step(&handle, &[], &[], &["init"])).await;
                match other {
                    Err(e) if e.code() == Code::ResourceExhausted => break e,
                    _ => tokio::task::yield_now().await,
                }
            };
            assert!(full.message().contains("1 steps"), "{full}");
            waiting.abort();
            while run(&mut client, step(&handle, &[], &[], &["init"]))
                .await
                .is_err()
            {
                tokio::task::yield_now().await;
            }
        },
    );
}

#[test]
fn callables_are_steps_by_number() {
    with_server(
        |_| {},
        |mut client| async move {
            let handle = created(&mut client, program()).await.unwrap();
            let make = |fetch: &str| MakeCallableRequest {
                session_handle: handle.clone(),
                options: Some(CallableOptions {
                    feed: vec!["x:0".to_owned()],
                    fetch: vec![fetch.to_owned(), fetch.to_owned()],
                    ..CallableOptions::default()
                }),
                ..MakeCallableRequest::default()
            };
            assert_eq!(
                code(client.make_callable(make("no:0")).await),
                Code::NotFound
            );
            let made = client
                .make_callable(make("y:0"))
                .await
                .unwrap()
                .into_inner();
            let call = |feed: Vec<TensorProto>| RunCallableRequest {
                session_handle: handle.clone(),
                handle: made.handle,
                feed,
                ..RunCallableRequest::default()
            };
            let x = to_proto(&Tensor::vector(&[2.0f32])).unwrap();
            let got = client
                .run_callable(call(vec![x]))
                .await
                .unwrap()
                .into_inner();
            assert_eq!(got.fetch.len(), 2);
            let none = client.run_callable(call(Vec::new())).await;
            assert_eq!(code(none), Code::InvalidArgument);
            let release = ReleaseCallableRequest {
                session_handle: handle.clone(),
                handle: made.handle,
            };
            client.release_callable(release).await.unwrap();
            let gone = client.run_callable(call(Vec::new())).await.unwrap_err();
            assert!(gone.message().contains("released"), "{gone}");
        },
    );
}

#[test]
fn a_step_can_come_in_pieces() {
    with_server(
        |_| {},
        |mut client| async move {
            let g = Graph::new();
            let [a, b] = ["a", "b"].map(|n| g.placeholder(n, DType::F32, [-1]));
            let first = a.square().named("first");
            let _ = (first * b).named("second");
            let handle = created(&mut client, graph_def(&g)).await.unwrap();
            let setup = PartialRunSetupRequest {
                session_handle: handle.clone(),
                feed: vec!["a:0".to_owned(), "b:0".to_owned()],
                fetch: vec!["first:0".to_owned(), "second:0".to_owned()],
                ..PartialRunSetupRequest::default()
            };
            let started = client.partial_run_setup(setup.clone()).await.unwrap();
            let started = started.into_inner().partial_run_handle;
            let x = || Tensor::vector(&[3.0f32]);
            let piece = |feeds: &[(&str, Tensor)], fetch: &[&str]| RunStepRequest {
                partial_run_handle: started.clone(),
                ..step(&handle, feeds, fetch, &[])
            };
            let early = run(&mut client, piece(&[("a:0", x())], &["second:0"])).await;
            let early = early.unwrap_err();
            assert!(early.message().contains("b:0 can't be computed"), "{early}");
            let got = run(&mut client, piece(&[("a:0", x())], &["first:0"])).await;
            assert_eq!(got.unwrap(), [Tensor::vector(&[9.0f32])]);
            for wrong in [
                piece(&[("a:0", x())], &[]),
                piece(&[], &["first:0"]),
                piece(&[("c:0", x())], &[]),
                piece(&[], &["c:0"]),
            ] {
                assert_eq!(code(run(&mut client, wrong).await), Code::InvalidArgument);
            }
            let got = run(&mut client, piece(&[("b:0", x())], &["second:0"])).await;
            assert_eq!(got.unwrap(), [Tensor::vector(&[27.0f32])]);
            let over = run(&mut client, piece(&[], &["second:0"])).await;
            assert_eq!(code(over), Code::InvalidArgument);
            // What its client leaves in the middle ends with the session.
            client.partial_run_setup(setup.clone()).await.unwrap();
            let bad = PartialRunSetupRequest {
                feed: vec!["nowhere:0".to_owned()],
                ..setup
            };
            assert_eq!(code(client.partial_run_setup(bad).await), Code::NotFound);
            let close = CloseSessionRequest {
                session_handle: handle.clone(),
            };
            client.close_session(close).await.unwrap();
        },
    );
}

#[test]
fn what_is_too_much_is_refused() {
    let limited = |options: &mut ServerOptions| {
        options.limits.sessions = 2;
        options.limits.graph_nodes = 50;
        options.limits.message_bytes = 1 << 20;
        options.limits.expanded_bytes = 1 << 16;
    };
    with_server(limited, |mut client| async move {
        let many = GraphDef {
            node: (0..60)
                .map(|i| NodeDef {
                    name: format!("n{i}"),
                    op: "NoOp".to_owned(),
                    ..NodeDef::default()
                })
                .collect(),
            ..GraphDef::default()
        };
        assert_eq!(
            code(created(&mut client, many).await),
            Code::ResourceExhausted
        );
        let handle = created(&mut client, program()).await.unwrap();
        created(&mut client, program()).await.unwrap();
        let third = created(&mut client, program()).await;
        assert_eq!(code(third), Code::ResourceExhausted);
        // A message of a few bytes that asks for a gigabyte, and one that is that large.
        let dims = [(1i64 << 28)].map(|size| tensor_shape_proto::Dim {
            size,
            ..Default::default()
        });
        let mut small = step(&handle, &[], &["y:0"], &[]);
        small.feed.push(NamedTensorProto {
            name: "x:0".to_owned(),
            tensor: Some(TensorProto {
                dtype: 1,
                tensor_shape: Some(TensorShapeProto {
                    dim: dims.to_vec(),
                    ..Default::default()
                }),
                ..TensorProto::default()
            }),
        });
        assert_eq!(code(run(&mut client, small).await), Code::InvalidArgument);
        // Many that are each within it.
        let filled = |i: usize| NamedTensorProto {
            name: format!("x{i}:0"),
            tensor: Some(TensorProto {
                dtype: 1,
                tensor_shape: Some(TensorShapeProto {
                    dim: vec![tensor_shape_proto::Dim {
                        size: 1 << 13,
                        ..Default::default()
                    }],
                    ..Default::default()
                }),
                ..TensorProto::default()
            }),
        };
        let mut many = step(&handle, &[], &["y:0"], &[]);
        many.feed = (0..4).map(filled).collect();
        let many = run(&mut client, many).await.unwrap_err();
        assert!(many.message().contains("value 2"), "{many}");
        let large = Tensor::vector(&vec![0.0f32; 1 << 19]);
        let large = run(&mut client, step(&handle, &[("x:0", large)], &["y:0"], &[])).await;
        assert_eq!(code(large), Code::OutOfRange);
        // It goes on.
        let x = Tensor::vector(&[2.0f32]);
        let got = run(&mut client, step(&handle, &[("x:0", x)], &["y:0"], &[])).await;
        assert_eq!(got.unwrap(), [Tensor::vector(&[5.0f32])]);
    });
}

#[test]
fn ops_that_are_not_allowed_do_not_run() {
    let some = |options: &mut ServerOptions| {
        options.limits.ops =
            AllowedOps::only(["Square", "AddV2", "StatelessWhile", "Less"]).unwrap();
    };
    with_server(some, |mut client| async move {
        let refused = created(&mut client, program()).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(refused.message().contains("VarHandleOp"), "{refused}");
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [-1]);
        let _ = (x.square() + 1.0).named("y");
        let handle = created(&mut client, graph_def(&g)).await.unwrap();
        let x = Tensor::vector(&[2.0f32]);
        let got = run(&mut client, step(&handle, &[("x:0", x)], &["y:0"], &[])).await;
        assert_eq!(got.unwrap(), [Tensor::vector(&[5.0f32])]);
        // A function may not have one either.
        let g = Graph::new();
        g.while_loop(
            &[g.constant(3.0f32)],
            |b, v| b.constant(1.0f32).less(v[0]),
            |_, v| vec![v[0].tanh()],
        );
        let refused = created(&mut client, graph_def(&g)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(refused.message().contains("Tanh"), "{refused}");
    });
}

#[test]
fn without_protection_a_server_stays_on_its_machine() {
    let options = ServerOptions::listening("0.0.0.0:0");
    let error = Server::start(options.clone()).unwrap_err().to_string();
    assert!(error.contains("--unprotected-network"), "{error}");
    let mut allowed = options;
    allowed.unprotected_network = true;
    let server = Server::start(allowed).unwrap();
    server.shutdown();
    server.join().unwrap();
    let nowhere = Server::start(ServerOptions::listening("nowhere.invalid:1"));
    assert!(nowhere.is_err());
}
