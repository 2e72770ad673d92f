//! Deep graphs: long chains, nested functions, nested values. Each runs or is a typed error, on a
//! thread with an ordinary stack.

mod support;

use support::*;
use thalweg_graph::Graph;
use thalweg_graphdef::messages::DataType::{DtBool, DtFloat, DtInt32, DtVariant};
use thalweg_graphdef::messages::op_def::ArgDef;
use thalweg_graphdef::messages::{DataType, FunctionDef, FunctionDefLibrary, NodeDef, OpDef};
use thalweg_graphdef::{GraphDef, ImportOptions, export, import};
use thalweg_ops::NewGraph;
use thalweg_session::{Session, SessionOptions};
use thalweg_tensor::Tensor;

/// The length of a chain that would overflow the 2 MiB stack of a test's thread if each of its
/// nodes took a call.
const LONG: usize = 30_000;

/// Runs node `y` of an imported graph.
fn run(def: &GraphDef) -> Result<Tensor, String> {
    let g = Graph::new();
    import(&g, def, &ImportOptions::default()).map_err(|e| e.to_string())?;
    let options = SessionOptions::new().threads(1);
    let session = Session::with_options(&g, options).map_err(|e| e.to_string())?;
    let y = g.find("y").unwrap().output(0);
    session.run(y, []).map_err(|e| e.to_string())
}

#[track_caller]
fn number(def: &GraphDef) -> f32 {
    run(def).unwrap().to_scalar().unwrap()
}

#[track_caller]
fn refused(def: &GraphDef, said: &str) {
    let error = run(def).map(|_| ()).unwrap_err();
    let shown: String = error.chars().take(2000).collect();
    assert!(error.contains(said), "{shown}");
}

fn one(name: &str) -> NodeDef {
    constant(name, floats(&[], &[1.0]))
}

/// `len` nodes of an op of one input behind a constant, the last of which is `y`.
fn chain(op: &str, len: usize) -> Vec<NodeDef> {
    let name = |i: usize| match i {
        0 => "x".to_owned(),
        i if i == len => "y".to_owned(),
        i => format!("n{i}"),
    };
    let link = |i: usize| node(&name(i), op, &[&name(i - 1)], &[t(DtFloat)]);
    let nodes = (1..=len).map(link);
    [one("x")].into_iter().chain(nodes).collect()
}

#[test]
fn a_long_chain_runs() {
    // The last node comes first, so that an input is unknown when it is met.
    let mut nodes = chain("Neg", LONG);
    nodes.reverse();
    assert_eq!(number(&graph_def(nodes)), 1.0);
}

#[test]
fn a_long_chain_of_control_inputs_runs() {
    let mut nodes = vec![one("x0")];
    for i in 1..=LONG {
        let before = format!("^x{}", i - 1);
        let mut one = one(&format!("x{i}"));
        one.input.push(before);
        nodes.push(one);
    }
    nodes.push(node("y", "Identity", &[&format!("x{LONG}")], &[t(DtFloat)]));
    assert_eq!(number(&graph_def(nodes)), 1.0);
}

#[test]
fn a_long_chain_of_colocated_nodes_runs() {
    let mut nodes = chain("Neg", LONG);
    for i in 1..nodes.len() {
        let class = format!("loc:@{}", nodes[i - 1].name);
        nodes[i].attr.insert("_class".into(), strings(&[&class]));
    }
    assert_eq!(number(&graph_def(nodes)), 1.0);
}

#[test]
fn a_long_chain_has_gradients_and_is_written() {
    let g = Graph::new();
    let def = graph_def(chain("Neg", LONG));
    import(&g, &def, &ImportOptions::default()).unwrap();
    let of = |name: &str| g.find(name).unwrap().output(0);
    let gradient = thalweg_graph::gradients(&[of("y")], &[of("x")])[0].unwrap();
    let options = SessionOptions::new().threads(1);
    let session = Session::with_options(&g, options).unwrap();
    assert_eq!(session.run::<f32>(gradient, []).unwrap(), 1.0);
    assert!(export(&g, &thalweg_graphdef::ExportOptions::default()).is_ok());
}

