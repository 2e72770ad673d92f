//! The format's Python package reads the files written here, and its files are read here.

mod support;

use serde_json::{Value, json};
use support::{Folder, hex, numpy_name, plain_tensors, python};
use thalweg_checkpoint::safetensors::SafetensorsReader;
use thalweg_checkpoint::{CheckpointError, save_weights};
use thalweg_tensor::{DType, Tensor};

fn asked(arguments: &[&str], input: &str) -> Option<Vec<Value>> {
    python::asked("safetensors", "reads_safetensors.py", arguments, input)
}

/// Tensors of the dtypes that the format has.
fn written_tensors() -> Vec<(String, Tensor)> {
    let all = plain_tensors().into_iter();
    all.filter(|(_, tensor)| tensor.dtype() != DType::C128)
        .collect()
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
    save_weights(&path, written_tensors()).unwrap();
    let Some(found) = asked(&["read", path.to_str().unwrap()], "") else {
        return;
    };
    assert_eq!(found.len(), written_tensors().len());
    for (name, tensor) in written_tensors() {
        let same = found.iter().find(|line| line["name"] == name.as_str());
        assert_eq!(same, Some(&line(&name, &tensor)));
    }
}

#[test]
fn files_of_safetensors_for_python_are_read() {
    let folder = Folder::new("safetensors");
    let path = folder.join("theirs.safetensors");
    let lines: Vec<Value> = written_tensors()
        .iter()
        .map(|(name, tensor)| line(name, tensor))
        .collect();
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    if asked(&["write", path.to_str().unwrap()], &input).is_none() {
        return;
    }
    let reader = SafetensorsReader::open(&path).unwrap();
    assert_eq!(reader.names().count(), lines.len());
    for (name, tensor) in written_tensors() {
        assert_eq!(reader.tensor(&name).unwrap(), tensor, "{name}");
    }
}

#[test]
fn dtypes_of_one_side_alone_are_refused() {
    let folder = Folder::new("safetensors");
    let header = r#"{"x":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}}"#;
    let length = (header.len() as u64).to_le_bytes();
    let path = folder.join("float8.safetensors");
    std::fs::write(&path, [&length[..], header.as_bytes(), &[0]].concat()).unwrap();
    let reader = SafetensorsReader::open(&path).unwrap();
    let refused = reader.tensor("x").unwrap_err();
    assert!(
        matches!(refused, CheckpointError::Unsupported { .. }),
        "{refused}"
    );
    let complex = Tensor::zeros(DType::C128, &[1]).unwrap();
    let path = folder.join("complex.safetensors");
    let refused = save_weights(&path, vec![("x".to_owned(), complex)]).unwrap_err();
    assert!(
        matches!(refused, CheckpointError::Unsupported { .. }),
        "{refused}"
    );
}
