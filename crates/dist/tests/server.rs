//! A server and a client of its `tensorflow.MasterService` that is not TensorFlow's.

mod client;

use std::time::Duration;

use client::{code, created, graph_def, program, run, step, with_server};
use thalweg_dist::messages::*;
use thalweg_dist::{Cause, ClusterOptions, Server, ServerOptions, Session};
use thalweg_graph::Graph;
use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::{NodeDef, TensorProto};
use thalweg_graphdef::tensor::to_proto;
use thalweg_ops::{MathOps, NewGraph, SourceOps, StateOps};
use thalweg_tensor::{DType, Tensor};
use tonic::Code;

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
fn an_unknown_session_is_aborted() {
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
fn handles_are_unique_and_repeated_requests_are_refused() {
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
fn an_open_call_does_not_block_shutdown() {
    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    // A call whose body never comes.
    let mut socket = std::net::TcpStream::connect(server.address()).unwrap();
    std::io::Write::write_all(&mut socket, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    std::io::Write::write_all(&mut socket, &[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    server.shutdown();
    server.join().unwrap();
}

#[test]
fn a_graph_extension_is_atomic() {
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
fn callables_run_by_handle() {
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
fn partial_runs_feed_and_fetch_in_several_calls() {
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
fn a_session_whose_client_leaves_before_the_response_is_closed() {
    with_server(
        |options| options.limits.sessions = 1,
        |mut client| async move {
            let node = |i: usize| NodeDef {
                name: format!("n{i}"),
                op: "NoOp".to_owned(),
                ..NodeDef::default()
            };
            let large = GraphDef {
                node: (0..30_000).map(node).collect(),
                ..GraphDef::default()
            };
            let mut request = tonic::Request::new(CreateSessionRequest {
                graph_def: Some(large),
                ..CreateSessionRequest::default()
            });
            // Less than the session takes to be made.
            request.set_timeout(Duration::from_millis(20));
            assert!(client.create_session(request).await.is_err());
            let began = std::time::Instant::now();
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                match created(&mut client, program()).await {
                    Ok(_) => break,
                    Err(e) => assert!(began.elapsed() < Duration::from_secs(20), "{e}"),
                }
            }
        },
    );
}

#[test]
fn reset_clears_containers_for_sessions_of_other_masters() {
    let jobs = [("ps", 1), ("worker", 2)];
    let tasks = Server::local_cluster(&jobs, ServerOptions::listening("")).unwrap();
    let g = Graph::new();
    let w = g.device("/job:ps/task:0", || g.variable("w", 0.0f32));
    let add = w.assign_add(1.0f32);
    let session = |task: usize| Session::on(&tasks[task], &g, ClusterOptions::new()).unwrap();
    let own = session(1);
    own.run(g.initializers(), []).unwrap();
    own.run(add, []).unwrap();

    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let address = format!("http://{}", tasks[2].address());
        let endpoint = tonic::transport::Endpoint::from_shared(address).unwrap();
        let mut client = client::Client::new(endpoint.connect().await.unwrap());
        client.reset(ResetRequest::default()).await.unwrap();
    });
    let lost = own.run(add, []).unwrap_err();
    assert!(
        lost.cause.is_loss() || lost.cause == Cause::Uninitialized,
        "{lost}"
    );
    own.run(g.initializers(), []).unwrap();
    own.run(add, []).unwrap();
    let found: f32 = session(2).run(w, []).unwrap();
    assert_eq!(found, 1.0);
}
