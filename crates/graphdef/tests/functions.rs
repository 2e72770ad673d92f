//! Import and export of functions.

#[path = "support/registry.rs"]
mod registry;
mod support;

use registry::graph;
use support::*;
use thalweg_graph::Attr;
use thalweg_graph::op::Calls;
use thalweg_graphdef::messages::DataType::{DtBool, DtFloat, DtInt32};
use thalweg_graphdef::messages::attr_value::Value;
use thalweg_graphdef::messages::op_def::{ArgDef, AttrDef};
use thalweg_graphdef::messages::{
    DataType, FunctionDef, FunctionDefLibrary, GradientDef, NodeDef, OpDef,
};
use thalweg_graphdef::{
    ExportOptions, GraphDef, ImportError, ImportOptions, Problem, export, import,
};
use thalweg_tensor::DType;

fn arg(name: &str, dtype: DataType) -> ArgDef {
    ArgDef {
        name: name.into(),
        r#type: dtype as i32,
        ..ArgDef::default()
    }
}

/// `twice(x) = x + x`.
fn twice() -> FunctionDef {
    FunctionDef {
        signature: Some(OpDef {
            name: "twice".into(),
            input_arg: vec![arg("x", DtFloat)],
            output_arg: vec![arg("y", DtFloat)],
            ..OpDef::default()
        }),
        node_def: vec![
            node("same", "Identity", &["sum:z:0"], &[t(DtFloat)]),
            node("sum", "AddV2", &["x", "x"], &[t(DtFloat)]),
        ],
        ret: [("y".to_owned(), "same:output:0".to_owned())].into(),
        ..FunctionDef::default()
    }
}