fn variant_chain(op: &str, attrs: &[(&str, thalweg_graphdef::messages::AttrValue)]) -> GraphDef {
    let mut nodes = vec![node("v0", "OptionalNone", &[], &[])];
    for i in 1..=LONG {
        nodes.push(node(&format!("v{i}"), op, &[&format!("v{}", i - 1)], attrs));
    }
    nodes.push(node("y", "OptionalHasValue", &[&format!("v{LONG}")], &[]));
    graph_def(nodes)
}

#[test]
fn deeply_nested_values_are_an_error() {
    let def = variant_chain(
        "OptionalFromValue",
        &[("Toutput_types", types(&[DtVariant]))],
    );
    refused(&def, "65 deep: there may be");
}

#[test]
fn deeply_nested_lists_are_an_error() {
    let i32s = |name: &str, value: i32| {
        constant(
            name,
            thalweg_graphdef::messages::TensorProto {
                dtype: DtInt32 as i32,
                int_val: vec![value],
                tensor_shape: Some(shape(&[])),
                ..Default::default()
            },
        )
    };
    let attrs = [
        ("element_dtype", dtype(DtVariant)),
        ("shape_type", dtype(DtInt32)),
    ];
    let mut nodes = vec![i32s("any", -1), i32s("most", -1)];
    nodes.push(node("empty", "EmptyTensorList", &["any", "most"], &attrs));
    nodes.push(node("v0", "EmptyTensorList", &["any", "most"], &attrs));
    for i in 1..=LONG {
        let before = format!("v{}", i - 1);
        let push = ["empty", &*before];
        nodes.push(node(
            &format!("v{i}"),
            "TensorListPushBack",
            &push,
            &attrs[..1],
        ));
    }
    nodes.push(node("y", "TensorListLength", &[&format!("v{LONG}")], &[]));
    refused(&graph_def(nodes), "65 deep: there may be");
}

fn arg(name: &str, of: DataType) -> ArgDef {
    ArgDef {
        name: name.into(),
        r#type: of as i32,
        ..ArgDef::default()
    }
}

/// `name(x) = out` with these nodes.
fn function(name: &str, of: DataType, nodes: Vec<NodeDef>, out: &str) -> FunctionDef {
    FunctionDef {
        signature: Some(OpDef {
            name: name.into(),
            input_arg: vec![arg("x", DtFloat)],
            output_arg: vec![arg("r", of)],
            ..OpDef::default()
        }),
        node_def: nodes,
        ret: [("r".to_owned(), out.to_owned())].into(),
        ..FunctionDef::default()
    }
}

fn with_functions(nodes: Vec<NodeDef>, function: Vec<FunctionDef>) -> GraphDef {
    GraphDef {
        library: Some(FunctionDefLibrary {
            function,
            ..FunctionDefLibrary::default()
        }),
        ..graph_def(nodes)
    }
}

