//! Tests of a server's limits and of its allow-list.

mod client;

use client::{code, created, graph_def, program, run, step, with_server};
use thalweg_dist::messages::*;
use thalweg_dist::{AllowedOps, Limits, Server, ServerOptions};
use thalweg_graph::Graph;
use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::{
    AttrValue, NodeDef, TensorProto, TensorShapeProto, attr_value, tensor_shape_proto,
};
use thalweg_ops::{FlowOps, MathOps, NewGraph, SourceOps};
use thalweg_tensor::{DType, Tensor};
use tonic::Code;

#[test]
fn requests_over_a_limit_are_refused() {
    let limited = Limits {
        sessions: 2,
        graph_nodes: 50,
        message_bytes: 1 << 20,
        expanded_bytes: 1 << 16,
        ..Limits::default()
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
        // A message of a few bytes that expands to a gigabyte, and a message of that size.
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
        // Many messages, each within the limit.
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
        assert_eq!(code(large), Code::ResourceExhausted);
        // The server still works.
        let x = Tensor::vector(&[2.0f32]);
        let got = run(&mut client, step(&handle, &[("x:0", x)], &["y:0"], &[])).await;
        assert_eq!(got.unwrap(), [Tensor::vector(&[5.0f32])]);
    });
}

#[test]
fn ops_that_are_not_allowed_do_not_run() {
    let some = Limits {
        ops: AllowedOps::only(["Square", "AddV2", "StatelessWhile", "Less"]).unwrap(),
        ..Limits::default()
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
        // A function may not contain such an op either.
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
fn an_unprotected_server_listens_on_loopback_only() {
    let options = ServerOptions::listening("0.0.0.0:0");
    let error = Server::start(options.clone()).unwrap_err().to_string();
    assert!(error.contains("--unprotected-network"), "{error}");
    let server = Server::start(options.unprotected_network(true)).unwrap();
    server.shutdown();
    server.join().unwrap();
    let nowhere = Server::start(ServerOptions::listening("nowhere.invalid:1"));
    assert!(nowhere.is_err());
}

fn with_nodes(count: usize, name: &str) -> GraphDef {
    let node = |i: usize| NodeDef {
        name: format!("{name}{i}"),
        op: "NoOp".to_owned(),
        ..NodeDef::default()
    };
    GraphDef {
        node: (0..count).map(node).collect(),
        ..GraphDef::default()
    }
}

/// Returns the error of a limit, which names it.
fn met<T: std::fmt::Debug>(result: Result<T, tonic::Status>, limit: &str) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains(limit), "{status}");
}

#[test]
fn decoded_messages_are_bounded() {
    let limited = Limits {
        decoded_bytes: 100_000,
        ..Limits::default()
    };
    with_server(limited, |mut client| async move {
        let small = created(&mut client, with_nodes(100, "n")).await.unwrap();
        met(
            created(&mut client, with_nodes(1000, "n")).await,
            "--decoded-bytes",
        );
        let extended = |nodes: usize, version| ExtendSessionRequest {
            session_handle: small.clone(),
            graph_def: Some(with_nodes(nodes, "m")),
            current_graph_version: version,
        };
        met(
            client.extend_session(extended(1000, 0)).await,
            "--decoded-bytes",
        );
        client.extend_session(extended(10, 0)).await.unwrap();
        let names = vec![String::new(); 10_000];
        let step = RunStepRequest {
            session_handle: small.clone(),
            target: names.clone(),
            ..RunStepRequest::default()
        };
        met(client.run_step(step).await, "--decoded-bytes");
        let options = CallableOptions {
            target: names,
            ..CallableOptions::default()
        };
        let callable = MakeCallableRequest {
            session_handle: small,
            options: Some(options),
            ..MakeCallableRequest::default()
        };
        met(client.make_callable(callable).await, "--decoded-bytes");
    });
}

