//! Dtypes by their numbers in TensorFlow's files.
//!
//! ```
//! use thalweg_graphdef::dtype::{from_number, name, to_number};
//! use thalweg_tensor::DType;
//!
//! assert_eq!(to_number(DType::F32), 1);
//! assert_eq!(from_number(9), Ok(DType::I64));
//! assert_eq!(name(24), "DT_FLOAT8_E5M2");
//! assert!(from_number(24).is_err());
//! ```

use thalweg_tensor::DType;

use crate::error::ValueError;
use crate::messages::DataType;

/// The offset from the number of a variable's dtype to that of a reference to it.
const REFERENCE_OFFSET: i32 = 100;

/// Every dtype, with its TensorFlow number.
const NUMBERS: [(DType, DataType); 23] = [
    (DType::F16, DataType::DtHalf),
    (DType::BF16, DataType::DtBfloat16),
    (DType::F32, DataType::DtFloat),
    (DType::F64, DataType::DtDouble),
    (DType::I8, DataType::DtInt8),
    (DType::I16, DataType::DtInt16),
    (DType::I32, DataType::DtInt32),
    (DType::I64, DataType::DtInt64),
    (DType::U8, DataType::DtUint8),
    (DType::U16, DataType::DtUint16),
    (DType::U32, DataType::DtUint32),
    (DType::U64, DataType::DtUint64),
    (DType::C64, DataType::DtComplex64),
    (DType::C128, DataType::DtComplex128),
    (DType::Bool, DataType::DtBool),
    (DType::QI8, DataType::DtQint8),
    (DType::QU8, DataType::DtQuint8),
    (DType::QI32, DataType::DtQint32),
    (DType::QI16, DataType::DtQint16),
    (DType::QU16, DataType::DtQuint16),
    (DType::String, DataType::DtString),
    (DType::Resource, DataType::DtResource),
    (DType::Variant, DataType::DtVariant),
];

/// The dtype of this number; for a reference, that of the variable behind it.
///
/// # Errors
/// [`ValueError::DType`] for a dtype that Thalweg does not have (floats and integers of 4 and 8 bits), and for an unknown number.
pub fn from_number(number: i32) -> Result<DType, ValueError> {
    let plain = match number > REFERENCE_OFFSET {
        true => number - REFERENCE_OFFSET,
        false => number,
    };
    NUMBERS
        .iter()
        .find(|(_, n)| *n as i32 == plain)
        .map(|(dtype, _)| *dtype)
        .ok_or_else(|| ValueError::DType(name(number)))
}

/// The number of a dtype.
pub fn to_number(dtype: DType) -> i32 {
    let found = NUMBERS.iter().find(|(d, _)| *d == dtype);
    found.map_or(DataType::DtInvalid, |(_, n)| *n) as i32
}

/// TensorFlow's name of a number: `DT_COMPLEX64`.
pub fn name(number: i32) -> String {
    match DataType::try_from(number) {
        Ok(known) => known.as_str_name().to_owned(),
        Err(_) => format!("dtype number {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_a_number_and_reads_back_as_a_reference_too() {
        for dtype in DType::ALL {
            assert_eq!(from_number(to_number(dtype)), Ok(dtype));
            assert_eq!(from_number(to_number(dtype) + 100), Ok(dtype));
        }
    }

    #[test]
    fn unsupported_dtypes_are_errors_with_their_names() {
        for (number, name) in [
            (24, "DT_FLOAT8_E5M2"),
            (124, "dtype number 124"),
            (0, "DT_INVALID"),
        ] {
            assert_eq!(from_number(number), Err(ValueError::DType(name.into())));
        }
        for number in [-1, 100, 200, i32::MAX, i32::MIN] {
            assert!(from_number(number).is_err());
        }
    }
}
