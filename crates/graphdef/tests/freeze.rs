//! Frozen graphs compute the same as the graphs with variables.

use thalweg_graph::{Graph, Output};
use thalweg_graphdef::freeze::variables_of;
use thalweg_graphdef::{ExportError, FreezeError, GraphDef, ImportOptions, freeze, import};
use thalweg_ops::{FlowOps, MathOps, NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Shape, Tensor};

fn ops(def: &GraphDef) -> Vec<(&str, &str)> {
    let nodes = def.node.iter();
    nodes.map(|n| (n.name.as_str(), n.op.as_str())).collect()
}

/// The value of an output of a frozen graph.
fn run(def: &GraphDef, output: &str, feeds: &[(&str, Tensor)]) -> Tensor {
    let g = Graph::new();
    let model = import(&g, def, &ImportOptions::new()).unwrap();
    let feeds: Vec<_> = feeds
        .iter()
        .map(|(name, value)| model.output(name).unwrap().feed(value.clone()))
        .collect();
    let output = model.output(output).unwrap();
    Session::new(&g).unwrap().run(output, feeds).unwrap()
}

/// Freezes with the values from a session.
fn with_session(g: &Graph, outputs: &[Output<'_>], init: bool) -> (GraphDef, Vec<Tensor>) {
    let session = Session::new(g).unwrap();
    if init {
        session.run(g.initializers(), []).unwrap();
    }
    let def = freeze(g, outputs, |v| {
        let info = g.variables().into_iter().find(|i| i.handle == v.handle);
        Some(session.run(info?.value, []).unwrap())
    });
    let values = outputs.iter().map(|o| session.run(o, []).unwrap());
    let values = values.collect();
    (def.unwrap(), values)
}

#[test]
fn every_use_of_a_handle_has_its_form_for_a_constant() {
    let g = Graph::new();
    let w = g.variable("w", [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    g.variable("unused", 1.0f32);
    let rows = g.constant([2i64, 0]);
    let op = |op: &str, name: &str| g.op(op).input(w.handle()).name(name);
    let gathered = op("ResourceGather", "rows").input(rows);
    let gathered = gathered.attr("dtype", DType::F32).output();
    let slices = g.constant([[1i64, 1]]);
    let slices = op("ResourceGatherNd", "slices").input(slices);
    let slices = slices.attr("dtype", DType::F32).output();
    let shape = op("VariableShape", "shape").attr("out_type", DType::I64);
    let shape = shape.output();
    let there = op("VarIsInitializedOp", "there").output();
    let passed = op("Identity", "passed").output();
    let read = g.op("ReadVariableOp").input(passed).name("again");
    let read = read.attr("dtype", DType::F32).output();
    let outputs = [w.value(), gathered, slices, shape, there, read];
    let (def, values) = with_session(&g, &outputs, true);

    for (name, op) in [
        ("w", "Const"),
        ("w/Read/ReadVariableOp", "Identity"),
        ("rows", "GatherV2"),
        ("rows/axis", "Const"),
        ("slices", "GatherNd"),
        ("shape", "Shape"),
        ("there", "Const"),
        ("passed", "Identity"),
        ("again", "Identity"),
    ] {
        assert!(ops(&def).contains(&(name, op)), "{name} {op}");
    }
    assert!(!ops(&def).iter().any(|(n, _)| n.contains("unused")));
    for (output, value) in outputs.iter().zip(values) {
        assert_eq!(run(&def, &output.name(), &[]), value, "{}", output.name());
    }
}

#[test]
fn references_become_constants_and_assignments_are_removed() {
    let g = Graph::new();
    let v = g.op("VariableV2").attr("dtype", DType::F32).name("v");
    let v = v.attr("shape", Shape::from([2])).output();
    let first = g.constant([1.0f32, 2.0]);
    let _assign = g.op("Assign").inputs([v, first]).build();
    let read = g.op("Identity").input(v).name("v/read").output();
    let there = g.op("IsVariableInitialized").input(v).name("there");
    let there = there.output();
    let y = (read * 2.0).named("y");
    let def = freeze(&g, &[y, there], |f| {
        assert_eq!((&*f.name, f.dtype), ("v", DType::F32));
        Some(Tensor::vector(&[3.0f32, 4.0]))
    })
    .unwrap();
    let found = [("v", "Const"), ("v/read", "Identity"), ("there", "Const")];
    assert_eq!(ops(&def)[..3], found);
    assert!(!ops(&def).iter().any(|(_, op)| *op == "Assign"));
    assert_eq!(run(&def, "y", &[]), Tensor::vector(&[6.0f32, 8.0]));
    assert_eq!(run(&def, "there", &[]), Tensor::scalar(true));
}

#[test]
fn an_output_that_needs_an_update_is_refused() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let step = w.assign_add(1.0f32);
    let after = g.control_dependencies([step], || w.read());
    let value = |_: &_| Some(Tensor::scalar(1.0f32));
    let error = freeze(&g, &[after], value).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node 'AssignAddVariableOp' (AssignAddVariableOp) updates a variable, and an output needs it: freeze outputs that only read variables"
    );
    // The value before it does not depend on the update.
    assert!(freeze(&g, &[w.value()], value).is_ok());
}

#[test]
fn values_must_be_those_of_the_variables() {
    let g = Graph::new();
    let w = g.variable("w", [1.0f32, 2.0]);
    let y = w.value().exp();
    let none = freeze(&g, &[y], |_| None).unwrap_err();
    assert_eq!(
        none.to_string(),
        "there is no value for variable 'w': initialize or restore it first"
    );
    let wrong = freeze(&g, &[y], |_| Some(Tensor::scalar(1.0f32))).unwrap_err();
    assert_eq!(
        format!("{wrong:?}"),
        "variable 'w' is f32[2], and its value is f32[]"
    );
    let dtype = freeze(&g, &[y], |_| Some(Tensor::vector(&[1.0f64, 2.0]))).unwrap_err();
    assert!(matches!(dtype, FreezeError::Value { .. }));
    let outputs = freeze(&g, &[], |_| None).unwrap_err();
    assert_eq!(outputs, FreezeError::NoOutputs);
    let other = Graph::new();
    let foreign = other.constant(1.0f32);
    let error = freeze(&g, &[foreign], |_| None).unwrap_err();
    assert!(matches!(error, FreezeError::NoOutput { .. }));
}

#[test]
fn oversized_graphs_are_refused_before_they_are_built() {
    let g = Graph::new();
    let dims = [1usize << 28];
    let parts = (0..9).map(|i| {
        let handle = g.op("VarHandleOp").attr("shape", Shape::known(&dims));
        let handle = handle.attr("dtype", DType::U8).name(&format!("v{i}"));
        let read = g.op("ReadVariableOp").input(handle.output());
        read.attr("dtype", DType::U8).output()
    });
    let parts: Vec<_> = parts.collect();
    // All share their bytes, which are never touched.
    let zeros = Tensor::zeros(DType::U8, &dims).unwrap();
    let error = freeze(&g, &parts, |_| Some(zeros.clone())).unwrap_err();
    let FreezeError::Export(ExportError::TooLarge { bytes }) = error else {
        panic!("{error}");
    };
    assert!(bytes > i32::MAX as usize);
}

#[test]
fn a_branch_or_loop_that_reads_a_variable_takes_its_value() {
    let g = Graph::new();
    let w = g.variable("w", 2.0f32);
    let x = g.placeholder("x", DType::F32, []);
    let y = g.cond(x.greater(0.0), |_| vec![w.read() * 5.0], |_| vec![x])[0];
    let z = g.while_loop(
        &[x],
        |_, v| v[0].less(20.0),
        |_, v| vec![v[0] * w.read() + 1.0],
    )[0];
    let def = freeze(&g, &[y, z], |_| Some(Tensor::scalar(2.0f32))).unwrap();
    assert!(def.node.iter().all(|n| !n.op.contains("Var")));
    let x = ("x", Tensor::scalar(3.0f32));
    assert_eq!(
        run(&def, &y.name(), std::slice::from_ref(&x)),
        Tensor::scalar(10.0f32)
    );
    assert_eq!(run(&def, &z.name(), &[x]), Tensor::scalar(31.0f32));
}

#[test]
fn a_function_that_writes_a_variable_is_named() {
    let g = Graph::new();
    let w = g.variable("w", 2.0f32);
    let x = g.placeholder("x", DType::F32, []);
    let write = || {
        let write = w.assign(x);
        g.control_dependencies([write], || vec![w.read()])
    };
    let y = g.cond(x.greater(0.0), |_| write(), |_| vec![x])[0];
    let error = freeze(&g, &[y], |_| Some(Tensor::scalar(2.0f32))).unwrap_err();
    assert!(
        matches!(error, FreezeError::Use { .. } | FreezeError::Update { .. }),
        "{error}"
    );
    // A function that takes the value is kept, and only that one.
    let z = g.cond(x.greater(1.0), |_| vec![w.value() * x], |_| vec![x])[0];
    let needed = variables_of(&g, &[z]).unwrap();
    assert_eq!(needed[0].name, "w");
    let def = freeze(&g, &[z], |_| Some(Tensor::scalar(2.0f32))).unwrap();
    assert_eq!(def.library.as_ref().unwrap().function.len(), 2);
    let x = ("x", Tensor::scalar(3.0f32));
    assert_eq!(run(&def, &z.name(), &[x]), Tensor::scalar(6.0f32));
}

#[test]
fn colocation_with_removed_nodes_is_dropped() {
    let g = Graph::new();
    let gone = g.constant(1.0f32).named("gone");
    let y = g.colocate_with(gone, || g.constant(2.0f32).sqrt());
    let def = freeze(&g, &[y], |_| None).unwrap();
    assert!(def.node.iter().all(|n| !n.attr.contains_key("_class")));
    assert_eq!(def.node.len(), 2);
}
