//! Tests of the nodes of a saver: names, edges, devices, slices.

use thalweg_graph::{Attr, Graph, GraphData, VariableSlice};
use thalweg_ops::{NewGraph, StateOps};
use thalweg_tensor::Shape;

use super::{SavedVariable, SaverNodes, SaverNodesError, SaverOptions};

fn inputs(data: &GraphData, node: &str) -> Vec<String> {
    let node = data.node(data.find(node).unwrap());
    let inputs = node.inputs.iter().map(|&i| data.output_name(i));
    let controls = node.controls.iter();
    inputs
        .chain(controls.map(|&c| format!("^{}", data.node(c).name)))
        .collect()
}

fn device(data: &GraphData, node: &str) -> String {
    let id = data.find(node).unwrap_or_else(|| panic!("no {node}"));
    data.node(id).device.to_string()
}

/// A graph with a variable behind a handle and one behind a reference.
fn two() -> (Graph, Vec<SavedVariable>) {
    let g = Graph::new();
    g.variable("a", [1.0f32, 2.0]);
    let v1 = g.op("VariableV2").attr("shape", Shape::from([3]));
    let v1 = v1.attr("dtype", thalweg_tensor::DType::I64).name("b");
    let handle = v1.output().id();
    let mut saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
    saved.push(SavedVariable {
        name: "counts".into(),
        handle,
        slice: None,
    });
    (g, saved)
}

#[test]
fn nodes_have_tensorflows_names_and_edges() {
    let (g, saved) = two();
    let saver = SaverNodes::add(&g, &saved, &SaverOptions::new()).unwrap();
    let data = g.snapshot();
    assert_eq!(inputs(&data, "save/filename"), ["save/filename/input:0"]);
    assert_eq!(inputs(&data, "save/Const"), ["save/filename:0"]);
    let names = ["save/Const:0", "save/SaveV2/tensor_names:0"];
    let slices = "save/SaveV2/shape_and_slices:0";
    let values = ["save/Read/ReadVariableOp:0", "b:0"];
    assert_eq!(
        inputs(&data, "save/SaveV2"),
        [&names[..], &[slices], &values].concat()
    );
    assert_eq!(
        inputs(&data, "save/control_dependency"),
        ["save/Const:0", "^save/SaveV2"]
    );
    assert_eq!(
        inputs(&data, "save/AssignVariableOp"),
        ["a:0", "save/RestoreV2:0"]
    );
    assert_eq!(inputs(&data, "save/Assign"), ["b:0", "save/RestoreV2:1"]);
    assert_eq!(
        inputs(&data, "save/restore_all"),
        ["^save/AssignVariableOp", "^save/Assign"]
    );
    let def = saver.to_def();
    assert_eq!(def.filename_tensor_name, "save/Const:0");
    assert_eq!(def.save_tensor_name, "save/control_dependency:0");
    assert_eq!(def.restore_op_name, "save/restore_all");

    // A second saver has a scope of its own.
    let second = SaverNodes::add(&g, &saved, &SaverOptions::new()).unwrap();
    assert_eq!(second.save.name(), "save_1/SaveV2");
    assert!(g.errors().is_empty());
}

