//! Tests of `.npz` files: round trips of arrays, and malformed files.

use thalweg_tensor::half::{bf16, f16};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Tensor};

use super::array::{ArrayHeader, ElementKind};
use super::*;
use crate::disk;

#[test]
fn every_dtype_reads_back_and_bf16_as_f32() {
    let name = format!("thalweg-npz-{}.npz", std::process::id());
    let path = std::env::temp_dir().join(name);
    let all = [
        ("f16", Tensor::vector(&[f16::from_f32(0.5)])),
        ("f32", Tensor::from([[1.0f32, 2.0, 3.0]])),
        ("u64", Tensor::scalar(u64::MAX)),
        ("bool", Tensor::vector(&[true, false])),
        ("text", Tensor::strings(&[2], &["a", "longer"]).unwrap()),
        ("none", Tensor::zeros(DType::I16, &[0, 2]).unwrap()),
        ("layer/kernel", Tensor::scalar(-7i8)),
    ];
    let mut writer = NpzWriter::create(&disk::system(), &path).unwrap();
    for (name, tensor) in &all {
        writer.add(name, tensor).unwrap();
    }
    let half = Tensor::vector(&[bf16::from_f32(1.5)]);
    writer.add("bf16", &half).unwrap();
    assert!(writer.add("bf16", &half).is_err());
    let odd = Tensor::from("ends in \0");
    assert!(writer.add("odd", &odd).is_err());
    writer.finish().unwrap();
    let reader = NpzReader::open(&path).unwrap();
    for (name, tensor) in &all {
        assert_eq!(reader.tensor(name).unwrap(), *tensor, "{name}");
        assert_eq!(reader.info(name).unwrap().dims, tensor.dims());
    }
    assert_eq!(reader.tensor("bf16").unwrap(), Tensor::vector(&[1.5f32]));
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(NpzReader::open(&path).is_err(), "{length}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn headers_are_read_as_python_writes_them() {
    let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }   \n";
    let header = ArrayHeader::parse(text).unwrap();
    assert_eq!(header.kind, Some(ElementKind::Plain(DType::F32)));
    assert_eq!((header.dims, header.fortran), (vec![2, 3], true));
    let text = "{'descr': '|S3', 'fortran_order': False, 'shape': (2L,), }";
    assert_eq!(
        ArrayHeader::parse(text).unwrap().kind,
        Some(ElementKind::Bytes(3))
    );
    for other in ["'>f4'", "'<c32'", "'|O'", "[('a', '<f4')]", "'<M8[ns]'"] {
        let text = format!("{{'descr': {other}, 'fortran_order': False, 'shape': (), }}");
        assert_eq!(ArrayHeader::parse(&text).unwrap().kind, None, "{other}");
    }
    assert_eq!(
        ArrayHeader::parse("{'descr': '<f4', 'shape': (-1,), }"),
        None
    );
}

#[test]
fn compressed_npz_files_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/deflated.npz");
    let reader = NpzReader::open(path).unwrap();
    assert_eq!(
        reader.names().collect::<Vec<_>>(),
        ["a", "c", "f", "raw", "text"]
    );
    let a = Tensor::from([[0.0f32, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    assert_eq!(reader.tensor("a").unwrap(), a);
    // The same numbers, in column-major order.
    let f = Tensor::from([[0i64, 1, 2], [3, 4, 5]]);
    assert_eq!(reader.tensor("f").unwrap(), f);
    let text = Tensor::strings(&[2], &["ab", "\u{e9}"]).unwrap();
    assert_eq!(reader.tensor("text").unwrap(), text);
    let raw = Tensor::strings(&[2], &["x", "yz"]).unwrap();
    assert_eq!(reader.tensor("raw").unwrap(), raw);
    let c = Tensor::vector(&[Complex::<f64>::i()]);
    assert_eq!(reader.tensor("c").unwrap(), c);
}
