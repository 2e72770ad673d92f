//! Round trips of MetaGraphs, and their variables and collections.

use thalweg_graph::Graph;
use thalweg_graphdef::messages::collection_def::Kind;
use thalweg_graphdef::messages::{MetaGraphDef, SaverDef, VariableDef};
use thalweg_graphdef::{
    ImportOptions, MetaOptions, export_meta_graph, file, import_meta_graph, meta,
};
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_tensor::DType;

fn model() -> Graph {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 4]);
    let w = g.partitioned_variable("w", vec![1.0f32; 4], 2);
    g.untrained_variable("global_step", 7i64);
    let loss = (x * w.value()).named("loss");
    g.add_to_collection("losses", loss);
    let step = g.group("train_op", [w.parts()[0].assign_add([1.0f32, 1.0])]);
    g.add_operation_to_collection("train_op", step);
    // TensorFlow would take names of nodes for messages there.
    g.add_to_collection("model_variables", loss);
    g
}

fn written(g: &Graph, options: &MetaOptions) -> MetaGraphDef {
    let bytes = file::encode(&export_meta_graph(g, options).unwrap());
    file::decode(&bytes, "model.meta", "MetaGraphDef").unwrap()
}

#[test]
fn variables_are_written_to_their_collections() {
    let meta = written(&model(), &MetaOptions::new());
    let all = meta::variables(&meta, "model.meta").unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|v| (&*v.variable_name, v.trainable))
        .collect();
    let parts = [("w/part_0:0", true), ("w/part_1:0", true)];
    assert_eq!(names, [parts[0], parts[1], ("global_step:0", false)]);
    let part: &VariableDef = &all[1];
    assert!(part.is_resource);
    assert_eq!(part.initializer_name, "w/part_1/Assign");
    assert_eq!(part.snapshot_name, "w/part_1/Read/ReadVariableOp:0");
    assert_eq!(part.initial_value_name, "w/part_1/initial_value:0");
    let slice = part.save_slice_info_def.as_ref().unwrap();
    assert_eq!((&*slice.full_name, &slice.full_shape[..]), ("w", &[4][..]));
    assert_eq!(
        (&slice.var_offset[..], &slice.var_shape[..]),
        (&[2][..], &[2][..])
    );

    let of = |key: &str| meta.collection_def[key].kind.clone().unwrap();
    let Kind::BytesList(steps) = of("global_step") else {
        panic!("no messages");
    };
    assert_eq!(steps.value.len(), 1);
    for (key, wanted) in [("losses", "loss:0"), ("train_op", "train_op")] {
        let Kind::NodeList(list) = of(key) else {
            panic!("no names");
        };
        assert_eq!(list.value, [wanted]);
    }
    assert!(!meta.collection_def.contains_key("model_variables"));
}

#[test]
fn meta_graphs_round_trip() {
    let g = model();
    let (x, loss) = (g.find("x").unwrap(), g.find("loss").unwrap());
    let signature = meta::signature([("in", x.output(0))], [("out", loss.output(0))]);
    let saver = SaverDef {
        restore_op_name: "save/restore_all".into(),
        ..SaverDef::default()
    };
    let options = MetaOptions::new().tag("serve").tag("gpu");
    let options = options
        .signature("s", signature.clone())
        .saver(saver.clone());
    let meta = written(&g, &options);
    assert_eq!(meta.meta_info_def.as_ref().unwrap().tags, ["serve", "gpu"]);
    assert_eq!(
        (&meta.signature_def["s"], meta.saver_def.as_ref()),
        (&signature, Some(&saver))
    );

    let again = Graph::new();
    import_meta_graph(&again, &meta, &ImportOptions::new()).unwrap();
    let of = |g: &Graph| -> Vec<_> {
        let all = g.variables().into_iter();
        all.map(|v| (v.name, v.trainable, v.slice)).collect()
    };
    assert_eq!(of(&again), of(&g));
    assert_eq!(again.collection("losses")[0].name(), "loss:0");
    assert_eq!(again.operations_in("train_op")[0].name(), "train_op");
    assert_eq!(
        written(&again, &options).collection_def,
        meta.collection_def
    );
}
