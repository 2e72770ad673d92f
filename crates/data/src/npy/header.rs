//! Header of a `.npy` file: magic, version, length, and a dictionary literal of Python.

use thalweg_tensor::DType;

use crate::error::DataError;
use crate::positioned::PositionedFile;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Largest length of the text. NumPy itself refuses longer ones.
const MAX_TEXT_BYTES: u64 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
}

impl Header {
    /// Reads a header, and returns the position of the first element too.
    pub(super) fn read(file: &PositionedFile) -> Result<(Header, u64), DataError> {
        let start = file.bytes(0, 12.min(file.len()))?;
        let (version, length, text) = match start.strip_prefix(MAGIC) {
            Some([1, minor, a, b, ..]) => {
                ([1, *minor], u64::from(u16::from_le_bytes([*a, *b])), 10)
            }
            Some([major @ (2 | 3), minor, a, b, c, d]) => {
                let length = u32::from_le_bytes([*a, *b, *c, *d]);
                ([*major, *minor], u64::from(length), 12)
            }
            Some([major, minor, ..]) => ([*major, *minor], 0, 0),
            _ => {
                return Err(file.error(
                    0,
                    "the file is no array of NumPy, which starts with \\x93NUMPY",
                ));
            }
        };
        if text == 0 {
            let reason = format!(
                "version {}.{} of the format is not read",
                version[0], version[1]
            );
            return Err(file.error(6, reason));
        }
        if length > MAX_TEXT_BYTES {
            return Err(file.error(8, format!("a header of {length} bytes is too long")));
        }
        let bytes = file.bytes(text, length)?;
        let parsed = std::str::from_utf8(&bytes).ok().and_then(Dictionary::parse);
        let wrong = |reason: String| file.error(text, reason);
        let parsed = parsed.ok_or_else(|| wrong("the header cannot be parsed".to_owned()))?;
        let dtype = dtype(&parsed.descr).ok_or_else(|| {
            let descr = &parsed.descr;
            wrong(format!(
                "arrays of {descr} are not read: save little-endian numbers or bools"
            ))
        })?;
        if parsed.fortran {
            let reason = "the array is in the order of columns: save numpy.ascontiguousarray(it)";
            return Err(wrong(reason.to_owned()));
        }
        let dims = parsed.dims;
        Ok((Header { dtype, dims }, text + length))
    }
}

struct Dictionary {
    descr: String,
    dims: Vec<usize>,
    fortran: bool,
}

impl Dictionary {
    fn parse(text: &str) -> Option<Dictionary> {
        let field = |name: &str| {
            let after = format!("'{name}':");
            Some(text[text.find(&after)? + after.len()..].trim_start())
        };
        let descr = field("descr")?;
        let descr = match descr.strip_prefix('\'') {
            Some(inside) => inside.split_once('\'')?.0,
            None => "records",
        };
        let (dims, _) = field("shape")?.strip_prefix('(')?.split_once(')')?;
        let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
        Some(Dictionary {
            descr: descr.to_owned(),
            dims: dims.map(|d| d.parse().ok()).collect::<Option<_>>()?,
            fortran: field("fortran_order")?.starts_with("True"),
        })
    }
}

/// NumPy's names of the dtypes. Elements of one byte have no byte order.
const DTYPES: [(DType, &str); 14] = [
    (DType::Bool, "|b1"),
    (DType::I8, "|i1"),
    (DType::U8, "|u1"),
    (DType::F16, "<f2"),
    (DType::F32, "<f4"),
    (DType::F64, "<f8"),
    (DType::I16, "<i2"),
    (DType::I32, "<i4"),
    (DType::I64, "<i8"),
    (DType::U16, "<u2"),
    (DType::U32, "<u4"),
    (DType::U64, "<u8"),
    (DType::C64, "<c8"),
    (DType::C128, "<c16"),
];

fn dtype(descr: &str) -> Option<DType> {
    let found = DTYPES.iter().find(|(_, name)| *name == descr);
    found.map(|(dtype, _)| *dtype)
}

/// The bytes before the elements; `None` for a dtype that NumPy does not have.
pub(super) fn text(dtype: DType, dims: &[usize]) -> Option<Vec<u8>> {
    let (_, descr) = DTYPES.iter().find(|(known, _)| *known == dtype)?;
    let all: String = dims.iter().map(|d| format!("{d}, ")).collect();
    // A tuple of one has its comma; of more, NumPy leaves the last one out.
    let dims = match dims.len() {
        1 => all.trim_end(),
        _ => all.trim_end_matches(", "),
    };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The elements start at a multiple of 64 bytes, after a line's end.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&u16::try_from(length).ok()?.to_le_bytes());
    bytes.extend_from_slice(format!("{text:<width$}\n", width = length - 1).as_bytes());
    Some(bytes)
}
