//! The format's Python package reads the files written here, and its files are read here.

mod support;

use serde_json::{Value, json};
use support::{Folder, hex, numpy_name, plain_tensors, python};
use thalweg_checkpoint::safetensors::SafetensorsReader;
use thalweg_checkpoint::{CheckpointError, save_weights};
use thalweg_tensor::Tensor;

fn asked(arguments: &[&str], input: &str) -> Option<Vec<Value>> {
    python::asked("safetensors", "reads_safetensors.py", arguments, input)
}

/// The script's line about a tensor.
fn line(name: &str, tensor: &Tensor) -> Value {
    json!({
        "name": name,
        "dtype": numpy_name(tensor.dtype()),
        "shape": tensor.dims(),
        "data": hex(tensor),
    })
}

#[test]
fn safetensors_for_python_reads_every_dtype() {
    let folder = Folder::new("safetensors");
    let path = folder.join("ours.safetensors");
    save_weights(&path, plain_tensors()).unwrap();
    let Some(found) = asked(&["read", path.to_str().unwrap()], "") else {
        return;
    };
    assert_eq!(found.len(), plain_tensors().len());
    for (name, tensor) in plain_tensors() {
        let same = found.iter().find(|line| line["name"] == name.as_str());
        assert_eq!(same, Some(&line(&name, &tensor)));
    }
}

#[test]
fn files_of_safetensors_for_python_are_read() {
    let folder = Folder::new("safetensors");
    let path = folder.join("theirs.safetensors");
    let mut lines: Vec<Value> = plain_tensors()
        .iter()
        .map(|(name, tensor)| line(name, tensor))
        .collect();
    // The one dtype of the format that this engine does not have.
    lines.push(
        json!({"name": "complex", "dtype": "complex64", "shape": [1], "data": "00".repeat(8)}),
    );
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    if asked(&["write", path.to_str().unwrap()], &input).is_none() {
        return;
    }
    let reader = SafetensorsReader::open(&path).unwrap();
    assert_eq!(reader.names().count(), lines.len());
    for (name, tensor) in plain_tensors() {
        assert_eq!(reader.tensor(&name).unwrap(), tensor, "{name}");
    }
    let refused = reader.tensor("complex").unwrap_err();
    assert!(
        matches!(refused, CheckpointError::Unsupported { .. }),
        "{refused}"
    );
}