/// The attributes of a call of `f`.
fn call(f: &str) -> [(&'static str, thalweg_graphdef::messages::AttrValue); 3] {
    [
        ("Tin", types(&[DtFloat])),
        ("Tout", types(&[DtFloat])),
        ("f", func(f, &[])),
    ]
}

/// `f0` calls `f1`, which calls `f2`, and so on, `len` times.
fn nested_calls(len: usize) -> GraphDef {
    let mut functions = Vec::new();
    for i in 0..len {
        let body = match i + 1 == len {
            true => node("c", "Neg", &["x"], &[t(DtFloat)]),
            false => node(
                "c",
                "PartitionedCall",
                &["x"],
                &call(&format!("f{}", i + 1)),
            ),
        };
        let out = if i + 1 == len { "c:y:0" } else { "c:output:0" };
        functions.push(function(&format!("f{i}"), DtFloat, vec![body], out));
    }
    let y = node("y", "PartitionedCall", &["x"], &call("f0"));
    with_functions(vec![one("x"), y], functions)
}

#[test]
fn nested_calls_are_bounded() {
    assert_eq!(number(&nested_calls(30)), -1.0);
    refused(&nested_calls(2_000), "is called inside of");
}

#[test]
fn an_endlessly_recursive_function_is_an_error() {
    let body = node("c", "PartitionedCall", &["x"], &call("f"));
    let f = function("f", DtFloat, vec![body], "c:output:0");
    let y = node("y", "PartitionedCall", &["x"], &call("f"));
    refused(
        &with_functions(vec![one("x"), y], vec![f]),
        "is called inside of",
    );
}

#[test]
fn an_endlessly_recursive_branch_is_an_error() {
    let branch = |name: &str| {
        let yes = node("yes", "Less", &["x", "two:output:0"], &[t(DtFloat)]);
        let two = constant("two", floats(&[], &[2.0]));
        let attrs = [
            ("Tcond", dtype(DtBool)),
            ("Tin", types(&[DtFloat])),
            ("Tout", types(&[DtFloat])),
            ("then_branch", func("f", &[])),
            ("else_branch", func("f", &[])),
        ];
        let c = node("c", "If", &["yes:z:0", "x"], &attrs);
        function(name, DtFloat, vec![two, yes, c], "c:output:0")
    };
    let y = node("y", "PartitionedCall", &["x"], &call("f"));
    refused(
        &with_functions(vec![one("x"), y], vec![branch("f")]),
        "is called inside of",
    );
}

/// Loops nested `len` deep, each of which runs once.
fn nested_loops(len: usize) -> GraphDef {
    let mut functions = Vec::new();
    let two = || constant("two", floats(&[], &[2.0]));
    let attrs = |i: usize| {
        vec![
            ("T", types(&[DtFloat])),
            ("cond", func("again", &[])),
            ("body", func(&format!("b{i}"), &[])),
        ]
    };
    let less = node("less", "Less", &["x", "two:output:0"], &[t(DtFloat)]);
    functions.push(function("again", DtBool, vec![two(), less], "less:z:0"));
    for i in 0..len {
        let (body, out) = match i + 1 == len {
            true => (
                vec![node("c", "AddV2", &["x", "x"], &[t(DtFloat)])],
                "c:z:0",
            ),
            false => (
                vec![node("c", "While", &["x"], &attrs(i + 1))],
                "c:output:0",
            ),
        };
        functions.push(function(&format!("b{i}"), DtFloat, body, out));
    }
    with_functions(
        vec![one("x"), node("y", "While", &["x"], &attrs(0))],
        functions,
    )
}

#[test]
fn nested_loops_are_bounded() {
    assert_eq!(number(&nested_loops(20)), 2.0);
    refused(&nested_loops(2_000), "is called inside of");
}

/// TensorFlow 1's loops, each within the one before.
fn nested_frames(len: usize) -> GraphDef {
    let mut nodes = vec![one("e0")];
    for i in 1..=len {
        let frame = format!("frame{i}");
        let attrs = [t(DtFloat), ("frame_name", text(&frame))];
        nodes.push(node(
            &format!("e{i}"),
            "Enter",
            &[&format!("e{}", i - 1)],
            &attrs,
        ));
    }
    let mut inner = format!("e{len}");
    for i in (1..=len).rev() {
        let exit = if i == 1 {
            "y".to_owned()
        } else {
            format!("x{i}")
        };
        nodes.push(node(&exit, "Exit", &[&inner], &[t(DtFloat)]));
        inner = exit;
    }
    graph_def(nodes)
}

#[test]
fn frames_nest_deep() {
    assert_eq!(number(&nested_frames(20)), 1.0);
    let deep = run(&nested_frames(2_000)).map(|t| t.to_scalar::<f32>());
    assert!(deep.as_ref().map_or(true, |y| *y == Ok(1.0)), "{deep:?}");
}

#[test]
fn names_with_many_scopes_are_names_or_an_error() {
    let named = |scopes: usize| {
        let name = "a/".repeat(scopes) + "b";
        graph_def(vec![one(&name), node("y", "Neg", &[&name], &[t(DtFloat)])])
    };
    assert_eq!(number(&named(100)), -1.0);
    assert_eq!(number(&named(LONG)), -1.0);
    refused(&named(10 * LONG), "name");
}

#[test]
fn a_shape_of_many_dimensions_is_an_error() {
    let mut wide = floats(&[], &[1.0]);
    wide.tensor_shape = Some(shape(&vec![1; LONG]));
    let nodes = vec![constant("x", wide), node("y", "Neg", &["x"], &[t(DtFloat)])];
    refused(&graph_def(nodes), "dimensions");
}
