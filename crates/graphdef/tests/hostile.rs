//! Crafted files: any bytes are a graph or a typed error, and an error leaves the graph unchanged.

mod support;

use proptest::prelude::*;
use prost::Message;
use support::*;
use thalweg_graph::Graph;
use thalweg_graphdef::messages::DataType::{DtFloat, DtInt32};
use thalweg_graphdef::messages::op_def::ArgDef;
use thalweg_graphdef::messages::{
    AttrValue, FunctionDef, FunctionDefLibrary, MetaGraphDef, NodeDef, OpDef,
};
use thalweg_graphdef::{
    ExportOptions, GraphDef, ImportError, ImportOptions, describe, export, file, import,
    import_meta_graph,
};
use thalweg_ops::NewGraph;
use thalweg_session::Session;

/// A graph with one of each feature.
fn valid() -> GraphDef {
    let t = |d| ("T", dtype(d));
    let mut matmul = node("layer/mul", "MatMul", &["x", "w", "^note"], &[t(DtFloat)]);
    matmul.device = "/job:localhost/device:CPU:0".into();
    matmul.attr.insert("_class".into(), strings(&["loc:@w"]));
    graph_def(vec![
        node("x", "Placeholder", &[], &[("dtype", dtype(DtFloat))]),
        constant("w", floats(&[2, 3], &[1.0, 2.0])),
        node("note", "NoOp", &[], &[]),
        matmul,
        constant(
            "axis",
            TensorProto {
                dtype: DtInt32 as i32,
                int_val: vec![1],
                ..Default::default()
            },
        ),
        node(
            "split",
            "Split",
            &["axis", "layer/mul"],
            &[t(DtFloat), ("num_split", value(Value::I(3)))],
        ),
        node("sum", "AddV2", &["split:0", "split:2"], &[t(DtFloat)]),
    ])
}

use thalweg_graphdef::messages::TensorProto;
use thalweg_graphdef::messages::attr_value::Value;

/// Options under which no file takes much.
fn small() -> ImportOptions<'static> {
    ImportOptions::new()
        .max_expanded_bytes(1 << 16)
        .max_nodes(1 << 10)
}

/// Imports a graph as far as it goes, and checks that an imported graph exports and imports again.
fn take(def: &GraphDef) -> Result<(), ImportError> {
    let g = Graph::new();
    let _ = describe(def, g.registry());
    if let Err(error) = import(&g, def, &small()) {
        assert!(!error.to_string().is_empty());
        assert!(g.snapshot().is_empty() && g.errors().is_empty());
        return Err(error);
    }
    let written = export(&g, &ExportOptions::default()).unwrap();
    let h = Graph::new();
    import(&h, &written, &ImportOptions::default()).unwrap();
    let again = export(&h, &ExportOptions::default()).unwrap();
    assert_eq!(again.encode_to_vec(), written.encode_to_vec());
    let _ = Session::new(&g);
    Ok(())
}

/// A function `f(x)` whose body calls these functions one after the other.
fn calling(name: &str, called: &[&str]) -> FunctionDef {
    let float = |name: &str| ArgDef {
        name: name.into(),
        r#type: DtFloat as i32,
        ..ArgDef::default()
    };
    let call = |(i, called): (usize, &&str)| {
        let input = match i {
            0 => "x".to_owned(),
            i => format!("call_{}:output:0", i - 1),
        };
        let attrs = [
            ("Tin", types(&[DtFloat])),
            ("Tout", types(&[DtFloat])),
            ("f", func(called, &[])),
        ];
        node(&format!("call_{i}"), "PartitionedCall", &[&input], &attrs)
    };
    let mut nodes: Vec<NodeDef> = called.iter().enumerate().map(call).collect();
    let last = match called.len() {
        0 => "x".to_owned(),
        n => format!("call_{}:output:0", n - 1),
    };
    nodes.push(node("y", "Square", &[&last], &[("T", dtype(DtFloat))]));
    FunctionDef {
        signature: Some(OpDef {
            name: name.into(),
            input_arg: vec![float("x")],
            output_arg: vec![float("y")],
            ..OpDef::default()
        }),
        node_def: nodes,
        ret: [("y".to_owned(), "y:y:0".to_owned())].into(),
        ..FunctionDef::default()
    }
}

/// A graph that requests the gradient of `f`.
fn asking(functions: Vec<FunctionDef>) -> GraphDef {
    let attrs = [
        ("Tin", types(&[DtFloat, DtFloat])),
        ("Tout", types(&[DtFloat])),
        ("f", func("f", &[])),
    ];
    let mut def = graph_def(vec![
        constant("x", floats(&[2], &[1.0, 2.0])),
        node("g", "SymbolicGradient", &["x", "x"], &attrs),
    ]);
    def.library = Some(FunctionDefLibrary {
        function: functions,
        ..FunctionDefLibrary::default()
    });
    def
}

#[test]
fn gradients_of_functions_that_call_each_other_without_end_are_refused() {
    take(&asking(vec![calling("f", &["h"]), calling("h", &[])])).unwrap();
    let itself = take(&asking(vec![calling("f", &["f"])]))
        .unwrap_err()
        .to_string();
    assert!(itself.contains("calls itself"), "{itself}");
    let circle = take(&asking(vec![calling("f", &["h"]), calling("h", &["f"])]));
    assert!(circle.is_err());
    // Each calls the next one twice: a few functions, and a billion calls.
    let names: Vec<String> = (0..=15).map(|i| format!("f{i}")).collect();
    let mut chain = vec![calling("f", &["f0", "f0"])];
    chain.extend(names.windows(2).map(|w| calling(&w[0], &[&w[1], &w[1]])));
    chain.push(calling("f15", &[]));
    let many = take(&asking(chain)).unwrap_err().to_string();
    assert!(many.contains("more than"), "{many}");
}

