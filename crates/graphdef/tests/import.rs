//! Import of graphs: names, order, loops, devices, and errors for unsupported parts.

mod support;

use support::*;
use thalweg_graph::{Graph, Origin, Reason};
use thalweg_graphdef::messages::DataType::{DtFloat, DtInt32, DtUint4};
use thalweg_graphdef::messages::attr_value::{ListValue, Value};
use thalweg_graphdef::messages::{NodeDef, TensorProto, VersionDef};
use thalweg_graphdef::{
    ExportOptions, GraphDef, ImportError, ImportOptions, Problem, export, import,
};
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::DType;

/// `y = x * 2 + x`, the consumers first.
fn backwards() -> GraphDef {
    let t = || ("T", dtype(DtFloat));
    graph_def(vec![
        node("y", "AddV2", &["scope/mul:0", "x", "^two"], &[t()]),
        node("scope/mul", "Mul", &["x:0", "two"], &[t()]),
        constant("two", floats(&[], &[2.0])),
        node("x", "Placeholder", &[], &[("dtype", dtype(DtFloat))]),
    ])
}

fn fails(def: &GraphDef) -> ImportError {
    fails_with(def, &ImportOptions::default())
}

#[track_caller]
fn fails_with(def: &GraphDef, options: &ImportOptions<'_>) -> ImportError {
    let g = Graph::new();
    let error = import(&g, def, options).unwrap_err();
    assert!(g.snapshot().is_empty() && g.errors().is_empty(), "{error}");
    error
}

#[track_caller]
fn problem(def: &GraphDef) -> (String, Problem) {
    match fails(def) {
        ImportError::Node { node, problem, .. } => (node, problem),
        other => panic!("{other}"),
    }
}

#[test]
fn consumers_may_come_first() {
    let g = Graph::new();
    let imported = import(&g, &backwards(), &ImportOptions::default()).unwrap();
    assert_eq!(imported.nodes, 4);
    let names: Vec<String> = g.snapshot().nodes().map(|(_, n)| n.name.clone()).collect();
    assert_eq!(names, ["two", "x", "scope/mul", "y"]);
    let (x, y) = (
        imported.output("x").unwrap(),
        imported.output("y:0").unwrap(),
    );
    let session = Session::new(&g).unwrap();
    assert_eq!(
        session.step(y, [x.feed(3.0f32)]).unwrap().scalar::<f32>(0),
        Ok(9.0)
    );
    assert_eq!(imported.output("y:1").map(|o| o.id()), None);
}

#[test]
fn nodes_have_the_file_as_their_origin() {
    let g = Graph::new();
    let options = ImportOptions::new().origin("model.pb");
    import(&g, &backwards(), &options).unwrap();
    let data = g.snapshot();
    let node = data.node(g.find("y").unwrap().id());
    assert_eq!(node.origin, Origin::Other("model.pb".into()));
}

#[test]
fn a_prefix_is_added_to_every_name() {
    let g = Graph::new();
    let mut def = backwards();
    def.node[0]
        .attr
        .insert("_class".into(), strings(&["loc:@x", "other"]));
    for prefix in ["a", "b/c"] {
        let options = ImportOptions::new().prefix(prefix);
        let imported = g.name_scope("ignored", || import(&g, &def, &options).unwrap());
        assert_eq!(
            imported.operation("y").unwrap().name(),
            format!("{prefix}/y")
        );
    }
    let data = g.snapshot();
    let node = data.node(g.find("b/c/y").unwrap().id());
    assert_eq!(node.colocation[..], ["b/c/x".into()]);
    assert_eq!(
        node.attrs.get("_class"),
        Some(&thalweg_graph::Attr::Strs(vec![b"other".to_vec()]))
    );
}

