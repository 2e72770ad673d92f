//! The header of an array, and the conversion of its elements.

use std::path::Path;

use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Tensor};

use crate::error::CheckpointError;

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementKind {
    Plain(DType),
    /// Strings of this many bytes.
    Bytes(usize),
    /// Strings of this many characters of four bytes.
    Characters(usize),
}

impl ElementKind {
    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            ElementKind::Plain(dtype) => dtype.size(),
            ElementKind::Bytes(length) => length,
            ElementKind::Characters(length) => length.saturating_mul(4),
        }
    }

    pub(super) fn dtype(self) -> DType {
        match self {
            ElementKind::Plain(dtype) => dtype,
            ElementKind::Bytes(_) | ElementKind::Characters(_) => DType::String,
        }
    }

    fn parse(descr: &str) -> Option<ElementKind> {
        let order = descr.chars().next().filter(char::is_ascii)?;
        let kind = descr.get(1..2)?;
        let size: usize = descr.get(2..)?.parse().ok()?;
        // The byte order does not matter for single-byte elements.
        if order == '>' && !matches!(kind, "S" | "b") && size > 1 {
            return None;
        }
        let plain = match (kind, size) {
            ("b", 1) => DType::Bool,
            ("f", 2) => DType::F16,
            ("f", 4) => DType::F32,
            ("f", 8) => DType::F64,
            ("i", 1) => DType::I8,
            ("i", 2) => DType::I16,
            ("i", 4) => DType::I32,
            ("i", 8) => DType::I64,
            ("u", 1) => DType::U8,
            ("u", 2) => DType::U16,
            ("u", 4) => DType::U32,
            ("u", 8) => DType::U64,
            ("c", 8) => DType::C64,
            ("c", 16) => DType::C128,
            ("S", length) => return Some(ElementKind::Bytes(length)),
            ("U", length) => return Some(ElementKind::Characters(length)),
            _ => return None,
        };
        Some(ElementKind::Plain(plain))
    }
}

/// The header of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayHeader {
    /// `None` for elements that no tensor holds.
    pub(super) kind: Option<ElementKind>,
    /// NumPy's name of the dtype.
    pub(super) descr: String,
    pub(super) dims: Vec<usize>,
    /// `true` if the first dimension changes fastest.
    pub(super) fortran: bool,
}

impl ArrayHeader {
    /// Parses the text of a header: a dictionary literal of Python.
    pub(super) fn parse(text: &str) -> Option<ArrayHeader> {
        let field = |name: &str| {
            let after = [format!("'{name}':"), format!("\"{name}\":")];
            let at = after.iter().find_map(|a| Some(text.find(a)? + a.len()))?;
            Some(text[at..].trim_start())
        };
        let descr = field("descr")?;
        let quote = descr.chars().next()?;
        let (kind, descr) = match quote {
            '\'' | '"' => {
                let (inside, _) = descr[1..].split_once(quote)?;
                (ElementKind::parse(inside), inside.to_owned())
            }
            _ => (None, "records".to_owned()),
        };
        let fortran = field("fortran_order")?.starts_with("True");
        let (shape, _) = field("shape")?.strip_prefix('(')?.split_once(')')?;
        let dims = shape.split(',').map(str::trim).filter(|d| !d.is_empty());
        let dims = dims.map(|d| d.trim_end_matches('L').parse().ok());
        Some(ArrayHeader {
            kind,
            descr,
            dims: dims.collect::<Option<Vec<_>>>()?,
            fortran,
        })
    }

    /// Bytes of all elements; `None` on overflow.
    pub(super) fn bytes(&self) -> Option<usize> {
        checked_elements(&self.dims)?.checked_mul(self.kind?.size())
    }
}

/// Reorders elements to row-major order: the last dimension changes fastest.
pub(super) fn row_major(bytes: &[u8], dims: &[usize], size: usize, to: &mut [u8]) {
    let mut at = vec![0usize; dims.len()];
    for element in to.chunks_exact_mut(size.max(1)) {
        let pairs = at.iter().zip(dims).rev();
        let from = pairs.fold(0, |index, (i, d)| index * d + i);
        element.copy_from_slice(&bytes[from * size..][..size]);
        for (i, d) in at.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
}

/// A tensor of strings from fixed-length elements that are padded with zeros.
pub(super) fn strings(
    file: &Path,
    name: &str,
    header: &ArrayHeader,
    kind: ElementKind,
    bytes: &[u8],
) -> Result<Tensor, CheckpointError> {
    let broken = || {
        let what = "has a character that there is not";
        CheckpointError::corrupt_entry(file, name, what)
    };
    let size = kind.size();
    let elements = checked_elements(&header.dims).unwrap_or(0);
    if size == 0 && elements > bytes.len() {
        // Empty strings take no bytes in the file, but memory here.
        let what = "has strings without any bytes: save it with longer ones";
        return Err(CheckpointError::unsupported(file, Some(name), what));
    }
    let mut all: Vec<Vec<u8>> = Vec::with_capacity(elements);
    for element in bytes.chunks_exact(size.max(1)) {
        let string = match kind {
            ElementKind::Characters(_) => {
                let (codes, _) = element.as_chunks::<4>();
                let codes = codes.iter().map(|c| u32::from_le_bytes(*c));
                let text: Option<String> = codes.map(char::from_u32).collect();
                text.ok_or_else(broken)?.into_bytes()
            }
            _ => element.to_vec(),
        };
        let end = string.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
        all.push(string[..end].to_vec());
    }
    Tensor::strings(&header.dims, &all).map_err(|e| CheckpointError::tensor(file, name, e))
}
