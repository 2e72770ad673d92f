//! Tests of safetensors files against the crate that defines the format.

use ::safetensors::tensor::TensorView;
use thalweg_tensor::Tensor;

use super::*;

fn folder(name: &str) -> PathBuf {
    let name = format!("thalweg-safetensors-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn weights() -> Vec<(String, Tensor)> {
    let all = [
        ("b", Tensor::vector(&[1u8, 2, 3])),
        ("a/kernel", Tensor::from([[1.5f32, 2.5], [3.5, 4.5]])),
        ("flag", Tensor::scalar(true)),
        ("none", Tensor::zeros(DType::F64, &[0, 3]).unwrap()),
        ("\u{e9} \"x\"", Tensor::scalar(7i64)),
    ];
    all.map(|(name, tensor)| (name.to_owned(), tensor)).into()
}

#[test]
fn a_file_has_the_bytes_that_the_formats_own_crate_writes() {
    let folder = folder("bytes");
    let path = folder.join("m.safetensors");
    write(&disk::system(), &path, &weights()).unwrap();
    let all = weights();
    let views = all.iter().map(|(name, tensor)| {
        let dtype = DTYPES.iter().find(|(d, _)| *d == tensor.dtype()).unwrap().1;
        let view = TensorView::new(dtype, tensor.dims().to_vec(), tensor.bytes()).unwrap();
        (name.as_str(), view)
    });
    let expected = ::safetensors::serialize(views, None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    let reader = SafetensorsReader::open(&path).unwrap();
    for (name, tensor) in &all {
        assert_eq!(reader.tensor(name).unwrap(), *tensor);
        assert_eq!(reader.info(name).unwrap().dtype, Some(tensor.dtype()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_of_an_index_are_read_as_one_and_none_outside_its_folder() {
    let folder = folder("index");
    let all = weights();
    write(&disk::system(), &folder.join("1.safetensors"), &all[..2]).unwrap();
    write(&disk::system(), &folder.join("2.safetensors"), &all[2..]).unwrap();
    let index = folder.join(INDEX);
    let text = r#"{"metadata":{"total_size":1},"weight_map":{"b":"1.safetensors","flag":"2.safetensors"}}"#;
    std::fs::write(&index, text).unwrap();
    let reader = SafetensorsReader::open(&index).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["b", "flag"]);
    assert_eq!(reader.tensor("flag").unwrap(), Tensor::scalar(true));
    for (file, why) in [
        ("../1.safetensors", "not in a file beside the index"),
        ("/etc/passwd", "not in a file beside the index"),
        ("..", "not in a file beside the index"),
        ("2.safetensors", "is not in 2.safetensors"),
        ("3.safetensors", "cannot be read"),
    ] {
        std::fs::write(&index, text.replace("1.safetensors", file)).unwrap();
        let said = SafetensorsReader::open(&index).err().unwrap().to_string();
        assert!(said.contains(why), "{file}: {said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn truncated_or_oversized_files_are_errors() {
    let folder = folder("cut");
    let path = folder.join("m.safetensors");
    write(&disk::system(), &path, &weights()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(SafetensorsReader::open(&path).is_err(), "{length}");
    }
    let mut long = u64::MAX.to_le_bytes().to_vec();
    long.extend_from_slice(&whole[8..]);
    std::fs::write(&path, long).unwrap();
    assert!(SafetensorsReader::open(&path).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn strings_are_refused() {
    let weights = [("s".to_owned(), Tensor::from("text"))];
    let said = write(&disk::system(), Path::new("x.safetensors"), &weights).unwrap_err();
    assert!(
        said.to_string().contains("save a checkpoint or an .npz"),
        "{said}"
    );
}