#[test]
fn a_name_that_is_taken_leaves_the_graph_as_it_was() {
    let g = Graph::new();
    import(&g, &backwards(), &ImportOptions::default()).unwrap();
    let before = g.snapshot().to_text();
    let error = import(&g, &backwards(), &ImportOptions::default()).unwrap_err();
    let ImportError::Graph(errors) = &error else {
        panic!("{error}")
    };
    assert!(errors.iter().any(|e| e.reason == Reason::NameTaken));
    assert!(
        error.to_string().contains("import with a prefix"),
        "{error}"
    );
    assert_eq!(g.snapshot().to_text(), before);
    assert!(g.errors().is_empty());
    // Names stay free for others.
    assert_eq!(g.constant(1.0f32).named("z").operation().name(), "z");
}

#[test]
fn outputs_of_the_graph_take_the_places_of_inputs() {
    let g = Graph::new();
    let five = g.constant(5.0f32);
    let options = ImportOptions::new()
        .replacing("x:0", five)
        .replacing("^two", five)
        .returning("y")
        .returning("scope/mul:0");
    let imported = import(&g, &backwards(), &options).unwrap();
    let session = Session::new(&g).unwrap();
    let results = session.step(&imported.outputs, []).unwrap();
    assert_eq!(
        (results.scalar::<f32>(0), results.scalar::<f32>(1)),
        (Ok(15.0), Ok(10.0))
    );
    let data = g.snapshot();
    assert_eq!(
        data.node(imported.operation("y").unwrap().id()).controls[..],
        [five.operation().id()]
    );
}

#[test]
fn options_that_name_nothing_are_errors() {
    let other = Graph::new();
    let g = Graph::new();
    let own = g.constant(1.0f32);
    let of = |name: &str, output| ImportOptions::new().replacing(name, output);
    for options in [
        of("x", other.constant(1.0f32)),
        of("nothing", own),
        of("^y", own),
        of("x:y", own),
        ImportOptions::new().returning("y:1"),
        ImportOptions::new().returning("nothing"),
        ImportOptions::new().prefix("/a"),
    ] {
        let nodes = g.snapshot().len();
        let error = import(&g, &backwards(), &options).unwrap_err();
        assert!(matches!(error, ImportError::Option { .. }), "{error}");
        assert_eq!(g.snapshot().len(), nodes);
    }
}

#[test]
fn devices_are_kept_and_invalid_ones_are_errors() {
    let mut def = backwards();
    def.node[1].device = "/job:worker/task:1/gpu:0".into();
    let g = Graph::new();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let data = g.snapshot();
    let node = data.node(g.find("scope/mul").unwrap().id());
    assert_eq!(node.device.to_string(), "/job:worker/task:1/device:GPU:0");
    def.node[1].device = "gpu".into();
    let (name, problem) = problem(&def);
    assert_eq!(name, "scope/mul");
    assert!(matches!(problem, Problem::Device(_)));
}

#[test]
fn all_unsupported_ops_are_reported_at_once() {
    let mut def = backwards();
    def.node
        .extend((0..5).map(|i| node(&format!("n{i}"), "NoSuchOp", &[], &[])));
    def.node.push(node("m", "Neither", &["nowhere"], &[]));
    let error = fails(&def);
    assert_eq!(
        error.to_string(),
        "an imported graph uses ops that there are none of: Neither (m); NoSuchOp (5 nodes: n0, n1, n2, ...); \
         ops of your own belong in the graph's set (Graph::with_ops), and in that of a server (SessionOptions::ops)"
    );
    let ImportError::Unsupported { nodes, .. } = error else {
        panic!()
    };
    assert_eq!(nodes.len(), 6);
}

#[test]
fn an_op_that_runs_python_code_is_refused_with_advice() {
    let mut def = backwards();
    def.node.push(node("p", "PyFunc", &[], &[]));
    let text = fails(&def).to_string();
    assert!(
        text.contains("feed their values to a placeholder"),
        "{text}"
    );
}

#[test]
fn all_unsupported_dtypes_are_reported_at_once() {
    let mut def = backwards();
    def.node
        .push(node("c", "Placeholder", &[], &[("dtype", dtype(DtUint4))]));
    def.node.push(constant(
        "d",
        TensorProto {
            dtype: 29,
            ..Default::default()
        },
    ));
    let error = fails(&def).to_string();
    assert!(error.contains("DT_INT4 (d); DT_UINT4 (c)"), "{error}");
}