#[test]
fn graph_memory_is_bounded_and_returned() {
    let limited = Limits {
        session_bytes: 500_000,
        graph_bytes: 700_000,
        ..Limits::default()
    };
    with_server(limited, |mut client| async move {
        met(
            created(&mut client, with_nodes(2000, "n")).await,
            "--session-bytes",
        );
        let first = created(&mut client, with_nodes(150, "n")).await.unwrap();
        let extended = ExtendSessionRequest {
            session_handle: first.clone(),
            graph_def: Some(with_nodes(250, "m")),
            current_graph_version: 0,
        };
        met(client.extend_session(extended).await, "--session-bytes");
        let mut open = vec![first];
        let full = loop {
            match created(&mut client, with_nodes(150, "n")).await {
                Ok(handle) => open.push(handle),
                full => break full,
            }
        };
        assert!(open.len() > 1);
        met(full, "--graph-bytes");
        let close = CloseSessionRequest {
            session_handle: open.swap_remove(0),
        };
        client.close_session(close).await.unwrap();
        created(&mut client, with_nodes(150, "n")).await.unwrap();
    });
}

#[test]
fn expanded_constants_count_with_their_full_size() {
    let limited = Limits {
        session_bytes: 1 << 20,
        ..Limits::default()
    };
    // A hundred bytes that expand to a quarter of a MiB.
    let filled = |name: String| {
        let size = 1 << 16;
        let dim = vec![tensor_shape_proto::Dim {
            size,
            ..Default::default()
        }];
        let value = TensorProto {
            dtype: 1,
            tensor_shape: Some(TensorShapeProto {
                dim,
                ..Default::default()
            }),
            float_val: vec![1.0],
            ..TensorProto::default()
        };
        let attr = |value| AttrValue { value: Some(value) };
        GraphDef {
            node: vec![NodeDef {
                name,
                op: "Const".to_owned(),
                attr: [
                    ("dtype".to_owned(), attr(attr_value::Value::Type(1))),
                    ("value".to_owned(), attr(attr_value::Value::Tensor(value))),
                ]
                .into(),
                ..NodeDef::default()
            }],
            ..GraphDef::default()
        }
    };
    with_server(limited, |mut client| async move {
        let handle = created(&mut client, filled("c".to_owned())).await.unwrap();
        let mut refused = None;
        for version in 0..8 {
            let extended = client.extend_session(ExtendSessionRequest {
                session_handle: handle.clone(),
                graph_def: Some(filled(format!("c{version}"))),
                current_graph_version: version,
            });
            if let Err(status) = extended.await {
                refused = Some((version, status));
                break;
            }
        }
        let (version, status) = refused.expect("no constant is refused");
        assert!((1..=3).contains(&version), "{version}: {status}");
    });
}

#[test]
fn the_memory_of_all_calls_is_bounded() {
    let limited = Limits {
        call_bytes: 1 << 20,
        ..Limits::default()
    };
    with_server(limited, |mut client| async move {
        let handle = created(&mut client, program()).await.unwrap();
        let fed = |n: usize| {
            let x = Tensor::vector(&vec![1.0f32; n]);
            step(&handle, &[("x:0", x)], &["y:0"], &[])
        };
        let refused = fed(1 << 19);
        met(run(&mut client, refused).await, "--call-bytes");
        // Memory of calls is freed: a hundred calls exceed the limit in sum.
        for _ in 0..100 {
            run(&mut client, fed(1 << 14)).await.unwrap();
        }
    });
}

#[test]
fn compressed_messages_are_accepted() {
    with_server(Limits::default(), |client| async move {
        for encoding in [
            tonic::codec::CompressionEncoding::Gzip,
            tonic::codec::CompressionEncoding::Deflate,
        ] {
            let mut client = client.clone().send_compressed(encoding);
            let handle = created(&mut client, program()).await.unwrap();
            let x = Tensor::vector(&[2.0f32]);
            let got = run(&mut client, step(&handle, &[("x:0", x)], &["y:0"], &[])).await;
            assert_eq!(got.unwrap(), [Tensor::vector(&[5.0f32])]);
        }
    });
}
