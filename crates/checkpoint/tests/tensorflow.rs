//! TensorFlow reads the checkpoints written here.

mod support;

use serde_json::Value;
use support::{Folder, hex, numpy_name, plain_tensors, python};
use thalweg_checkpoint::{BundleReader, BundleWriter, MergeOptions, SliceSpec, bundle, state};
use thalweg_tensor::Tensor;

/// TensorFlow's output, a JSON object a line; `None` without TensorFlow.
fn asked(arguments: &[&str]) -> Option<Vec<Value>> {
    python::asked("tensorflow", "reads.py", arguments, "")
}

/// Tensors of every dtype, and of strings.
fn tensors() -> Vec<(String, Tensor)> {
    let mut all = plain_tensors();
    let text = ["", "a", "h\u{e9}", "\0\u{1}", &"long ".repeat(100), "z"];
    all.push(("text".to_owned(), Tensor::strings(&[2, 3], &text).unwrap()));
    all.push((
        "no text".to_owned(),
        Tensor::strings::<&str>(&[0], &[]).unwrap(),
    ));
    all.push(("one text/\u{436}".to_owned(), Tensor::from("alone")));
    all
}

#[test]
fn tensorflow_reads_every_dtype_and_merged_parts() {
    let folder = Folder::new("tensorflow");
    let prefix = folder.join("model.ckpt-7");
    let mut writer = BundleWriter::create(&prefix).unwrap();
    for (name, tensor) in tensors().iter().rev() {
        writer.add(name, tensor).unwrap();
    }
    writer.finish().unwrap();
    let parts = [0, 1, 2].map(|i| folder.join(&format!("temp/part-{i}")));
    for (i, part) in parts.iter().enumerate() {
        let mut writer = BundleWriter::create(part).unwrap();
        for (name, tensor) in tensors().iter().skip(i).step_by(3) {
            writer.add(name, tensor).unwrap();
        }
        writer.finish().unwrap();
    }
    let merged = folder.join("merged");
    bundle::merge(&parts, &merged, MergeOptions::default()).unwrap();
    BundleReader::open(&merged).unwrap().verify().unwrap();
    assert!(!folder.join("temp").exists());

    let prefixes = [&prefix, &merged].map(|p| p.to_str().unwrap());
    let Some(found) = asked(&["read", prefixes[0], prefixes[1]]) else {
        return;
    };
    assert_eq!(found.len(), 2 * tensors().len());
    for (name, tensor) in tensors() {
        let same = found.iter().filter(|line| line["name"] == name.as_str());
        assert_eq!(same.clone().count(), 2);
        for line in same {
            assert_eq!(line["dtype"], numpy_name(tensor.dtype()), "{name}");
            assert_eq!(line["shape"], Value::from(tensor.dims()), "{name}");
            assert_eq!(line["data"], hex(&tensor), "{name}");
        }
    }
}

#[test]
fn tensorflow_1_restores_partitioned_variables_from_whole_ones_and_from_other_parts() {
    let rows: Vec<f32> = (0..15).map(|i| i as f32).collect();
    let whole = Tensor::new(&[5, 3], &rows).unwrap();
    let kernel = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let folder = Folder::new("tensorflow");
    let mut writer = BundleWriter::create(&folder.join("whole")).unwrap();
    writer.add("rows", &whole).unwrap();
    writer.add("kernel", &kernel).unwrap();
    writer.finish().unwrap();
    let reader = BundleReader::open(folder.join("whole")).unwrap();
    let mut writer = BundleWriter::create(&folder.join("parts")).unwrap();
    // TensorFlow requests rows 0 to 2 and 3 to 4.
    for slice in ["5 3 0,3:0,1", "5 3 0,3:1,2", "5 3 3,2:-"] {
        let slice = SliceSpec::parse(slice).unwrap();
        let part = reader.slice("rows", &slice).unwrap();
        writer.add_slice("rows", &slice, &part).unwrap();
    }
    for slice in ["2 2 0,1:0,2", "2 2 1,1:-"] {
        let slice = SliceSpec::parse(slice).unwrap();
        let part = reader.slice("kernel", &slice).unwrap();
        writer.add_slice("kernel", &slice, &part).unwrap();
    }
    writer.finish().unwrap();
    for name in ["whole", "parts"] {
        let Some(found) = asked(&["restore", folder.join(name).to_str().unwrap()]) else {
            return;
        };
        assert_eq!(found[0]["data"], hex(&whole), "{name}");
        assert_eq!(found[1]["data"], hex(&kernel), "{name}");
    }
}

#[test]
fn tensorflow_finds_the_newest_checkpoint_by_the_state_file() {
    for relative_paths in [false, true] {
        let folder = Folder::new("tensorflow");
        let options = state::RetentionOptions {
            relative_paths,
            ..Default::default()
        };
        let mut retention = state::Retention::open(folder.path(), options).unwrap();
        for step in 1..=2 {
            let prefix = folder.join(&format!("m\u{f6}del \"x\".ckpt-{step}"));
            let mut writer = BundleWriter::create(&prefix).unwrap();
            writer.add("step", &Tensor::scalar(step)).unwrap();
            writer.finish().unwrap();
            retention.saved(&prefix).unwrap();
        }
        let newest = state::latest_checkpoint(folder.path()).unwrap().unwrap();
        let Some(found) = asked(&["latest", folder.path().to_str().unwrap()]) else {
            return;
        };
        assert_eq!(found[0]["latest"], newest.to_str().unwrap());
    }
}
