use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Files that NumPy has written: see `tests/golden/generate.py`.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("thalweg-npy-{name}-{}", std::process::id()))
}

#[test]
fn a_file_of_numpy_is_read_and_written() {
    let path = golden("array.npy");
    let file = NpyFile::open(&path).unwrap();
    let tensor = file.tensor().unwrap();
    assert_eq!((tensor.dtype(), tensor.dims()), (DType::F32, &[3, 2][..]));
    assert_eq!(
        tensor.to_vec::<f32>().unwrap(),
        [0.0, 1.5, 3.0, 4.5, 6.0, 7.5]
    );
    assert_eq!(file.row(2).unwrap().to_vec::<f32>().unwrap(), [6.0, 7.5]);
    assert!(matches!(file.row(3), Err(DataError::Index { .. })));
    let written = scratch("written");
    write_npy(&written, &tensor).unwrap();
    assert_eq!(
        std::fs::read(&written).unwrap(),
        std::fs::read(&path).unwrap()
    );
    let bf16 = Tensor::zeros(DType::BF16, &[1]).unwrap();
    let error = write_npy(&written, &bf16).unwrap_err().to_string();
    assert!(
        error.ends_with("NumPy has no bf16: cast the tensor"),
        "{error}"
    );
    std::fs::remove_file(written).unwrap();
}

#[test]
fn every_dtype_and_rank_is_read_back() {
    let path = scratch("every");
    for (number, dtype) in DType::COMPUTED
        .iter()
        .filter(|d| **d != DType::BF16)
        .enumerate()
    {
        let dims = &[2, 1, 3, 0][..number % 5];
        let tensor = Tensor::zeros(*dtype, dims).unwrap();
        write_npy(&path, &tensor).unwrap();
        assert_eq!(NpyFile::open(&path).unwrap().tensor().unwrap(), tensor);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn rows_of_files_are_elements() {
    let path = golden("array.npy");
    let mut rows = npy_rows([&path, &path]).unwrap();
    let [a, b] = rows.next().unwrap().unwrap();
    assert_eq!((a.to_vec::<f32>().unwrap(), &a), (vec![0.0, 1.5], &b));
    rows.seek(2).unwrap();
    assert_eq!(rows.by_ref().count(), 1);
    let scalar = scratch("scalar");
    write_npy(&scalar, &Tensor::from(1i32)).unwrap();
    assert!(matches!(
        npy_rows([&path, &scalar]),
        Err(DataError::Rows { .. })
    ));
    std::fs::remove_file(scalar).unwrap();
}

#[cfg(feature = "npz")]
#[test]
fn rows_of_a_file_of_several_arrays_are_elements() {
    let mut rows = npz_rows(golden("arrays.npz"), ["x", "y"]).unwrap();
    rows.seek(1).unwrap();
    let [x, y] = rows.next().unwrap().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [3.0, 4.5]);
    assert_eq!(y.to_scalar::<i64>().unwrap(), 8);
    assert!(npz_rows(golden("arrays.npz"), ["z"]).is_err());
}

#[test]
fn damage_is_named() {
    let bytes = std::fs::read(golden("array.npy")).unwrap();
    let error = |bytes: &[u8]| {
        let opened = NpyFile::of_bytes(bytes.to_vec(), "f");
        opened.unwrap_err().to_string()
    };
    assert!(error(b"").contains("is no array of NumPy"));
    assert!(error(&bytes[..20]).starts_with("f, byte 10: 118 bytes are cut off: there are 10"));
    assert!(error(&bytes[..140]).contains("does not have 12 bytes"));
    let changed = |from: &str, to: &str| {
        let text: Vec<u8> = bytes.clone();
        let at = text
            .windows(from.len())
            .position(|w| w == from.as_bytes())
            .unwrap();
        let mut text = text;
        text.splice(at..at + from.len(), to.bytes());
        error(&text)
    };
    assert!(changed("<f4", ">f4").contains("arrays of >f4 are not read"));
    assert!(changed("False", "True ").contains("order of columns"));
    assert!(changed("(3, 2)", "(9**9)").contains("cannot be parsed"));
    assert!(changed("(3, 2)", "(9999)").contains("does not have 24 bytes"));
    assert!(changed("\x01\0", "\x09\0").contains("version 9.0"));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..40), at in 0usize..200) {
        let mut file = std::fs::read(golden("array.npy")).unwrap();
        let end = file.len().min(at + bytes.len());
        file.splice(at.min(end)..end, bytes.clone());
        for bytes in [bytes, file] {
            if let Ok(file) = NpyFile::of_bytes(bytes, "f") {
                let _ = file.tensor();
                let _ = file.row(0);
            }
        }
    }
}
