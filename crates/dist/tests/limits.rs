//! What a server refuses.

mod client;

use client::{code, created, graph_def, program, run, step, with_server};
use thalweg_dist::messages::*;
use thalweg_dist::{AllowedOps, Server, ServerOptions};
use thalweg_graph::Graph;
use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::{NodeDef, TensorProto, TensorShapeProto, tensor_shape_proto};
use thalweg_ops::{FlowOps, MathOps, NewGraph, SourceOps};
use thalweg_tensor::{DType, Tensor};
use tonic::Code;

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
