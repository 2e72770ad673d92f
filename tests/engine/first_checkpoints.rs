//! Checkpoints of TensorFlow's first format: the ops that read them.

use std::path::PathBuf;

use thalweg::device::Files;
use thalweg::prelude::*;
use thalweg_tests::folders::Folder;

/// The folder of TensorFlow's checkpoints.
fn golden() -> PathBuf {
    let folder = thalweg_tests::root().join("tests/golden/checkpoints");
    folder.canonicalize().unwrap()
}

fn string<'g>(g: &'g Graph, text: &str) -> Output<'g> {
    g.constant(Tensor::strings(&[], &[text]).unwrap())
}

/// The elements as `first.jsonl` has them.
fn hex(tensor: &Tensor) -> serde_json::Value {
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match tensor.as_strings() {
        Ok(all) => all.iter().map(&digits).collect::<Vec<_>>().into(),
        Err(_) => digits(tensor.bytes()).into(),
    }
}

fn numpy_dtype(name: &str) -> DType {
    match name {
        "float16" => DType::F16,
        "float32" => DType::F32,
        "float64" => DType::F64,
        "complex64" => DType::C64,
        "complex128" => DType::C128,
        "string" => DType::String,
        "bool" => DType::Bool,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "uint16" => DType::U16,
        other => panic!("{other}"),
    }
}

#[test]
fn checkpoints_of_tensorflows_first_format_are_restored() {
    let options = SessionOptions::new().files(Files::within([golden()]).unwrap());
    let lines = std::fs::read_to_string(golden().join("first.jsonl")).unwrap();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| line[name].as_str().unwrap();
        let (name, dtype) = (field("name"), numpy_dtype(field("dtype")));
        let g = Graph::new();
        let file = string(&g, golden().join(field("checkpoint")).to_str().unwrap());
        let list = |text: &str| g.constant(Tensor::strings(&[1], &[text]).unwrap());
        let newer = g.op("RestoreV2").inputs([file, list(name), list("")]);
        let newer = newer.attr("dtypes", vec![dtype]).output();
        let older = g.op("Restore").inputs([file, string(&g, name)]);
        let older = older.attr("dt", dtype).output();
        let session = Session::with_options(&g, options.clone()).unwrap();
        for op in [newer, older] {
            let tensor = session.run::<Tensor>(op, []).unwrap();
            assert_eq!(
                serde_json::Value::from(tensor.dims()),
                line["shape"],
                "{name}"
            );
            assert_eq!(hex(&tensor), line["data"], "{name}");
        }
    }
}

#[test]
fn slices_of_the_first_format_are_put_together_and_mistakes_are_named() {
    let g = Graph::new();
    let options = SessionOptions::new().files(Files::within([golden()]).unwrap());
    let at = |file: &str| string(&g, golden().join(file).to_str().unwrap());
    let read = |file: &str, name: &str, slice: &str| {
        let node = g.op("RestoreSlice").input(at(file)).input(string(&g, name));
        node.input(string(&g, slice))
            .attr("dt", DType::F32)
            .output()
    };
    let parts = "first-parts-?????-of-00002";
    let whole = read(parts, "rows", "");
    let middle = read(parts, "rows", "4 3 1,2:0,2");
    let cases = [
        (read(parts, "rows", "4 4 1,2:0,2"), "whose dimensions are"),
        (
            read(parts, "other", ""),
            "Key other not found in checkpoint",
        ),
        (
            read("first-parts-00000-of-00002", "rows", ""),
            "lacks slices",
        ),
        (
            read("first", "matrix/int32", ""),
            "restore it as what it was saved as",
        ),
        (read("nothing", "rows", ""), "there is no checkpoint"),
        (read("dtypes.index", "rows", ""), "damaged"),
    ];
    let session = Session::with_options(&g, options).unwrap();
    let whole = session.run::<Tensor>(whole, []).unwrap();
    let middle = session
        .run::<Tensor>(middle, [])
        .unwrap()
        .to_vec::<f32>()
        .unwrap();
    let all = whole.to_vec::<f32>().unwrap();
    assert_eq!(middle, [all[3], all[4], all[6], all[7]]);
    for (op, said) in cases {
        let error = session.run::<Tensor>(op, []).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    // The newer format is read by the older op, too.
    let g = Graph::new();
    let file = string(&g, golden().join("dtypes").to_str().unwrap());
    let node = g
        .op("Restore")
        .input(file)
        .input(string(&g, "vector/int64"));
    let old = node.attr("dt", DType::I64).output();
    let options = SessionOptions::new().files(Files::within([golden()]).unwrap());
    let session = Session::with_options(&g, options).unwrap();
    assert_eq!(session.run::<Tensor>(old, []).unwrap().dims(), [5]);
}

#[test]
fn damaged_files_of_the_first_format_are_errors() {
    let folder = Folder::new("first");
    let bytes = std::fs::read(golden().join("first")).unwrap();
    let path = folder.join("damaged");
    let g = Graph::new();
    let options = SessionOptions::new().files(Files::within([folder.path()]).unwrap());
    let session = Session::with_options(&g, options).unwrap();
    let file = string(&g, path.to_str().unwrap());
    let node = g.op("Restore").input(file).input(string(&g, "scalar"));
    let read = node.attr("dt", DType::F32).output();
    for at in (0..bytes.len()).step_by(97) {
        let mut spoiled = bytes.clone();
        spoiled[at] ^= 0x55;
        for damaged in [&spoiled[..], &bytes[..at]] {
            std::fs::write(&path, damaged).unwrap();
            // The footer's padding is not checked.
            if let Err(error) = session.run::<Tensor>(read, []) {
                assert!(error.to_string().contains("damaged"), "{error}");
            }
        }
    }
}
