//! Tests of SavedModels: loading, restoring, signatures, damaged folders.

use std::path::PathBuf;

use thalweg_graph::{Graph, OutputId};
use thalweg_graphdef::messages::collection_def::{Kind, NodeList};
use thalweg_graphdef::messages::{CollectionDef, SavedModel as SavedModelDef};
use thalweg_graphdef::{ImportOptions, file, import};
use thalweg_ops::{LinalgOps, MathOps, NewGraph, SourceOps, StateOps};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::{Saver, TrainError};

use super::{DEFAULT_SIGNATURE, ModelOptions, SavedModel, SavedModelError, VARIABLES, save_model};
use thalweg_optim::{GradientDescent, Optimizer};

/// A temporary folder, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("thalweg-saved-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Trains and saves a model with a partitioned variable, a reference and a counter. Returns its output for ones.
fn saved(folder: &Folder) -> Tensor {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 4]);
    let w = g.device("/job:ps/task:0", || {
        let initial: Vec<f32> = (0..12).map(|i| i as f32 * 0.1 - 0.5).collect();
        let initial = Tensor::new(&[4, 3], &initial).unwrap();
        g.partitioned_variable("w", initial, 2)
    });
    g.untrained_variable("global_step", 5i64);
    let y = x.matmul(w.value()).tanh().named("y");
    let train = GradientDescent::new(0.1).minimize(y.square());
    let again = {
        // The session that trains has only local devices.
        let def = thalweg_graphdef::export_meta_graph(&g, &thalweg_graphdef::MetaOptions::new());
        let mut def = def.unwrap();
        thalweg_graphdef::export::clear_devices(def.graph_def.as_mut().unwrap());
        let g = Graph::new();
        thalweg_graphdef::import_meta_graph(&g, &def, &ImportOptions::new()).unwrap();
        g
    };
    let session = Session::new(&again).unwrap();
    session.run(again.initializers(), []).unwrap();
    let ones = Tensor::new(&[2, 4], &[1.0f32; 8]).unwrap();
    let train = again.find(&train.name()).unwrap();
    let (x, y) = (again.find("x").unwrap().output(0), again.find("y").unwrap());
    let y = y.output(0);
    session.run(train, [x.feed(ones.clone())]).unwrap();
    let nodes = again.snapshot().len();
    let options = ModelOptions::new().signature(DEFAULT_SIGNATURE, [("in", x)], [("out", y)]);
    again.finalize();
    save_model(&session, &folder.0, &options).unwrap();
    assert_eq!(again.snapshot().len(), nodes);
    assert!(again.errors().is_empty());
    session.run(y, [x.feed(ones)]).unwrap()
}

fn edited(folder: &Folder, edit: impl FnOnce(&mut SavedModelDef)) {
    let path = folder.0.join(file::SAVED_MODEL);
    let mut def = file::decode(&std::fs::read(&path).unwrap(), "it", "SavedModel").unwrap();
    edit(&mut def);
    std::fs::write(&path, file::encode(&def)).unwrap();
}

#[test]
fn a_saved_model_is_loaded_with_the_same_values() {
    let folder = Folder::new("round");
    let restored_variables = saved(&folder);
    let model = SavedModel::load(&folder.0).unwrap();
    let ones = Tensor::new(&[2, 4], &[1.0f32; 8]).unwrap();
    let out = model.run(DEFAULT_SIGNATURE, &[("in", ones)]).unwrap();
    assert_eq!(out["out"], restored_variables);
    let graph = model.session().graph();
    let step = graph
        .variables()
        .into_iter()
        .find(|v| v.name == "global_step");
    let step: i64 = model.session().run(step.unwrap().value, []).unwrap();
    assert_eq!(step, 5);
    let reader = thalweg_checkpoint::BundleReader::open(folder.0.join(VARIABLES)).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["global_step", "w"]);

    // A loaded model can be saved, and frozen, like any other.
    let second = Folder::new("second");
    let signature = model.signature(DEFAULT_SIGNATURE).unwrap();
    let of = |id| graph.output(id);
    let (x, y) = (of(signature.inputs["in"]), of(signature.outputs["out"]));
    let options = ModelOptions::new().signature("s", [("in", x)], [("out", y)]);
    save_model(model.session(), &second.0, &options).unwrap();
    let again = SavedModel::load(&second.0).unwrap();
    let ones = || Tensor::new(&[2, 4], &[1.0f32; 8]).unwrap();
    assert_eq!(
        again.run("s", &[("in", ones())]).unwrap()["out"],
        restored_variables
    );

    let out = again.signature("s").unwrap().outputs["out"];
    let def = crate::freeze(again.session(), &[again.session().graph().output(out)]).unwrap();
    let g = Graph::new();
    let frozen = import(&g, &def, &ImportOptions::new()).unwrap();
    let feed = frozen.output("x").unwrap().feed(ones());
    let found: Tensor = Session::new(&g)
        .unwrap()
        .run(frozen.output("y").unwrap(), [feed])
        .unwrap();
    assert_eq!(found, restored_variables);
}

