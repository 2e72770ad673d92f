//! The program on the command line: files in, files out, and error messages.

mod support;

use std::process::Output;

use npyz::{AutoSerialize, Order, WriterBuilder};
use prost::Message;
use support::{Folder, fails, thalweg, works};
use thalweg_graph::Graph;
use thalweg_graphdef::messages::collection_def::{BytesList, Kind};
use thalweg_graphdef::messages::meta_graph_def::MetaInfoDef;
use thalweg_graphdef::messages::{
    CollectionDef, MetaGraphDef, NodeDef, SavedModel, SignatureDef, TensorInfo, VariableDef,
    tensor_info::Encoding,
};
use thalweg_graphdef::{ExportOptions, GraphDef, export};
use thalweg_ops::{LinalgOps, NewGraph, SourceOps, StateOps};
use thalweg_tensor::DType;

/// Files of messages and arrays.
trait Write {
    fn write(&self, name: &str, message: &impl Message) -> String;

    fn array<T: AutoSerialize>(
        &self,
        name: &str,
        dims: &[u64],
        order: Order,
        elements: Vec<T>,
    ) -> String;
}

impl Write for Folder {
    fn write(&self, name: &str, message: &impl Message) -> String {
        std::fs::write(self.join(name), message.encode_to_vec()).unwrap();
        self.at(name)
    }

    fn array<T: AutoSerialize>(
        &self,
        name: &str,
        dims: &[u64],
        order: Order,
        elements: Vec<T>,
    ) -> String {
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::new()
            .default_dtype()
            .shape(dims)
            .order(order);
        let mut array = options.writer(&mut bytes).begin_nd().unwrap();
        array.extend(elements).unwrap();
        array.finish().unwrap();
        std::fs::write(self.join(name), bytes).unwrap();
        self.at(name)
    }
}

/// `y = x w` for a variable `w` of ones, to which `up` adds ones; `words` are two strings.
fn model() -> GraphDef {
    let g = Graph::new();
    let x = g
        .op("Placeholder")
        .name("x")
        .attr("dtype", DType::F32)
        .output();
    let w = g.variable("w", [[1.0f32, 1.0], [1.0, 1.0], [1.0, 1.0]]);
    let _ = x.matmul(w.value()).named("y");
    let _ = g.name_scope("up", || {
        w.assign_add(g.constant([[1.0f32, 1.0], [1.0, 1.0], [1.0, 1.0]]))
    });
    let words = thalweg_tensor::Tensor::strings(&[2], &["a", "bcd"]).unwrap();
    let _ = g.constant(words).named("words");
    export(&g, &ExportOptions::default()).unwrap()
}

/// Name of the only node of this op with this prefix.
fn named(def: &GraphDef, op: &str, prefix: &str) -> String {
    let mut all = def
        .node
        .iter()
        .filter(|n| n.op == op && n.name.starts_with(prefix));
    all.next().unwrap().name.clone()
}

fn array<T: npyz::Deserialize>(file: &str, name: &str) -> (Vec<u64>, Vec<T>) {
    let mut npz = zip::ZipArchive::new(std::fs::File::open(file).unwrap()).unwrap();
    let member = npz.by_name(&format!("{name}.npy")).unwrap();
    let array = npyz::NpyFile::new(member).unwrap();
    (array.shape().to_vec(), array.into_vec().unwrap())
}

#[test]
fn fetched_values_of_all_steps_are_written() {
    let folder = Folder::new("steps");
    let def = model();
    let file = folder.write("model.pb", &def);
    let (init, up) = (
        named(&def, "AssignVariableOp", "w"),
        named(&def, "AssignAddVariableOp", "up"),
    );
    let x = folder.array(
        "x.npy",
        &[2, 3],
        Order::C,
        vec![0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0],
    );
    let turned = folder.array(
        "t.npy",
        &[2, 3],
        Order::Fortran,
        vec![0.0f32, 3.0, 1.0, 4.0, 2.0, 5.0],
    );
    let out = folder.at("out.npz");
    for x in [x, turned] {
        let feed = format!("x={x}");
        let run = [
            "run", &file, "--feed", &feed, "--fetch", "y:0", "--fetch", "words", "--target", &up,
        ];
        let rest = [
            "--steps",
            "2",
            "--init",
            &init,
            "--threads",
            "1",
            "--out",
            &out,
        ];
        let said = works(&[&run[..], &rest].concat());
        assert!(
            said.contains("2 steps") && said.contains("y:0: f32[2, 2]"),
            "{said}"
        );
        // A step reads the variable before it updates it.
        assert_eq!(
            array(&out, "y:0/0"),
            (vec![2, 2], vec![3.0f32, 3.0, 12.0, 12.0])
        );
        assert_eq!(
            array(&out, "y:0/1"),
            (vec![2, 2], vec![6.0f32, 6.0, 24.0, 24.0])
        );
        assert_eq!(
            array(&out, "words/1"),
            (vec![2], vec![b"a".to_vec(), b"bcd".to_vec()])
        );
        let told = works(&[&run[..], &rest, &["--json"]].concat());
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["steps"], 2);
        assert_eq!(told["fetches"][0]["shape"], serde_json::json!([2, 2]));
    }
    assert_eq!(folder.files(), ["model.pb", "out.npz", "t.npy", "x.npy"]);
}