#[test]
fn reference_dtypes_are_those_of_their_variables() {
    let mut def = backwards();
    def.node[3]
        .attr
        .insert("dtype".into(), value(Value::Type(101)));
    let g = Graph::new();
    import(&g, &def, &ImportOptions::default()).unwrap();
    assert_eq!(g.find("x").unwrap().output(0).dtype(), DType::F32);
}

#[test]
fn unknown_attributes_are_errors_unless_they_have_no_effect() {
    let mut def = backwards();
    def.node[1].attr.insert("_mine".into(), text("kept"));
    def.node[1]
        .attr
        .insert("grad_x".into(), value(Value::B(false)));
    let g = Graph::new();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let data = g.snapshot();
    let node = data.node(g.find("scope/mul").unwrap().id());
    assert_eq!(node.attrs.str("_mine"), "kept");
    assert_eq!(node.attrs.get("grad_x"), None);
    def.node[1]
        .attr
        .insert("grad_x".into(), value(Value::B(true)));
    def.node[0].attr.insert("speed".into(), value(Value::I(11)));
    let error = fails(&def).to_string();
    assert!(
        error.contains("AddV2.speed (y); Mul.grad_x (scope/mul)"),
        "{error}"
    );
}

#[test]
fn mistakes_that_the_graph_finds_name_the_file() {
    let mut def = backwards();
    def.node[2] = constant(
        "two",
        TensorProto {
            dtype: DtInt32 as i32,
            ..Default::default()
        },
    );
    let options = ImportOptions::new().origin("m.pb");
    let error = fails_with(&def, &options);
    assert!(matches!(&error, ImportError::Graph(e) if e.len() == 1));
    let text = error.to_string();
    assert!(
        text.contains("node 'scope/mul' (Mul), made at m.pb: input 1"),
        "{text}"
    );
}

#[test]
fn files_for_newer_readers_are_errors() {
    let versions = |min_consumer, bad: &[i32]| GraphDef {
        versions: Some(VersionDef {
            producer: 9999,
            min_consumer,
            bad_consumers: bad.to_vec(),
        }),
        ..backwards()
    };
    let known = thalweg_graphdef::import::KNOWN_VERSION;
    import(
        &Graph::new(),
        &versions(known, &[]),
        &ImportOptions::default(),
    )
    .unwrap();
    assert!(matches!(
        fails(&versions(known + 1, &[])),
        ImportError::Version { .. }
    ));
    assert!(matches!(
        fails(&versions(0, &[7, known])),
        ImportError::BadConsumer { .. }
    ));
    let old = GraphDef {
        version: 9,
        versions: None,
        ..backwards()
    };
    import(&Graph::new(), &old, &ImportOptions::default()).unwrap();
}

#[test]
fn cycles_are_errors_with_their_nodes() {
    let t = || ("T", dtype(DtFloat));
    let def = graph_def(vec![
        node("a", "Neg", &["c"], &[t()]),
        node("b", "Neg", &["a"], &[t()]),
        node("c", "Identity", &["x", "^b"], &[t()]),
        node("x", "Placeholder", &[], &[("dtype", dtype(DtFloat))]),
        node("after", "Neg", &["a"], &[t()]),
    ]);
    let ImportError::Cycle { nodes, .. } = fails(&def) else {
        panic!()
    };
    assert_eq!(nodes, ["a", "c", "b", "a"]);
    let own = graph_def(vec![node("a", "NoOp", &["^a"], &[])]);
    assert!(matches!(fails(&own), ImportError::Cycle { .. }));
}

#[test]
fn missing_inputs_are_errors() {
    let with = |input: &str| {
        let mut def = backwards();
        def.node[1].input[0] = input.into();
        problem(&def)
    };
    assert_eq!(
        with("nowhere"),
        ("scope/mul".into(), Problem::NoNode("nowhere".into()))
    );
    assert_eq!(with("^nowhere").1, Problem::Input("two".into()));
    assert_eq!(with("").1, Problem::NoNode("".into()));
    assert!(matches!(
        with("x:1").1,
        Problem::NoOutput { outputs: 1, .. }
    ));
    assert!(matches!(with("x:-1").1, Problem::Input(_)));
    assert!(matches!(with("x:0:0").1, Problem::Input(_)));
    assert!(matches!(with("^x").1, Problem::Input(_)));
}