#[test]
fn restore_nodes_map_variables_to_other_names() {
    let folder = Folder::new("names");
    let restored_variables = saved(&folder);
    // The keys in the nodes apply, not the names of the variables: both are exchanged here.
    let reader = thalweg_checkpoint::BundleReader::open(folder.0.join(VARIABLES)).unwrap();
    let mut writer =
        thalweg_checkpoint::BundleWriter::create(&folder.0.join("variables/other")).unwrap();
    writer.add("renamed", &reader.tensor("w").unwrap()).unwrap();
    writer
        .add("global_step", &reader.tensor("global_step").unwrap())
        .unwrap();
    writer.finish().unwrap();
    for end in ["index", "data-00000-of-00001"] {
        let of = |name: &str| folder.0.join(format!("variables/{name}.{end}"));
        std::fs::rename(of("other"), of("variables")).unwrap();
    }
    let ones = || Tensor::new(&[2, 4], &[1.0f32; 8]).unwrap();
    let error = SavedModel::load(&folder.0).unwrap_err().to_string();
    assert!(
        error.starts_with("Key w not found in checkpoint"),
        "{error}"
    );
    edited(&folder, |def| {
        let graph = def.meta_graphs[0].graph_def.as_mut().unwrap();
        let names = graph
            .node
            .iter_mut()
            .find(|n| n.name == "save/RestoreV2/tensor_names");
        let value = names.unwrap().attr.get_mut("value").unwrap();
        let new = Tensor::strings(&[3], &["renamed", "renamed", "global_step"]).unwrap();
        *value = thalweg_graphdef::attr::to_proto(&new.into()).unwrap();
    });
    let model = SavedModel::load(&folder.0).unwrap();
    let out = model.run(DEFAULT_SIGNATURE, &[("in", ones())]).unwrap();
    assert_eq!(out["out"], restored_variables);
}

#[test]
fn reference_variables_are_restored() {
    let folder = Folder::new("refs");
    let g = Graph::new();
    let v = g.op("VariableV2").attr("dtype", DType::F32).name("v");
    let v = v.attr("shape", Shape::from([2])).output();
    let first = g.constant([1.0f32, 2.0]);
    let assign = g.op("Assign").inputs([v, first]).name("v/Assign").build();
    let read = g.op("Identity").input(v).name("v/read").output();
    g.declare_variable(thalweg_graph::VariableInfo {
        name: "v".into(),
        handle: v.id(),
        value: read.id(),
        initializer: assign.id(),
        trainable: true,
        slice: None,
    });
    // An initial value that two variables share cannot be fed for both.
    g.variable("a", first);
    g.variable("b", first);
    let session = Session::new(&g).unwrap();
    let values = crate::values::handles(&g)
        .into_iter()
        .zip([3.0f32, 5.0, 7.0]);
    let values = values.map(|(h, n)| (h, Tensor::vector(&[n, n + 1.0])));
    crate::values::assign(&session, values).unwrap();
    let options = ModelOptions::new().signature("s", [], [("v", read)]);
    save_model(&session, &folder.0, &options).unwrap();

    let model = SavedModel::load(&folder.0).unwrap();
    assert_eq!(
        model.run("s", &[]).unwrap()["v"],
        Tensor::vector(&[3.0f32, 4.0])
    );
    let handles = crate::values::handles(model.session().graph());
    let found = crate::values::read(model.session(), &handles).unwrap();
    let restored_variables = [[3.0f32, 4.0], [5.0, 6.0], [7.0, 8.0]].map(|v| Tensor::vector(&v));
    assert_eq!(found, restored_variables);
}

#[test]
fn a_value_that_does_not_fit_is_rejected_before_any_assignment() {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let wrong = [
        (w.handle().id(), Tensor::scalar(2.0f32)),
        (w.handle().id(), Tensor::vector(&[2.0f32])),
    ];
    let error = crate::values::assign(&session, wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'w' is a variable of f32[], and is given f32[1]"
    );
    let wrong = [(w.value().id(), Tensor::scalar(2.0f32))];
    let error = crate::values::assign(&session, wrong).unwrap_err();
    let restored_variables =
        "'w/Read/ReadVariableOp' is the handle of no variable, and is given f32[]";
    assert_eq!(error.to_string(), restored_variables);
    assert_eq!(session.run::<f32>(w, []).unwrap(), 1.0);
}

