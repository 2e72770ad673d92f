//! Tensors in every encoding that TensorFlow writes.

mod support;

use proptest::prelude::*;
use support::shape;
use thalweg_graphdef::messages::{DataType, TensorProto};
use thalweg_graphdef::tensor::{Budget, elements_bytes, from_proto, to_content_proto, to_proto};
use thalweg_graphdef::{ValueError, dtype};
use thalweg_tensor::half::{bf16, f16};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Quantized, Tensor, TensorError};

const LIMIT: usize = 1 << 20;

fn read(proto: &TensorProto) -> Result<Tensor, ValueError> {
    from_proto(proto, &mut Budget::new(LIMIT))
}

fn of(dtype: DType, dims: &[i64]) -> TensorProto {
    TensorProto {
        dtype: dtype::to_number(dtype),
        tensor_shape: Some(shape(dims)),
        ..TensorProto::default()
    }
}

/// The same two values of each dtype, in its own list.
fn lists() -> Vec<(TensorProto, Tensor)> {
    let f = |d| of(d, &[3]);
    let (h, b) = (f16::from_f32(-1.5), bf16::from_f32(-1.5));
    let (p, m) = (i32::from(f16::ONE.to_bits()), i32::from(h.to_bits()));
    let (bp, bm) = (i32::from(bf16::ONE.to_bits()), i32::from(b.to_bits()));
    vec![
        (
            TensorProto {
                int_val: vec![1, -2],
                ..f(DType::QI8)
            },
            [Quantized(1i8), Quantized(-2), Quantized(-2)].into(),
        ),
        (
            TensorProto {
                half_val: vec![p, m],
                ..f(DType::F16)
            },
            [f16::ONE, h, h].into(),
        ),
        (
            TensorProto {
                half_val: vec![bp, bm],
                ..f(DType::BF16)
            },
            [bf16::ONE, b, b].into(),
        ),
        (
            TensorProto {
                float_val: vec![1.0, -1.5],
                ..f(DType::F32)
            },
            [1.0f32, -1.5, -1.5].into(),
        ),
        (
            TensorProto {
                double_val: vec![1.0, -1.5],
                ..f(DType::F64)
            },
            [1.0f64, -1.5, -1.5].into(),
        ),
        (
            TensorProto {
                int_val: vec![1, -2],
                ..f(DType::I8)
            },
            [1i8, -2, -2].into(),
        ),
        (
            TensorProto {
                int_val: vec![1, -2],
                ..f(DType::I16)
            },
            [1i16, -2, -2].into(),
        ),
        (
            TensorProto {
                int_val: vec![1, -2],
                ..f(DType::I32)
            },
            [1i32, -2, -2].into(),
        ),
        (
            TensorProto {
                int64_val: vec![1, -2],
                ..f(DType::I64)
            },
            [1i64, -2, -2].into(),
        ),
        (
            TensorProto {
                int_val: vec![1, 255],
                ..f(DType::U8)
            },
            [1u8, 255, 255].into(),
        ),
        (
            TensorProto {
                int_val: vec![1, 65535],
                ..f(DType::U16)
            },
            [1u16, 65535, 65535].into(),
        ),
        (
            TensorProto {
                uint32_val: vec![1, !0],
                ..f(DType::U32)
            },
            [1u32, !0, !0].into(),
        ),
        (
            TensorProto {
                scomplex_val: vec![1.0, -2.0, 0.5, 3.0],
                ..f(DType::C64)
            },
            [
                Complex::new(1f32, -2.0),
                Complex::new(0.5, 3.0),
                Complex::new(0.5, 3.0),
            ]
            .into(),
        ),
        (
            TensorProto {
                dcomplex_val: vec![0.5, 3.0, 1.0, -2.0],
                ..f(DType::C128)
            },
            [
                Complex::new(0.5f64, 3.0),
                Complex::new(1.0, -2.0),
                Complex::new(1.0, -2.0),
            ]
            .into(),
        ),
        (
            TensorProto {
                uint64_val: vec![1, !0],
                ..f(DType::U64)
            },
            [1u64, !0, !0].into(),
        ),
        (
            TensorProto {
                bool_val: vec![false, true],
                ..f(DType::Bool)
            },
            [false, true, true].into(),
        ),
        (
            TensorProto {
                string_val: vec![b"a".to_vec(), vec![0, 255]],
                ..f(DType::String)
            },
            Tensor::strings(&[3], &[&b"a"[..], &[0, 255], &[0, 255]]).unwrap(),
        ),
    ]
}

