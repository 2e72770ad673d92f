//! Dtypes of checkpoint entries, by their numbers in files.

use std::fmt;

use thalweg_tensor::DType;

/// The numbers of `core/framework/types.proto`.
const NUMBERS: [(DType, i32); 21] = [
    (DType::F32, 1),
    (DType::F64, 2),
    (DType::I32, 3),
    (DType::U8, 4),
    (DType::I16, 5),
    (DType::I8, 6),
    (DType::String, 7),
    (DType::C64, 8),
    (DType::I64, 9),
    (DType::Bool, 10),
    (DType::QI8, 11),
    (DType::QU8, 12),
    (DType::QI32, 13),
    (DType::BF16, 14),
    (DType::QI16, 15),
    (DType::QU16, 16),
    (DType::U16, 17),
    (DType::C128, 18),
    (DType::F16, 19),
    (DType::U32, 22),
    (DType::U64, 23),
];

/// The dtypes that TensorFlow stores and this engine does not have.
const UNSUPPORTED_DTYPES: [(i32, &str); 8] = [
    (20, "resource"),
    (21, "variant"),
    (24, "float8_e5m2"),
    (25, "float8_e4m3fn"),
    (26, "float8_e4m3fnuz"),
    (29, "int4"),
    (30, "uint4"),
    (31, "int2"),
];

/// The dtype of an entry: one of this engine's, or the number of another dtype of TensorFlow's.
///
/// ```
/// use thalweg_checkpoint::EntryType;
/// use thalweg_tensor::DType;
///
/// assert_eq!(EntryType::from_number(1), EntryType::Known(DType::F32));
/// assert_eq!(EntryType::from_number(29).to_string(), "int4");
/// assert_eq!(EntryType::from_number(29).known(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryType {
    /// A dtype whose tensors can be read.
    Known(DType),
    /// The number of a dtype whose tensors can only be listed.
    Other(i32),
}

impl EntryType {
    /// The dtype of this number in TensorFlow's files.
    pub fn from_number(number: i32) -> EntryType {
        let known = NUMBERS.iter().find(|(_, n)| *n == number);
        known.map_or(EntryType::Other(number), |(d, _)| EntryType::Known(*d))
    }

    /// The dtype, if tensors of it can be read.
    pub fn known(self) -> Option<DType> {
        match self {
            EntryType::Known(dtype) => Some(dtype),
            EntryType::Other(_) => None,
        }
    }
}

impl fmt::Display for EntryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryType::Known(dtype) => dtype.fmt(f),
            EntryType::Other(number) => {
                match UNSUPPORTED_DTYPES.iter().find(|(n, _)| n == number) {
                    Some((_, name)) => f.pad(name),
                    None => write!(f, "dtype {number}"),
                }
            }
        }
    }
}

/// The number of a dtype in files; `None` for dtypes that cannot be stored.
pub(crate) fn number(dtype: DType) -> Option<i32> {
    let found = NUMBERS.iter().find(|(d, _)| *d == dtype);
    found.map(|(_, n)| *n)
}