#[test]
fn the_valid_one_is_valid() {
    take(&valid()).unwrap();
}

#[test]
fn a_file_that_is_cut_off_is_no_graph_or_a_smaller_one() {
    let bytes = valid().encode_to_vec();
    for end in 0..bytes.len() {
        if let Ok(def) = file::decode::<GraphDef>(&bytes[..end], "cut.pb", "GraphDef") {
            let _ = take(&def);
        }
    }
    let error = file::decode::<GraphDef>(&bytes[..30], "cut.pb", "GraphDef").unwrap_err();
    assert!(
        error.to_string().starts_with("cut.pb is no GraphDef: "),
        "{error}"
    );
}

#[test]
fn attributes_that_are_nested_without_end_are_no_graph() {
    let mut deep = func("f", &[]);
    for _ in 0..40 {
        deep = func("f", &[("a", deep)]);
    }
    let mut def = valid();
    def.node[0].attr.insert("_deep".into(), deep);
    let bytes = def.encode_to_vec();
    // Each turn is three messages in one another.
    let error = file::decode::<GraphDef>(&bytes, "deep.pb", "GraphDef").unwrap_err();
    assert!(error.to_string().contains("recursion limit"), "{error}");
}

#[test]
fn many_nodes_and_inputs_take_no_more_than_their_number() {
    let many = graph_def(
        (0..2000)
            .map(|i| node(&format!("n{i}"), "NoOp", &[], &[]))
            .collect(),
    );
    assert!(matches!(take(&many), Err(ImportError::Nodes { .. })));
    // A long chain, last node first: no recursion follows it.
    let chain = (0..1000).rev().map(|i| {
        let waits = format!("^n{}", i + 1);
        let waits: &[&str] = if i < 999 { &[&waits] } else { &[] };
        node(&format!("n{i}"), "NoOp", waits, &[])
    });
    take(&graph_def(chain.collect())).unwrap();
    let inputs = vec!["w"; 5000];
    let n = ("N", value(Value::I(5000)));
    let wide = node("all", "AddN", &inputs, &[("T", dtype(DtFloat)), n]);
    let mut def = valid();
    def.node.push(wide);
    take(&def).unwrap();
}

#[test]
fn counts_that_no_machine_has_are_errors() {
    for count in [-1, 0, 1 << 40, i64::MAX, i64::MIN] {
        let mut def = valid();
        def.node[5]
            .attr
            .insert("num_split".into(), value(Value::I(count)));
        take(&def).unwrap_err();
    }
}

/// A mutation of a graph, chosen by numbers.
fn changed(mut def: GraphDef, kind: u8, at: usize, other: usize, number: i64) -> GraphDef {
    let nodes = def.node.len();
    let from: NodeDef = def.node[other % nodes].clone();
    let node = &mut def.node[at % nodes];
    let mut attrs = node.attr.values_mut();
    match kind {
        0 => node.name = from.name,
        1 => node.op = from.op,
        2 => node.input.push(format!("{}:{number}", from.name)),
        3 => node.input.insert(0, from.name),
        4 => node.input.push(format!("^{}", from.name)),
        5 => node.attr = from.attr,
        6 => node.device = format!("/device:CPU:{number}"),
        7 => drop(node.input.pop()),
        8 => node.attr.clear(),
        9 => drop(
            from.attr
                .first_key_value()
                .map(|(n, a)| node.attr.insert(n.clone(), a.clone())),
        ),
        10..=13 => {
            let tensor = || TensorProto {
                tensor_shape: Some(shape(&[number, other as i64])),
                ..floats(&[], &[1.0])
            };
            if let Some(attr) = attrs.nth(other % 2) {
                *attr = match kind {
                    10 => value(Value::I(number)),
                    11 => value(Value::Type(number as i32)),
                    12 => value(Value::Tensor(tensor())),
                    _ => AttrValue::default(),
                };
            }
        }
        _ => drop(def.node.remove(at % nodes)),
    }
    def
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_are_a_graph_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(def) = GraphDef::decode(&bytes[..]) {
            let _ = take(&def);
        }
        if let Ok(meta) = MetaGraphDef::decode(&bytes[..]) {
            let _ = import_meta_graph(&Graph::new(), &meta, &small());
        }
    }

    #[test]
    fn bytes_of_a_graph_that_were_changed_are_a_graph_or_an_error(
        changes in proptest::collection::vec((0usize..600, any::<u8>()), 1..4),
    ) {
        let mut bytes = valid().encode_to_vec();
        let length = bytes.len();
        for (at, byte) in changes {
            bytes[at % length] = byte;
        }
        if let Ok(def) = GraphDef::decode(&bytes[..]) {
            let _ = take(&def);
        }
    }

    #[test]
    fn a_graph_that_was_changed_is_a_graph_or_an_error(
        changes in proptest::collection::vec(
            (0u8..15, 0usize..20, 0usize..20, prop_oneof![-3i64..8, any::<i64>()]),
            1..4,
        ),
    ) {
        let mut def = valid();
        for (kind, at, other, number) in changes {
            if !def.node.is_empty() {
                def = changed(def, kind, at, other, number);
            }
        }
        let _ = take(&def);
    }
}