/// A function of any dtype: `any[T](x) = first(split(x + x))`.
fn any() -> FunctionDef {
    let any = |name: &str| ArgDef {
        name: name.into(),
        type_attr: "T".into(),
        ..ArgDef::default()
    };
    let t = || ("T", value(Value::Placeholder("T".into())));
    FunctionDef {
        signature: Some(OpDef {
            name: "any".into(),
            input_arg: vec![arg("axis", DtInt32), any("x")],
            output_arg: vec![any("y"), any("z")],
            attr: vec![AttrDef {
                name: "T".into(),
                r#type: "type".into(),
                ..AttrDef::default()
            }],
            ..OpDef::default()
        }),
        node_def: vec![
            node("sum", "AddV2", &["x", "x"], &[t()]),
            node(
                "split",
                "Split",
                &["axis", "sum:z:0"],
                &[t(), ("num_split", value(Value::I(3)))],
            ),
        ],
        ret: [("y", "split:output:0"), ("z", "split:output:2")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
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

fn x(dtype: DataType) -> NodeDef {
    node("x", "Placeholder", &[], &[("dtype", support::dtype(dtype))])
}

#[test]
fn a_node_whose_op_is_a_function_calls_it() {
    let def = with_functions(
        vec![
            x(DtFloat),
            node(
                "call",
                "twice",
                &["x"],
                &[("_noinline", value(Value::B(true)))],
            ),
        ],
        vec![twice()],
    );
    let g = graph();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let data = g.snapshot();
    let call = data.node(g.find("call").unwrap().id());
    assert_eq!(call.op.name, "PartitionedCall");
    assert_eq!(call.attrs.func("f").map(|f| &*f.name), Some("twice"));
    assert_eq!(call.attrs.types("Tin"), [DType::F32]);
    assert_eq!(call.attrs.get("_noinline"), Some(&Attr::Bool(true)));
    let function = g.function("twice").unwrap();
    assert_eq!((function.arguments.len(), function.results.len()), (1, 1));
    let names: Vec<&str> = function.body.nodes().map(|(_, n)| &*n.name).collect();
    assert_eq!(names, ["x", "sum", "same"]);
    assert_eq!(function.body.output_name(function.outputs[0]), "same:0");
    assert_eq!(
        function.origin.to_string(),
        "an imported graph, function twice"
    );
}

#[test]
fn a_function_with_attributes_is_made_for_each_use() {
    let def = with_functions(
        vec![
            x(DtFloat),
            node(
                "i",
                "Placeholder",
                &[],
                &[("dtype", support::dtype(DtInt32))],
            ),
            node("a", "any", &["i", "x"], &[t(DtFloat)]),
            node("b", "any", &["i", "i"], &[t(DtInt32)]),
            node("c", "any", &["i", "a:1"], &[t(DtFloat)]),
        ],
        vec![any()],
    );
    let g = graph();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let data = g.snapshot();
    let names: Vec<&String> = data.functions().keys().collect();
    assert_eq!(names, ["any[T=f32]", "any[T=i32]"]);
    let function = g.function("any[T=i32]").unwrap();
    assert_eq!(function.results[1].dtype, DType::I32);
    assert_eq!(function.outputs[1].index, 2);
    assert_eq!(g.find("c").unwrap().output(1).dtype(), DType::F32);
}

#[test]
fn functions_may_call_functions_and_themselves() {
    let mut outer = twice();
    let signature = outer.signature.as_mut().unwrap();
    signature.name = "outer".into();
    outer.node_def = vec![
        node("inner", "twice", &["x"], &[]),
        node(
            "again",
            "StatefulPartitionedCall",
            &["inner:y:0"],
            &[
                ("Tin", types(&[DtFloat])),
                ("Tout", types(&[DtFloat])),
                ("f", func("outer", &[])),
            ],
        ),
    ];
    outer.ret = [("y".to_owned(), "again:output:0".to_owned())].into();
    let def = with_functions(
        vec![x(DtFloat), node("call", "outer", &["x"], &[])],
        vec![twice(), outer],
    );
    let g = graph();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let again = export(&g, &ExportOptions::default()).unwrap();
    let h = graph();
    import(&h, &again, &ImportOptions::default()).unwrap();
    assert_eq!(export(&h, &ExportOptions::default()).unwrap(), again);
}

#[test]
fn endless_instantiation_of_functions_is_an_error() {
    // grow[F] uses grow[grow[F]].
    let placeholder = value(Value::Placeholder("F".into()));
    let inner = func("grow", &[("F", placeholder)]);
    let mut grow = twice();
    let signature = grow.signature.as_mut().unwrap();
    signature.name = "grow".into();
    signature.attr = vec![AttrDef {
        name: "F".into(),
        r#type: "func".into(),
        ..AttrDef::default()
    }];
    grow.node_def = vec![node("next", "grow", &["x"], &[("F", inner)])];
    grow.ret = [("y".to_owned(), "next:y:0".to_owned())].into();
    let call = node("call", "grow", &["x"], &[("F", func("twice", &[]))]);
    let def = with_functions(vec![x(DtFloat), call], vec![twice(), grow]);
    let error = import(&graph(), &def, &ImportOptions::default()).unwrap_err();
    let found = matches!(
        &error,
        ImportError::Node {
            problem: Problem::TooManyFunctions,
            ..
        }
    );
    assert!(found, "{error}");
}

#[test]
fn functions_that_nothing_uses_are_left_out_where_they_cannot_be_made() {
    let named = |name: &str, op: &str| {
        let mut function = twice();
        function.signature.as_mut().unwrap().name = name.into();
        function.node_def[1] = node("sum", op, &["x"], &[]);
        if op == "bad" {
            function.node_def[0].input[0] = "sum:y:0".into();
        }
        function
    };
    let unused = vec![twice(), named("bad", "NoSuchOp"), named("uses_bad", "bad")];
    let g = graph();
    let imported = import(
        &g,
        &with_functions(vec![], unused.clone()),
        &ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(imported.left_out, ["bad", "uses_bad"]);
    assert_eq!(g.snapshot().functions().len(), 1);
    let used = with_functions(
        vec![x(DtFloat), node("call", "uses_bad", &["x"], &[])],
        unused,
    );
    let error = import(&graph(), &used, &ImportOptions::default()).unwrap_err();
    let ImportError::Unsupported { nodes, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(nodes, [("bad/sum".to_owned(), "NoSuchOp".to_owned())]);
}

#[test]
fn a_function_is_taken_over_once() {
    let def = |prefix: &str| {
        let call = node(&format!("{prefix}call"), "twice", &["x"], &[]);
        with_functions(vec![x(DtFloat), call], vec![twice()])
    };
    let g = graph();
    for prefix in ["a", "b"] {
        let options = ImportOptions::new().prefix(prefix);
        import(&g, &def(""), &options).unwrap();
    }
    let mut other = def("");
    other.library.as_mut().unwrap().function[0].node_def[1].device = "/cpu:0".into();
    let options = ImportOptions::new().prefix("c");
    let error = import(&g, &other, &options).unwrap_err();
    assert!(
        matches!(
            &error,
            ImportError::Function {
                problem: Problem::Taken,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn nodes_with_effects_run_without_consumers_in_a_call() {
    let mut function = twice();
    function
        .node_def
        .push(node("print", "Print", &["sum:z:0"], &[t(DtFloat)]));
    let library = |f: &FunctionDef| with_functions(vec![], vec![f.clone()]);
    let g = graph();
    import(&g, &library(&function), &ImportOptions::default()).unwrap();
    let controls = |g: &thalweg_graph::Graph| g.function("twice").unwrap().controls.clone();
    assert!(controls(&g).is_empty());
    let runs = |calls| g.function("twice").unwrap().runs(calls).len();
    assert_eq!((runs(Calls::Whole), runs(Calls::Branch)), (1, 0));
    function.control_ret = [("side".to_owned(), "print".to_owned())].into();
    let g = graph();
    import(&g, &library(&function), &ImportOptions::default()).unwrap();
    assert_eq!(controls(&g)[0].0, "side");
}

#[test]
fn gradients_of_functions_are_kept() {
    let mut backward = twice();
    backward.signature.as_mut().unwrap().name = "backward".into();
    let mut def = with_functions(
        vec![x(DtFloat), node("c", "twice", &["x"], &[])],
        vec![twice(), backward],
    );
    let gradient = GradientDef {
        function_name: "twice".into(),
        gradient_func: "backward".into(),
    };
    def.library
        .as_mut()
        .unwrap()
        .gradient
        .push(gradient.clone());
    let g = graph();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let library = export(&g, &ExportOptions::default())
        .unwrap()
        .library
        .unwrap();
    assert_eq!(library.gradient, [gradient]);
}

#[test]
fn functions_that_do_not_fit_are_typed_errors() {
    let fails = |change: &dyn Fn(&mut FunctionDef), call: NodeDef| {
        let mut function = twice();
        change(&mut function);
        let def = with_functions(vec![x(DtFloat), call], vec![function]);
        let g = graph();
        let error = import(&g, &def, &ImportOptions::default()).unwrap_err();
        assert!(g.snapshot().is_empty() && g.snapshot().functions().is_empty());
        error
    };
    let call = || node("call", "twice", &["x"], &[]);
    let problem = |error: ImportError| match error {
        ImportError::Function { problem, .. } | ImportError::Node { problem, .. } => problem,
        other => panic!("{other}"),
    };
    let of = |change: &dyn Fn(&mut FunctionDef)| problem(fails(change, call()));
    assert!(matches!(of(&|f| f.ret.clear()), Problem::NoResult(_)));
    assert!(matches!(
        of(&|f| {
            f.ret.insert("y".into(), "nowhere:o:0".into());
        }),
        Problem::NoNode(_)
    ));
    assert!(matches!(
        of(&|f| {
            f.ret.insert("y".into(), "sum:z:1".into());
        }),
        Problem::NoOutput { .. }
    ));
    assert!(matches!(
        of(&|f| {
            f.ret.insert("y".into(), "a:b:c:d".into());
        }),
        Problem::Input(_)
    ));
    assert!(matches!(
        of(&|f| f.node_def[1].name = "x".into()),
        Problem::Duplicate
    ));
    assert!(matches!(
        of(&|f| f.node_def[1].input[0] = "sum:z:-1".into()),
        Problem::Input(_)
    ));
    let list =
        |f: &mut FunctionDef| f.signature.as_mut().unwrap().input_arg[0].number_attr = "N".into();
    assert!(matches!(of(&list), Problem::List(_)));
    let again = |f: &mut FunctionDef| {
        f.signature.as_mut().unwrap().input_arg = vec![arg("x", DtFloat), arg("x", DtFloat)];
    };
    assert!(matches!(
        problem(fails(&again, node("call", "twice", &["x", "x"], &[]))),
        Problem::Duplicate
    ));
    let wrong =
        |f: &mut FunctionDef| f.signature.as_mut().unwrap().output_arg[0].r#type = DtBool as i32;
    assert!(matches!(of(&wrong), Problem::NoResult(_)));
    let missing = node(
        "call",
        "PartitionedCall",
        &["x"],
        &[
            ("Tin", types(&[DtFloat])),
            ("Tout", types(&[])),
            ("f", func("no_such", &[])),
        ],
    );
    assert!(matches!(
        problem(fails(&|_| {}, missing)),
        Problem::NoFunction(_)
    ));
    assert!(matches!(
        fails(&|_| {}, node("call", "twice", &["x", "x"], &[])),
        ImportError::Graph(_)
    ));
}

#[test]
fn functions_round_trip() {
    let call = node(
        "call",
        "any",
        &["i", "x"],
        &[t(DtFloat), ("_class", strings(&["loc:@x"]))],
    );
    let mut def = with_functions(
        vec![
            x(DtFloat),
            node(
                "i",
                "Placeholder",
                &[],
                &[("dtype", support::dtype(DtInt32))],
            ),
            call,
        ],
        vec![any(), twice()],
    );
    def.node
        .extend(counting_loop().node.into_iter().filter(|n| n.name != "x"));
    let g = graph();
    import(&g, &def, &ImportOptions::default()).unwrap();
    let first = export(&g, &ExportOptions::default()).unwrap();
    let h = graph();
    import(&h, &first, &ImportOptions::default()).unwrap();
    assert_eq!(export(&h, &ExportOptions::default()).unwrap(), first);
    assert_eq!(h.snapshot().to_text(), g.snapshot().to_text());
    assert_eq!(first.library.unwrap().function.len(), 2);
}
