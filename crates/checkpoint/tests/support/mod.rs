//! Folders that are removed when a test ends, and the checkpoints that TensorFlow wrote.

#![allow(dead_code, reason = "each of the tests uses a part")]

#[path = "../../../../tests/support/folders.rs"]
mod folders;
pub mod python;

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
pub use folders::Folder;
use thalweg_checkpoint::BundleReader;
use thalweg_tensor::{DType, Tensor};

/// A copy of TensorFlow's checkpoints, unpacked.
pub fn golden() -> Folder {
    let folder = Folder::new("golden");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoints");
    copy(&from, folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else if let Some(name) = name.strip_suffix(".gz") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            std::fs::write(to.join(name), bytes).unwrap();
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// The elements as `expected.jsonl` has them.
pub fn hex(tensor: &Tensor) -> serde_json::Value {
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match tensor.as_strings() {
        Ok(all) => all.iter().map(&digits).collect::<Vec<_>>().into(),
        Err(_) => digits(tensor.bytes()).into(),
    }
}

/// NumPy's name of a dtype.
pub fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        DType::Bool => "bool",
        DType::String => "string",
        other => panic!("{other} is in no file"),
    }
}

/// Tensors of every dtype but strings: of no dimensions, of some, and of no elements.
pub fn plain_tensors() -> Vec<(String, Tensor)> {
    let mut all = Vec::new();
    for &dtype in DType::COMPUTED {
        for (shape, dims) in [("scalar", &[][..]), ("matrix", &[3, 5]), ("empty", &[0, 2])] {
            let bytes = dims.iter().product::<usize>() * dtype.size();
            // Patterns that are not NaN, and valid bools.
            let bytes: Vec<u8> = (0..bytes).map(|i| (i % 2) as u8).collect();
            let tensor = Tensor::from_bytes(dtype, dims, &bytes).unwrap();
            all.push((format!("{shape}/{dtype}"), tensor));
        }
    }
    all
}

/// All tensors of a checkpoint, by name.
pub fn all(reader: &BundleReader) -> Vec<(String, Tensor)> {
    let names = reader.names();
    names
        .map(|n| (n.to_owned(), reader.tensor(n).unwrap()))
        .collect()
}