#[test]
fn the_last_element_of_a_list_fills_missing_ones() {
    let all = lists();
    let has = |dtype: &DType| all.iter().any(|(_, tensor)| tensor.dtype() == *dtype);
    assert!(DType::COMPUTED.iter().all(has) && has(&DType::String));
    for (proto, tensor) in all {
        assert_eq!(read(&proto), Ok(tensor), "{proto:?}");
    }
}

#[test]
fn an_empty_list_stands_for_zeros() {
    for dtype in DType::PLAIN.iter().chain([&DType::String]) {
        let zeros = Tensor::zeros(*dtype, &[2, 3]).unwrap();
        assert_eq!(read(&of(*dtype, &[2, 3])), Ok(zeros));
        let none = Tensor::zeros(*dtype, &[0, 3]).unwrap();
        assert_eq!(read(&of(*dtype, &[0, 3])), Ok(none));
    }
}

#[test]
fn a_message_without_a_shape_is_a_scalar() {
    let proto = TensorProto {
        dtype: DataType::DtInt32 as i32,
        int_val: vec![7],
        ..TensorProto::default()
    };
    assert_eq!(read(&proto), Ok(Tensor::scalar(7i32)));
}

#[test]
fn content_is_little_endian() {
    let proto = TensorProto {
        tensor_content: vec![1, 2, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ..of(DType::I32, &[2])
    };
    assert_eq!(read(&proto), Ok([0x201i32, -1].into()));
}

#[test]
fn strings_may_be_packed_in_content() {
    let packed = |content: &[u8]| TensorProto {
        tensor_content: content.to_vec(),
        ..of(DType::String, &[3])
    };
    let tensor = Tensor::strings(&[3], &["ab", "", "c"]).unwrap();
    assert_eq!(read(&packed(b"\x02\x00\x01abc")), Ok(tensor));
    for bad in [
        &b"\x02\x00\x01ab"[..],
        b"\x02\x00\x01abcd",
        b"\x02\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00",
    ] {
        assert_eq!(read(&packed(bad)), Err(ValueError::Strings));
    }
}

#[test]
fn a_small_message_does_not_fill_the_memory() {
    for proto in [
        of(DType::F32, &[1 << 20, 1 << 10]),
        TensorProto {
            int64_val: vec![1],
            ..of(DType::I64, &[1 << 30])
        },
        TensorProto {
            string_val: vec![b"x".to_vec()],
            ..of(DType::String, &[1 << 20])
        },
    ] {
        let error = read(&proto).unwrap_err();
        assert!(
            matches!(error, ValueError::Expanded { limit: LIMIT, .. }),
            "{error:?}"
        );
        assert!(
            error
                .to_string()
                .contains("ImportOptions::max_expanded_bytes"),
            "{error}"
        );
    }
    // Tensors count together.
    let mut budget = Budget::new(100);
    let zeros = of(DType::U8, &[60]);
    from_proto(&zeros, &mut budget).unwrap();
    from_proto(&zeros, &mut budget).unwrap_err();
}

#[test]
fn absurd_dimensions_are_typed_errors() {
    let read = |dims: &[i64]| read(&of(DType::F32, dims)).unwrap_err();
    assert_eq!(read(&[2, -5]), ValueError::Dim(-5));
    assert!(matches!(read(&[2, -1]), ValueError::UnknownShape(_)));
    assert!(matches!(
        read(&[i64::MAX, i64::MAX]),
        ValueError::Tensor(TensorError::TooLarge { .. })
    ));
    assert_eq!(read(&vec![1; 255]), ValueError::Rank(255));
}

/// `tf.constant("", tf.string, shape=[0])` of TensorFlow's client has one element in the message.
#[test]
fn a_tensor_without_elements_has_none_whatever_the_message_holds() {
    for (proto, _) in lists() {
        let none = TensorProto {
            tensor_shape: Some(shape(&[2, 0])),
            ..proto
        };
        let read = read(&none).unwrap();
        assert_eq!((read.dims(), read.len()), (&[2, 0][..], 0));
    }
}

#[test]
fn too_many_elements_are_an_error() {
    for (proto, _) in lists() {
        let small = TensorProto {
            tensor_shape: Some(shape(&[1])),
            ..proto
        };
        assert!(matches!(
            read(&small),
            Err(ValueError::TooMany { found: 2, .. })
        ));
    }
    let long = TensorProto {
        tensor_content: vec![0; 12],
        ..of(DType::F32, &[2])
    };
    assert!(matches!(
        read(&long),
        Err(ValueError::Tensor(TensorError::Length { .. }))
    ));
    let no_bool = TensorProto {
        tensor_content: vec![0, 2],
        ..of(DType::Bool, &[2])
    };
    assert!(matches!(
        read(&no_bool),
        Err(ValueError::Tensor(TensorError::Bytes { .. }))
    ));
}

#[test]
fn unsupported_dtypes_of_tensors_are_errors_with_their_names() {
    let short = TensorProto {
        dtype: DataType::DtInt4 as i32,
        ..TensorProto::default()
    };
    assert_eq!(read(&short), Err(ValueError::DType("DT_INT4".into())));
    assert_eq!(read(&of(DType::Resource, &[])), Err(ValueError::Handle));
    assert_eq!(read(&of(DType::Variant, &[])), Err(ValueError::Handle));
}

#[test]
fn tensors_round_trip_bit_for_bit() {
    let nans = [0x7fc0_0001u32, 0xffff_ffff, 0x7f80_0001, 0x8000_0000].map(f32::from_bits);
    let mut tensors: Vec<Tensor> = lists().into_iter().map(|(_, t)| t).collect();
    tensors.push(nans.into());
    tensors.extend(nans.map(Tensor::scalar));
    tensors.push(Tensor::scalar(f64::from_bits(0x7ff0_0000_0000_0001)));
    tensors.push(Tensor::scalar(f16::from_bits(0x7c01)));
    tensors.push(Tensor::scalar(bf16::from_bits(0xff81)));
    for tensor in tensors {
        let proto = to_proto(&tensor).unwrap();
        assert_eq!(
            proto.tensor_content.is_empty(),
            tensor.len() == 1 || tensor.dtype() == DType::String
        );
        assert_eq!(read(&proto), Ok(tensor));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_tensor_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(proto) = <TensorProto as prost::Message>::decode(&bytes[..]) {
            let _ = read(&proto);
        }
    }

    #[test]
    fn any_bits_survive(dtype in 0..DType::PLAIN.len(), n in 0usize..9, seed: [u8; 64]) {
        let dtype = DType::PLAIN[dtype];
        let mut bytes = seed[..n.min(64 / dtype.size()) * dtype.size()].to_vec();
        if dtype == DType::Bool {
            bytes.iter_mut().for_each(|b| *b &= 1);
        }
        let tensor = Tensor::from_bytes(dtype, &[bytes.len() / dtype.size()], &bytes).unwrap();
        prop_assert_eq!(read(&to_proto(&tensor).unwrap()), Ok(tensor));
    }
}

#[test]
fn elements_as_content_read_back_and_their_bytes_are_known() {
    let strings = Tensor::strings(&[3], &[&b"a"[..], b"", &[7; 200]]).unwrap();
    for tensor in [Tensor::vector(&[1.5f32]), Tensor::scalar(-2i64), strings] {
        let proto = to_content_proto(&tensor).unwrap();
        assert!(!proto.tensor_content.is_empty());
        assert_eq!(from_proto(&proto, &mut Budget::new(0)).unwrap(), tensor);
    }
    let mut ones = to_proto(&Tensor::scalar(1.0f32)).unwrap();
    ones.tensor_shape = Some(shape(&[1000]));
    let bytes = elements_bytes(&ones).unwrap();
    assert_eq!(bytes, 4000);
    assert_eq!(
        from_proto(&ones, &mut Budget::new(bytes)).unwrap().len(),
        1000
    );
    ones.tensor_shape = Some(shape(&[1 << 40, 1 << 40]));
    assert_eq!(elements_bytes(&ones).unwrap(), usize::MAX);
}