#[test]
fn every_dtype_of_numpy_is_fed_and_fetched() {
    fn check<T: AutoSerialize + npyz::Deserialize + Clone + PartialEq + std::fmt::Debug>(
        folder: &Folder,
        dtype: DType,
        elements: Vec<T>,
    ) {
        let g = Graph::new();
        let x = g.op("Placeholder").name("x").attr("dtype", dtype).output();
        let _ = x.named("y");
        let file = folder.write("one.pb", &export(&g, &ExportOptions::default()).unwrap());
        let feed = format!(
            "x={}",
            folder.array(
                "x.npy",
                &[elements.len() as u64],
                Order::C,
                elements.clone()
            )
        );
        let out = folder.at("one.npz");
        works(&["run", &file, "--feed", &feed, "--fetch", "y", "--out", &out]);
        assert_eq!(array::<T>(&out, "y/0").1, elements, "{dtype}");
    }
    let folder = Folder::new("dtypes");
    check(&folder, DType::Bool, vec![true, false]);
    check(&folder, DType::I8, vec![-1i8, 2]);
    check(&folder, DType::I16, vec![-1i16, 2]);
    check(&folder, DType::I32, vec![-1i32, 2]);
    check(&folder, DType::I64, vec![-1i64, 2]);
    check(&folder, DType::U8, vec![255u8, 2]);
    check(&folder, DType::U16, vec![255u16, 2]);
    check(&folder, DType::U32, vec![!0u32, 2]);
    check(&folder, DType::U64, vec![!0u64, 2]);
    check(
        &folder,
        DType::F16,
        vec![thalweg_tensor::half::f16::from_f32(1.5)],
    );
    check(&folder, DType::F32, vec![f32::INFINITY, -0.0]);
    check(&folder, DType::F64, Vec::<f64>::new());
}

#[test]
fn errors_are_reported_and_leave_no_file() {
    let folder = Folder::new("mistakes");
    let file = folder.write("model.pb", &model());
    let wrong = folder.array("wrong.npy", &[3], Order::C, vec![1i64, 2, 3]);
    std::fs::write(folder.join("no.npy"), b"nothing").unwrap();
    let mut lying = std::fs::read(&wrong).unwrap();
    lying.truncate(lying.len() - 8);
    std::fs::write(folder.join("lying.npy"), lying).unwrap();
    let out = folder.at("out.npz");
    let run = |rest: &[&str]| fails(&[&["run", &file, "--out", &out][..], rest].concat());
    let feed = |name: &str| format!("x={}", folder.at(name));
    for (rest, said) in [
        (&["--fetch", "z"][..], "--fetch z: "),
        (&["--fetch", "yy"], "did you mean y?"),
        (&["--fetch", "y:1"], "the node has 1 output;"),
        (&["--target", "z"], "no node of this name"),
        (&["--fetch", "y", "--fetch", "y"], "fetched twice"),
        (&["--fetch", "y"], "placeholder 'x'"),
        (&[], "nothing is asked for"),
        (&["--fetch", "y", "--feed", &feed("none.npy")], "none.npy: "),
        (&["--fetch", "y", "--feed", &feed("no.npy")], "no.npy: "),
        (
            &["--fetch", "y", "--feed", &feed("lying.npy")],
            "lying.npy: ",
        ),
        (&["--fetch", "y", "--feed", &feed("wrong.npy")], "takes f32"),
    ] {
        let error = run(rest);
        assert!(error.contains(said), "{rest:?}: {error}");
    }
    assert!(fails(&["run", &folder.at("none.pb"), "--target", "x"]).contains("none.pb: "));
    assert!(fails(&["run", &folder.at("no.npy"), "--target", "x"]).contains("is no GraphDef"));
    assert!(fails(&["graph", &folder.at("graph.pbtxt")]).contains("as_text=False"));
    assert!(fails(&["graph", folder.path().to_str().unwrap()]).contains("saved_model.pb"));
    assert_eq!(
        folder.files(),
        ["lying.npy", "model.pb", "no.npy", "wrong.npy"]
    );
}