#[test]
fn names_are_checked_and_unique() {
    let mut def = backwards();
    def.node[1].name = "y".into();
    assert_eq!(problem(&def), ("y".into(), Problem::Duplicate));
    for bad in ["", "a:0", "^a", "a b", "/x", &"x".repeat(1 << 17)] {
        def.node[1].name = bad.into();
        assert!(matches!(problem(&def).1, Problem::Name(_)));
    }
}

#[test]
fn more_nodes_than_are_allowed_are_an_error() {
    let options = ImportOptions::new().max_nodes(3);
    assert!(matches!(
        fails_with(&backwards(), &options),
        ImportError::Nodes { limit: 3, .. }
    ));
}

#[test]
fn lists_of_several_kinds_and_attributes_without_values_are_errors() {
    let mixed = value(Value::List(ListValue {
        i: vec![1],
        b: vec![true],
        ..Default::default()
    }));
    for bad in [
        mixed,
        Default::default(),
        value(Value::Placeholder("T".into())),
    ] {
        let mut def = backwards();
        def.node[0].attr.insert("_a".into(), bad);
        assert!(matches!(problem(&def).1, Problem::Attr { .. }));
    }
}

#[test]
fn an_import_into_a_finalized_graph_is_an_error() {
    let g = Graph::new();
    g.finalize();
    let error = import(&g, &backwards(), &ImportOptions::default()).unwrap_err();
    assert!(matches!(&error, ImportError::Graph(e) if e[0].reason == Reason::Finalized));
    g.extend(|| import(&g, &backwards(), &ImportOptions::default()))
        .unwrap();
}

#[test]
fn device_scopes_fill_in_what_a_node_leaves_open() {
    let g = Graph::new();
    let mut def = backwards();
    def.node[1].device = "/device:CPU:1".into();
    g.device("/job:worker/device:CPU:0", || {
        import(&g, &def, &ImportOptions::default()).unwrap()
    });
    let data = g.snapshot();
    let device = |n: &str| data.node(g.find(n).unwrap().id()).device.to_string();
    assert_eq!(device("scope/mul"), "/job:worker/device:CPU:1");
    assert_eq!(device("y"), "/job:worker/device:CPU:0");
}

#[test]
fn an_empty_graph_adds_nothing() {
    let g = Graph::new();
    assert_eq!(
        import(&g, &graph_def(vec![]), &ImportOptions::default())
            .unwrap()
            .nodes,
        0
    );
}

#[test]
fn nodes_may_be_defaults_of_themselves() {
    let def = graph_def(vec![NodeDef::default()]);
    assert!(matches!(fails(&def), ImportError::Unsupported { .. }));
}

#[test]
fn variables_are_written_with_names_of_their_own() {
    let g = Graph::new();
    let _ = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
    let def = export(&g, &ExportOptions::default()).unwrap();
    let handles = def.node.iter().filter(|n| n.op == "VarHandleOp");
    let names: Vec<_> = handles
        .map(|n| (n.attr["shared_name"].clone(), text(&n.name)))
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|(shared, name)| shared == name));
}

#[test]
fn placeholders_of_old_graphs_without_dimensions_have_any_shape() {
    let attrs = [
        ("dtype", dtype(DtFloat)),
        ("shape", value(Value::Shape(shape(&[])))),
    ];
    let old = |producer: i32| GraphDef {
        versions: Some(VersionDef {
            producer,
            ..VersionDef::default()
        }),
        ..graph_def(vec![node("x", "Placeholder", &[], &attrs)])
    };
    for (producer, rank) in [(21, None), (22, Some(0))] {
        let g = Graph::new();
        let imported = import(&g, &old(producer), &ImportOptions::default()).unwrap();
        assert_eq!(
            imported.output("x").unwrap().shape().rank(),
            rank,
            "{producer}"
        );
    }
}