#[test]
fn the_error_of_a_wrong_call_lists_the_inputs_of_the_signature() {
    let folder = Folder::new("calls");
    saved(&folder);
    let model = SavedModel::load(&folder.0).unwrap();
    let shown = folder.0.display();
    let error = model.run("predict", &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{shown} has no signature 'predict': it has serving_default")
    );
    let x = || Tensor::scalar(1.0f32);
    let none: &[(&str, Tensor)] = &[];
    for (given, told) in [
        (none, "none"),
        (&[("x", x())], "x"),
        (&[("in", x()), ("in", x())], "in, in"),
    ] {
        let error = model.run(DEFAULT_SIGNATURE, given).unwrap_err().to_string();
        let restored_variables =
            format!("{shown}: signature 'serving_default' takes in, and was given {told}");
        assert_eq!(error, restored_variables);
    }
}

#[test]
fn folders_without_a_valid_model_give_typed_errors() {
    let folder = Folder::new("hostile");
    let missing = SavedModel::load(&folder.0).unwrap_err();
    assert!(matches!(missing, SavedModelError::File(_)), "{missing}");

    saved(&folder);
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let error = save_model(&session, &folder.0, &ModelOptions::new()).unwrap_err();
    assert!(matches!(error, SavedModelError::Exists { .. }), "{error}");

    let path = folder.0.join(file::SAVED_MODEL);
    let bytes = std::fs::read(&path).unwrap();
    for cut in [1, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let error = SavedModel::load(&folder.0).unwrap_err();
        let typed = matches!(error, SavedModelError::File(_) | SavedModelError::Import(_));
        assert!(typed, "{error}");
    }
    let with = |edit: &dyn Fn(&mut SavedModelDef)| {
        std::fs::write(&path, &bytes).unwrap();
        edited(&folder, edit);
        SavedModel::load(&folder.0).unwrap_err()
    };
    let error = with(&|def| def.meta_graphs.clear());
    assert!(matches!(error, SavedModelError::Import(_)), "{error}");
    let error = with(&|def| {
        let all = &mut def.meta_graphs[0].signature_def;
        all.get_mut(DEFAULT_SIGNATURE)
            .unwrap()
            .inputs
            .get_mut("in")
            .unwrap()
            .encoding = None;
    });
    assert!(
        matches!(error, SavedModelError::Signature { .. }),
        "{error}"
    );
    let error = with(&|def| {
        let list = NodeList {
            value: vec!["nothing".into()],
        };
        let kind = Some(Kind::NodeList(list));
        let all = &mut def.meta_graphs[0].collection_def;
        all.insert("saved_model_main_op".into(), CollectionDef { kind });
    });
    assert!(matches!(error, SavedModelError::NoInit { .. }), "{error}");

    std::fs::write(&path, &bytes).unwrap();
    let data = folder.0.join("variables/variables.data-00000-of-00001");
    let whole = std::fs::read(&data).unwrap();
    std::fs::write(&data, &whole[1..]).unwrap();
    let error = SavedModel::load(&folder.0).unwrap_err();
    assert!(matches!(error, SavedModelError::Checkpoint(_)), "{error}");

    // Values of other shapes.
    std::fs::remove_file(&data).unwrap();
    let mut writer = thalweg_checkpoint::BundleWriter::create(&folder.0.join(VARIABLES)).unwrap();
    writer.add("w", &Tensor::vector(&[1.0f32])).unwrap();
    writer.add("global_step", &Tensor::scalar(1i64)).unwrap();
    writer.finish().unwrap();
    let error = SavedModel::load(&folder.0).unwrap_err();
    assert!(matches!(error, SavedModelError::Checkpoint(_)), "{error}");
}

#[test]
fn weights_of_each_format_fill_whole_and_partitioned_variables() {
    let folder = Folder::new("weights");
    saved(&folder);
    let model = SavedModel::load(&folder.0).unwrap();
    let read = thalweg_checkpoint::Weights::open(folder.0.join(VARIABLES)).unwrap();
    let w = read.tensor("w").unwrap();
    let path = folder.0.join("w.npz");
    for whole in [true, false] {
        // Other values, for the whole or for another entry with this name.
        let dims: &[usize] = if whole { &[4, 3] } else { &[3, 4] };
        let numbers: Vec<f32> = w
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .map(|v| v + 1.0)
            .collect();
        let tensor = Tensor::new(dims, &numbers).unwrap();
        thalweg_checkpoint::save_weights(&path, [("w", tensor)]).unwrap();
        let weights = thalweg_checkpoint::Weights::open(&path).unwrap();
        let done = super::restore_weights(model.session(), &weights, None);
        if !whole {
            let error = done.unwrap_err().to_string();
            assert!(
                error.contains("of w in") && error.contains("f32[3,4]"),
                "{error}"
            );
            continue;
        }
        let done = done.unwrap();
        assert_eq!(
            (done.restored, &done.missing[..]),
            (2, &["global_step".to_owned()][..])
        );
        let parts = model.session().graph().variables();
        let parts = parts
            .iter()
            .filter(|v| v.name.starts_with("w/"))
            .map(|v| v.value);
        let parts: Vec<OutputId> = parts.collect();
        let found: Vec<Tensor> = model.session().run(&parts, []).unwrap();
        let found = found
            .iter()
            .flat_map(|p| p.as_slice::<f32>().unwrap().to_vec());
        assert_eq!(found.collect::<Vec<_>>(), numbers);
    }
}

