//! Compressed strings and ragged tensors as variants.

use std::io::Write;

use super::*;

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn damaged_compressed_strings_are_errors() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let packed = g.placeholder("packed", DType::String, [1]);
    let unpacked = g.op("DecodeCompressed").input(packed);
    let unpacked = unpacked.attr("compression_type", "ZLIB").output();
    let run = |bytes: &[u8]| {
        let bytes = Tensor::strings(&[1], &[bytes]).unwrap();
        session.run::<Tensor>(unpacked, [packed.feed(bytes)])
    };
    let whole = zlib(b"abcdefgh");
    assert_eq!(&*run(&whole).unwrap().as_strings().unwrap()[0], b"abcdefgh");
    for damaged in [&whole[..whole.len() - 6], b"no stream", b""] {
        let error = run(damaged).unwrap_err().to_string();
        assert!(error.contains("element 0 cannot be unpacked"), "{error}");
    }
}

#[test]
fn unpacked_strings_count_against_the_memory_limit() {
    let g = Graph::new();
    let options = SessionOptions::new().default_memory_limit(4 << 20);
    let session = Session::with_options(&g, options).unwrap();
    let packed = g.placeholder("packed", DType::String, []);
    let unpacked = g.op("DecodeCompressed").input(packed);
    let unpacked = unpacked.attr("compression_type", "ZLIB").output();
    let bomb = Tensor::strings(&[], &[zlib(&vec![0; 64 << 20])]).unwrap();
    let error = session.run::<Tensor>(unpacked, [packed.feed(bomb)]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn row_splits_that_do_not_fit_are_errors() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let splits = g.placeholder("splits", DType::I64, Shape::of_rank(1));
    let inner = g.placeholder("inner", DType::I64, Shape::of_rank(1));
    let rows = g.op("RaggedTensorToVariant").inputs([splits, inner]);
    let rows = rows.input(g.constant([1i32, 2, 3]));
    let rows = rows.attr("RAGGED_RANK", 2).attr("batched_input", true);
    let rows = rows.output();
    let run = |ends: &[i64], inner_ends: &[i64]| {
        let feeds = [
            splits.feed(Tensor::vector(ends)),
            inner.feed(Tensor::vector(inner_ends)),
        ];
        session.run::<()>(rows.operation(), feeds)
    };
    run(&[0, 1, 2], &[0, 1, 3]).unwrap();
    for (ends, inner_ends) in [
        (&[][..], &[0, 3][..]),
        (&[0, 1], &[]),
        (&[0, 2, 1], &[0, 3]),
        (&[0, 5], &[0, 3]),
        (&[1, 1], &[0, 3]),
        (&[0, 1], &[0, 4]),
        (&[0, 1], &[-1, 3]),
        (&[0, i64::MAX], &[0, 3]),
    ] {
        let error = run(ends, inner_ends).unwrap_err().to_string();
        assert!(error.contains("row splits"), "{error}");
    }
}
