use super::*;

#[test]
fn dtypes_and_reductions_have_the_numbers_of_nccls_header() {
    let codes = [
        (DType::I8, Some(0)),
        (DType::U8, Some(1)),
        (DType::I32, Some(2)),
        (DType::U32, Some(3)),
        (DType::I64, Some(4)),
        (DType::U64, Some(5)),
        (DType::F16, Some(6)),
        (DType::F32, Some(7)),
        (DType::F64, Some(8)),
        (DType::BF16, Some(9)),
        (DType::I16, None),
        (DType::Bool, None),
        (DType::String, None),
    ];
    for (dtype, expected) in codes {
        assert_eq!(code(dtype), expected, "{dtype}");
    }
    let numbers = [
        (ReduceOp::Sum, 0),
        (ReduceOp::Product, 1),
        (ReduceOp::Max, 2),
        (ReduceOp::Min, 3),
        (ReduceOp::Average, 4),
    ];
    for (op, expected) in numbers {
        assert_eq!(number(op), Ok(expected));
    }
    assert_eq!(
        number(ReduceOp::Adasum).unwrap_err().to_string(),
        "the driver could not begin a collective: NCCL has no Adasum"
    );
}

#[test]
fn a_factor_is_an_element_of_the_dtype() {
    for (dtype, bytes) in [
        (DType::F64, Some(0.5f64.to_ne_bytes().to_vec())),
        (DType::F32, Some(0.5f32.to_ne_bytes().to_vec())),
        (DType::F16, Some(0x3800u16.to_ne_bytes().to_vec())),
        (DType::BF16, Some(0x3f00u16.to_ne_bytes().to_vec())),
        (DType::I32, None),
    ] {
        let found = scalar(0.5, dtype);
        let len = bytes.as_ref().map_or(0, Vec::len);
        assert_eq!(found.map(|f| f[..len].to_vec()), bytes, "{dtype}");
        assert!(found.is_none_or(|f| f[len..].iter().all(|&b| b == 0)));
    }
}