#[test]
fn an_uninitialized_variable_is_reported_with_its_initializer() {
    let folder = Folder::new("initializers");
    let x = folder.array("x.npy", &[1, 3], Order::C, vec![1.0f32, 2.0, 3.0]);
    let out = folder.at("out.npz");
    let feed = format!("x={x}");
    let step = |file: &str, rest: &[&str]| {
        let asked = ["run", file, "--fetch", "y", "--feed", &feed, "--out", &out];
        thalweg(&[&asked[..], rest].concat())
    };
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();

    // Without a group: each variable's own initializer.
    let mut def = model();
    let file = folder.write("model.pb", &def);
    let error = said(&step(&file, &[]));
    assert!(
        error.ends_with("variable 'w' has no value: add --init w/Assign\n"),
        "{error}"
    );
    assert!(step(&file, &["--init", "w/Assign"]).status.success());

    // TensorFlow's `global_variables_initializer`, and a group around it. Training updates are no initializers.
    let group = |name: &str, controls: &[&str]| NodeDef {
        name: name.into(),
        op: "NoOp".into(),
        input: controls.iter().map(|c| format!("^{c}")).collect(),
        ..NodeDef::default()
    };
    def.node
        .push(group("train", &["up/AssignAddVariableOp", "w/Assign"]));
    def.node.push(group("start", &["w/Assign"]));
    def.node.push(group("all", &["start"]));
    let file = folder.write("grouped.pb", &def);
    let error = said(&step(&file, &[]));
    assert!(
        error.ends_with("variable 'w' has no value: add --init start\n"),
        "{error}"
    );
    let done = step(&file, &["--init", "start"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(
        String::from_utf8(done.stdout)
            .unwrap()
            .starts_with("1 step in ")
    );

    // A variable without a declaration in the file.
    def.node.retain(|n| !n.name.ends_with("/Assign"));
    for node in &mut def.node {
        node.input.retain(|i| i != "^w/Assign");
    }
    let file = folder.write("bare.pb", &def);
    let error = said(&step(&file, &[]));
    assert!(
        error.ends_with("no node of the file gives it its first one\n"),
        "{error}"
    );
}

#[test]
fn a_graph_that_cannot_run_is_described() {
    let folder = Folder::new("told");
    let mut def = model();
    def.node.push(NodeDef {
        name: "odd".into(),
        op: "NoSuchOp".into(),
        ..NodeDef::default()
    });
    let file = folder.write("model.pb", &def);
    let said = works(&["graph", &file]);
    for part in [
        "MatMul",
        "w ",
        "24 bytes",
        "odd",
        "NoSuchOp",
        "it cannot be run",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let told: serde_json::Value =
        serde_json::from_str(&works(&["graph", &file, "--json"])).unwrap();
    assert_eq!(told["unsupported"]["ops"][0]["node"], "odd");
    assert_eq!(told["variable_bytes"], 24);
    assert_eq!(told["inputs"][0]["dtype"], "f32");
    assert!(fails(&["graph", &file, "--dot", &folder.at("g.dot")]).contains("NoSuchOp (odd)"));
    let file = folder.write("model.pb", &model());
    works(&[
        "graph",
        &file,
        "--dot",
        &folder.at("g.dot"),
        "--text",
        &folder.at("g.txt"),
    ]);
    assert!(
        std::fs::read_to_string(folder.at("g.dot"))
            .unwrap()
            .starts_with("digraph")
    );
    assert!(
        std::fs::read_to_string(folder.at("g.txt"))
            .unwrap()
            .contains("\ny = MatMul(")
    );
}

fn meta_graph(tag: &str) -> MetaGraphDef {
    let def = model();
    let variable = VariableDef {
        variable_name: format!("{}:0", named(&def, "VarHandleOp", "w")),
        initializer_name: named(&def, "AssignVariableOp", "w"),
        snapshot_name: format!("{}:0", named(&def, "ReadVariableOp", "w")),
        is_resource: true,
        ..VariableDef::default()
    };
    let list = BytesList {
        value: vec![variable.encode_to_vec()],
    };
    let collection = CollectionDef {
        kind: Some(Kind::BytesList(list)),
    };
    let output = TensorInfo {
        dtype: 1,
        encoding: Some(Encoding::Name("y:0".into())),
        ..TensorInfo::default()
    };
    let signature = SignatureDef {
        outputs: [("scores".to_owned(), output)].into(),
        method_name: "tensorflow/serving/predict".into(),
        ..SignatureDef::default()
    };
    MetaGraphDef {
        meta_info_def: Some(MetaInfoDef {
            tags: vec![tag.to_owned()],
            ..MetaInfoDef::default()
        }),
        graph_def: Some(def),
        collection_def: [("trainable_variables".to_owned(), collection)].into(),
        signature_def: [("serving_default".to_owned(), signature)].into(),
        ..MetaGraphDef::default()
    }
}

#[test]
fn meta_graphs_and_saved_models_are_described() {
    let folder = Folder::new("models");
    let meta = folder.write("model.meta", &meta_graph("train"));
    let said = works(&["graph", &meta]);
    for part in [
        "trainable_variables",
        "serving_default",
        "output scores",
        "y:0",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let out = folder.at("out.npz");
    works(&["run", &meta, "--fetch", "words", "--out", &out]);
    let model = SavedModel {
        saved_model_schema_version: 1,
        meta_graphs: vec![meta_graph("train"), meta_graph("serve")],
    };
    folder.write("saved_model.pb", &model);
    let at = folder.path().to_str().unwrap();
    assert!(works(&["graph", at]).contains("tags: serve"));
    assert!(works(&["graph", at, "--tag", "train"]).contains("tags: train"));
    let error = fails(&["graph", at, "--tag", "gpu"]);
    assert!(error.contains("[train], [serve]"), "{error}");
    let mut wrong = meta_graph("train");
    wrong
        .graph_def
        .as_mut()
        .unwrap()
        .node
        .retain(|n| n.op != "AssignVariableOp");
    let wrong = folder.write("wrong.meta", &wrong);
    let error = fails(&["run", &wrong, "--fetch", "words", "--out", &out]);
    assert!(
        error.contains("as its initializer, which is not in the graph"),
        "{error}"
    );
}

#[test]
fn a_meta_graph_declares_its_variables() {
    let g = Graph::new();
    let options = thalweg_graphdef::ImportOptions::new().prefix("p");
    thalweg_graphdef::import_meta_graph(&g, &meta_graph("train"), &options).unwrap();
    let variables = g.variables();
    assert_eq!(variables.len(), 1);
    assert!(variables[0].trainable && variables[0].name.starts_with("p/w"));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_but_a_closed_pipe_is_none() {
    use std::process::{Command, Stdio};
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/frozen/softmax.pb"
    );
    for arguments in [["inspect", path], ["graph", path]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).stderr(Stdio::piped());
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = command.stdout(full.unwrap()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = "error: standard output: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), &*said), (Some(1), expected));

        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*said), (Some(0), ""));
    }
}

/// The model is not there either, and would be read first.
#[test]
fn an_output_file_that_cannot_be_written_is_refused_before_the_work() {
    let folder = Folder::new("outputs");
    let (out, is_folder) = (folder.at("none/out.svg"), folder.at("folder.npz"));
    std::fs::create_dir(&is_folder).unwrap();
    let npz = folder.at("none/out.npz");
    let model = folder.at("none.pb");
    let calls: [&[&str]; 6] = [
        &["graph", &model, "--dot", &out],
        &["graph", &model, "--text", &out],
        &["freeze", &model, "--outputs", "y", "--out", &out],
        &["run", &model, "--fetch", "y", "--out", &out],
        &["bench", "allreduce", "--plot", &out],
        &["weights", "convert", &model, &npz],
    ];
    for call in calls {
        let said = fails(call);
        assert!(said.contains("/none/out."), "{call:?}: {said}");
        assert!(said.contains("make its folder first"), "{call:?}: {said}");
    }
    let said = fails(&["weights", "convert", &model, &is_folder]);
    assert!(
        said.contains("is a folder: give the name of a file"),
        "{said}"
    );
    // Nothing is left behind by a check that succeeds.
    fails(&["graph", &model, "--dot", &folder.at("out.dot")]);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1);
}
