//! Compressed strings and ragged tensors as variants.

use std::io::Write;

use super::*;

pub(super) fn zlib(bytes: &[u8]) -> Vec<u8> {
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
    assert_eq!(&run(&whole).unwrap().as_strings().unwrap()[0], b"abcdefgh");
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

/// A serialized tensor of f32 with these dimensions and one element, which stands for all.
fn serialized(dims: &[i64]) -> Vec<u8> {
    use thalweg::graphdef::messages::{TensorProto, TensorShapeProto, tensor_shape_proto::Dim};
    let dim = |&size| Dim {
        size,
        name: String::new(),
    };
    thalweg::graphdef::file::encode(&TensorProto {
        dtype: 1,
        tensor_shape: Some(TensorShapeProto {
            dim: dims.iter().map(dim).collect(),
            unknown_rank: false,
        }),
        float_val: vec![1.5],
        ..TensorProto::default()
    })
}

#[test]
fn strings_of_no_tensor_are_errors_and_large_ones_count_against_the_memory_limit() {
    let g = Graph::new();
    let options = SessionOptions::new().default_memory_limit(4 << 20);
    let session = Session::with_options(&g, options).unwrap();
    let bytes = g.placeholder("bytes", DType::String, []);
    let parse = |dtype: DType| {
        let node = g.op("ParseTensor").input(bytes);
        node.attr("out_type", dtype).output()
    };
    let (floats, ints) = (parse(DType::F32), parse(DType::I32));
    let run = |output, bytes_: &[u8]| {
        let feed = bytes.feed(Tensor::strings(&[], &[bytes_]).unwrap());
        session.run::<Tensor>(output, [feed])
    };
    assert_eq!(
        run(floats, &serialized(&[2])).unwrap(),
        Tensor::vector(&[1.5f32; 2])
    );
    for (output, bytes, text) in [
        (ints, serialized(&[2]), "out_type is i32"),
        (
            floats,
            serialized(&[-1]),
            "Could not parse serialized proto",
        ),
        (
            floats,
            b"xx\xff".to_vec(),
            "Could not parse serialized proto",
        ),
        (floats, Vec::new(), "Could not parse serialized proto"),
        (floats, serialized(&[1 << 30]), "memory"),
        (floats, serialized(&[i64::MAX, i64::MAX]), "memory"),
    ] {
        let error = run(output, &bytes).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn sparse_tensors_whose_parts_do_not_fit_are_errors() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let sparse = |indices: &[[i64; 2]], shape: &[i64]| {
        let values = Tensor::vector(&vec![1.0f32; indices.len()]);
        let indices = Tensor::new(&[indices.len(), 2], &indices.concat()).unwrap();
        [
            g.constant(indices),
            g.constant(values),
            g.constant(Tensor::vector(shape)),
        ]
    };
    for (indices, shape) in [
        (&[[0, 0]][..], &[3][..]),
        (&[[2, 1], [0, 0]], &[3, 2]),
        (&[[0, 1], [0, 0]], &[3, 2]),
        (&[[0, 1], [0, 1]], &[3, 2]),
        (&[[0, 7]], &[3, 2]),
        (&[[-1, 0]], &[3, 2]),
        (&[], &[-3, 2]),
        (&[], &[i64::MAX, 2]),
    ] {
        let rows = g
            .op("SerializeManySparse")
            .inputs(sparse(indices, shape))
            .output();
        assert!(
            session.run::<Tensor>(rows, []).is_err(),
            "{indices:?} in {shape:?}"
        );
    }
    let whole = g
        .op("SerializeSparse")
        .inputs(sparse(&[[0, 1]], &[3, 2]))
        .output();
    let whole: Tensor = session.run(whole, []).unwrap();
    let whole = whole.as_strings().unwrap().to_vecs();
    let [indices, values, shape] = &whole[..] else {
        panic!("three strings")
    };
    let read = |parts: &[&[u8]], dtype: DType| {
        let parts = g.constant(Tensor::strings(&[parts.len() / 3, 3], parts).unwrap());
        let node = g
            .op("DeserializeManySparse")
            .input(parts)
            .attr("dtype", dtype);
        session.run::<Vec<Tensor>>(&node.outputs()[..], [])
    };
    read(&[indices, values, shape], DType::F32).unwrap();
    for (parts, dtype) in [
        (&[&indices[..], values, shape][..], DType::I32),
        (&[values, indices, shape], DType::F32),
        (&[indices, values, values], DType::F32),
        (&[indices, values, indices], DType::F32),
        (&[b"x", values, shape], DType::F32),
        (&[indices, &serialized(&[2]), shape], DType::F32),
        (&[], DType::F32),
    ] {
        assert!(read(parts, dtype).is_err(), "{parts:?}");
    }
}