#[test]
fn the_search_in_nested_functions_is_bounded() {
    let g = Graph::new();
    let mut called = String::new();
    // Eight functions, each of which calls the one before a hundred times.
    for level in 0..8 {
        let body = g.body(&format!("f{level}"));
        let x = body.argument("x", &thalweg_graph::Fact::new(DType::F32, Shape::scalar()));
        let mut y = x * 1.0;
        for _ in 0..100 {
            if level > 0 {
                let call = body.op("PartitionedCall").input(y);
                let call = call.attr("f", thalweg_graph::Func::named(&called));
                y = call
                    .attr("Tin", vec![DType::F32])
                    .attr("Tout", vec![DType::F32])
                    .output();
            }
        }
        let closed = g.close_bodies(&[(body, &[x], &[y])]);
        for function in closed.functions {
            called = function.name.clone();
            g.define(function);
        }
    }
    let x = g.placeholder("x", DType::F32, []);
    let call = g.op("PartitionedCall").input(x).name("restore");
    let call = call.attr("f", thalweg_graph::Func::named(&called));
    let call = call
        .attr("Tin", vec![DType::F32])
        .attr("Tout", vec![DType::F32]);
    assert!(!call.build().is_invalid(), "{:?}", g.errors());
    g.variable("w", 1.0f32);
    let start = std::time::Instant::now();
    assert_eq!(
        super::keys::restored_variables(&g, Some("restore")).len(),
        1
    );
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}

#[test]
fn a_graph_with_undeclared_variables_is_not_saved_without_them() {
    let folder = Folder::new("undeclared");
    let g = Graph::new();
    let declared = g.variable("declared", 1.0f32);
    let hidden = g.variable("hidden", 2.0f32);
    let y = (declared + hidden.value()).named("y");
    // A GraphDef has no list of variables.
    let def = thalweg_graphdef::export(&g, &Default::default()).unwrap();
    let again = Graph::new();
    import(&again, &def, &ImportOptions::new()).unwrap();
    let session = Session::new(&again).unwrap();
    for handle in crate::values::handles(&again) {
        crate::values::assign(&session, [(handle, Tensor::scalar(3.0f32))]).unwrap();
    }
    assert_eq!(
        session
            .run::<f32>(again.find(&y.operation().name()).unwrap().output(0), [])
            .unwrap(),
        6.0
    );
    let wanted = ["declared", "hidden"];
    let refused = |error: &TrainError| matches!(error, TrainError::Undeclared { variables } if *variables == wanted);
    let error = save_model(&session, folder.0.join("model"), &ModelOptions::new()).unwrap_err();
    assert!(
        matches!(&error, SavedModelError::Step(e) if refused(e)),
        "{error}"
    );
    let error = Saver::new(&again)
        .save(&session, folder.0.join("c"), None)
        .unwrap_err();
    assert!(refused(&error), "{error}");
    assert!(refused(&Saver::sharded(&again).unwrap_err()));
    assert!(!folder.0.exists());

    // Handles of one shared name are of one variable.
    let g = Graph::new();
    g.variable("w", 1.0f32);
    let handle = |shared: &str| {
        let handle = g.op("VarHandleOp").attr("dtype", DType::F32);
        let handle = handle
            .attr("shape", Shape::from([]))
            .attr("shared_name", shared);
        handle.output()
    };
    let write = |to| {
        g.op("AssignVariableOp")
            .input(to)
            .input(g.constant(1.0f32))
            .build()
    };
    write(handle("w"));
    assert!(crate::values::undeclared(&g).is_empty());
    let other = handle("other");
    let read = || {
        g.op("ReadVariableOp")
            .input(other)
            .attr("dtype", DType::F32)
            .output()
    };
    // Nothing writes it or uses its value.
    read();
    assert!(crate::values::undeclared(&g).is_empty());
    read().square();
    assert_eq!(crate::values::undeclared(&g), ["VarHandleOp_1"]);
}