#[test]
fn each_device_writes_and_reads_its_own_variables() {
    let g = Graph::new();
    let a = g.device("/job:ps/task:0/gpu:1", || g.variable("a", 1.0f32));
    g.device("/job:ps/task:1", || g.variable("b", 2.0f32));
    g.colocate_with(a.handle(), || g.variable("a_slot", 3.0f32));
    let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
    // Scopes of the caller do not apply.
    let saver = g.device("/job:worker/task:3", || {
        SaverNodes::add(&g, &saved, &SaverOptions::new().sharded(true)).unwrap()
    });
    let data = g.snapshot();
    let first = "/job:ps/task:0/device:CPU:0";
    let second = "/job:ps/task:1/device:CPU:0";
    for (node, wanted) in [
        ("save/SaveV2", first),
        ("save/ShardedFilename", first),
        ("save/RestoreV2", first),
        ("save/restore_shard", first),
        ("save/MergeV2Checkpoints", first),
        ("save/SaveV2_1", second),
        ("save/RestoreV2_1", second),
        ("save/Const", ""),
    ] {
        assert_eq!(device(&data, node), wanted, "{node}");
    }
    assert_eq!(
        inputs(&data, "save/SaveV2")[3..],
        ["save/Read/ReadVariableOp:0", "save/Read/ReadVariableOp_1:0"]
    );
    let read = data.node(data.find("save/Read/ReadVariableOp_1").unwrap());
    assert_eq!(&*read.colocation[0], "a");
    assert_eq!(
        inputs(&data, "save/restore_all"),
        ["^save/restore_shard", "^save/restore_shard_1"]
    );
    assert_eq!(saver.save.name(), "save/MergeV2Checkpoints");
    assert_eq!(saver.save_tensor.name(), "save/Identity:0");
    assert!(saver.to_def().sharded);
    assert!(g.errors().is_empty());
}

#[test]
fn parts_of_a_variable_are_slices_of_the_whole() {
    let g = Graph::new();
    g.partitioned_variable("w", vec![0.0f32; 5], 2);
    let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
    SaverNodes::add(&g, &saved, &SaverOptions::new()).unwrap();
    let data = g.snapshot();
    for (input, wanted) in [
        ("tensor_names", ["w", "w"]),
        ("shape_and_slices", ["5 0,3", "5 3,2"]),
    ] {
        for op in ["SaveV2", "RestoreV2"] {
            let node = data.find(&format!("save/{op}/{input}")).unwrap();
            let Some(Attr::Tensor(value)) = data.node(node).attrs.get("value") else {
                panic!("{input}");
            };
            let found: Vec<_> = value
                .as_strings()
                .unwrap()
                .iter()
                .map(|s| s.to_vec())
                .collect();
            assert_eq!(found, wanted.map(|s| s.as_bytes().to_vec()), "{op}");
        }
    }
}

#[test]
fn variables_that_cannot_be_saved_are_errors_and_add_no_nodes() {
    let (g, mut saved) = two();
    let options = SaverOptions::new();
    let nodes = g.snapshot().len();
    let none = SaverNodes::add(&g, &[], &options).unwrap_err();
    assert_eq!(none, SaverNodesError::NoVariables);

    saved[1].name = "a".into();
    let same = SaverNodes::add(&g, &saved, &options).unwrap_err();
    assert_eq!(
        same.to_string(),
        "two variables are to be saved as 'a': give one of them another name in the checkpoint"
    );

    let slice = |dims: &[usize], begin: &[usize]| {
        Some(VariableSlice {
            of: "whole".into(),
            dims: dims.to_vec(),
            begin: begin.to_vec(),
        })
    };
    for bad in [
        slice(&[4], &[3]),
        slice(&[4, 4], &[0]),
        slice(&[4], &[usize::MAX]),
    ] {
        saved[0].slice = bad;
        let error = SaverNodes::add(&g, &saved, &options).unwrap_err();
        assert!(matches!(error, SaverNodesError::Slice { .. }), "{error}");
    }
    saved[0].slice = slice(&[4], &[2]);
    saved[0].name = "whole".into();
    saved[0].handle = g.variables()[0].value;
    let value = SaverNodes::add(&g, &saved, &options).unwrap_err();
    assert_eq!(
        value.to_string(),
        "'whole' is to be saved, and a/Read/ReadVariableOp:0 is not the handle of a variable"
    );

    let (g, saved) = two();
    g.finalize();
    let finalized = SaverNodes::add(&g, &saved, &options).unwrap_err();
    assert!(matches!(finalized, SaverNodesError::Graph(_)));
    assert_eq!(g.snapshot().len(), nodes);
    assert!(g.errors().is_empty());
}
