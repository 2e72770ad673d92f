//! Conversion of tensors to and from messages.
//!
//! ```
//! use thalweg_graphdef::messages::TensorProto;
//! use thalweg_graphdef::shape;
//! use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
//! use thalweg_tensor::{Shape, Tensor};
//!
//! # fn main() -> Result<(), thalweg_graphdef::ValueError> {
//! let values = Tensor::vector(&[1.0f32, 2.0]);
//! assert_eq!(from_proto(&to_proto(&values)?, &mut Budget::new(0))?, values);
//!
//! // One element stands for all missing ones: that takes memory, which the budget bounds.
//! let ones = TensorProto {
//!     dtype: 1,
//!     tensor_shape: Some(shape::to_proto(&Shape::known(&[1000]))),
//!     float_val: vec![1.0],
//!     ..TensorProto::default()
//! };
//! assert_eq!(from_proto(&ones, &mut Budget::new(4000))?.len(), 1000);
//! assert!(from_proto(&ones, &mut Budget::new(100)).is_err());
//! # Ok(())
//! # }
//! ```

use thalweg_tensor::half::{bf16, f16};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Element, Quantized, Shape, Tensor, TensorError};

use crate::dtype;
use crate::error::ValueError;
use crate::messages::TensorProto;
use crate::shape;

/// Default of [`crate::ImportOptions::max_expanded_bytes`].
pub(crate) const DEFAULT_EXPANDED_BYTES: usize = 256 << 20;

/// The number of bytes that may be filled in for tensors whose elements a file does not list in
/// full.
///
/// A hundred bytes can request a tensor of zeros that fills the memory. Elements that a file lists
/// are free here: its size bounds them.
///
/// This is a counter of one message, and no [memory account](thalweg_tensor::Memory): nothing is given back, and nothing
/// else counts against it.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: usize,
    used: usize,
    refused: bool,
}

impl Default for Budget {
    /// The budget of the default options of an import.
    fn default() -> Budget {
        Budget::new(DEFAULT_EXPANDED_BYTES)
    }
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(limit: usize) -> Budget {
        Budget {
            limit,
            used: 0,
            refused: false,
        }
    }

    /// `true` if a request was refused.
    pub fn has_refused(&self) -> bool {
        self.refused
    }

    /// The bytes filled in so far.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Counts bytes of copies; `false` if they are too many.
    pub(crate) fn more(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let fits = used <= self.limit;
        if fits {
            self.used = used;
        }
        fits
    }

    fn take(&mut self, missing: usize, size: usize, dims: &[usize]) -> Result<(), ValueError> {
        let bytes = missing.saturating_mul(size).saturating_add(self.used);
        if bytes > self.limit {
            self.refused = true;
            return Err(ValueError::Expanded {
                shape: Shape::known(dims),
                bytes,
                limit: self.limit,
            });
        }
        self.used = bytes;
        Ok(())
    }
}

/// Converts a message in any of its encodings to a tensor.
///
/// # Errors
/// The mistake; see [`ValueError`].
pub fn from_proto(proto: &TensorProto, budget: &mut Budget) -> Result<Tensor, ValueError> {
    let dtype = dtype::from_number(proto.dtype)?;
    let dims = shape::dims_from_proto(proto.tensor_shape.as_ref())?;
    let too_large = || TensorError::TooLarge {
        dtype,
        dims: dims.clone(),
    };
    let n = checked_elements(&dims).ok_or_else(too_large)?;
    let cx = &mut Fill {
        dtype,
        dims: &dims,
        n,
        budget,
    };
    // TensorFlow's client gives a tensor of no elements one for all of them.
    let is_value = !matches!(dtype, DType::Resource | DType::Variant);
    if n == 0 && is_value && proto.tensor_content.is_empty() {
        return Ok(Tensor::zeros(dtype, &dims)?);
    }
    if dtype == DType::String {
        return match proto.tensor_content.is_empty() {
            false => packed_strings(&proto.tensor_content, cx),
            true => strings(&proto.string_val, cx),
        };
    }
    if !proto.tensor_content.is_empty() {
        let bytes = in_order(&proto.tensor_content, dtype.real().size());
        return Ok(Tensor::from_bytes(dtype, &dims, &bytes)?);
    }
    match dtype {
        DType::F16 => cx.fill(&proto.half_val, |v| f16::from_bits(v as u16)),
        DType::BF16 => cx.fill(&proto.half_val, |v| bf16::from_bits(v as u16)),
        DType::F32 => cx.fill(&proto.float_val, |v: f32| v),
        DType::F64 => cx.fill(&proto.double_val, |v: f64| v),
        DType::I8 => cx.fill(&proto.int_val, |v| v as i8),
        DType::I16 => cx.fill(&proto.int_val, |v| v as i16),
        DType::I32 => cx.fill(&proto.int_val, |v: i32| v),
        DType::I64 => cx.fill(&proto.int64_val, |v: i64| v),
        DType::U8 => cx.fill(&proto.int_val, |v| v as u8),
        DType::U16 => cx.fill(&proto.int_val, |v| v as u16),
        DType::U32 => cx.fill(&proto.uint32_val, |v: u32| v),
        DType::U64 => cx.fill(&proto.uint64_val, |v: u64| v),
        DType::C64 => cx.fill(&pairs(&proto.scomplex_val), |[re, im]| Complex::new(re, im)),
        DType::C128 => cx.fill(&pairs(&proto.dcomplex_val), |[re, im]| Complex::new(re, im)),
        DType::QI8 => cx.fill(&proto.int_val, |v| Quantized(v as i8)),
        DType::QU8 => cx.fill(&proto.int_val, |v| Quantized(v as u8)),
        DType::QI16 => cx.fill(&proto.int_val, |v| Quantized(v as i16)),
        DType::QU16 => cx.fill(&proto.int_val, |v| Quantized(v as u16)),
        DType::QI32 => cx.fill(&proto.int_val, |v: i32| Quantized(v)),
        DType::Bool => cx.fill(&proto.bool_val, |v: bool| v),
        _ => Err(ValueError::Handle),
    }
}

/// Complex numbers, which a message holds as one list of parts.
fn pairs<V: Copy>(parts: &[V]) -> Vec<[V; 2]> {
    let (pairs, _) = parts.as_chunks();
    pairs.to_vec()
}

/// A tensor under construction.
struct Fill<'a> {
    dtype: DType,
    dims: &'a [usize],
    n: usize,
    budget: &'a mut Budget,
}

impl Fill<'_> {
    /// Checks the number of elements found; each missing one costs `size` bytes.
    fn count(&mut self, found: usize, size: usize) -> Result<(), ValueError> {
        match self.n.checked_sub(found) {
            Some(missing) => self.budget.take(missing, size, self.dims),
            None => Err(ValueError::TooMany {
                shape: Shape::known(self.dims),
                found,
            }),
        }
    }

    /// A tensor of these elements, of which the last one stands for all missing ones, and zero for
    /// all if there are none.
    fn fill<V: Copy, T: Element>(
        &mut self,
        values: &[V],
        element: impl Fn(V) -> T,
    ) -> Result<Tensor, ValueError> {
        self.count(values.len(), size_of::<T>())?;
        let mut tensor = Tensor::zeros(self.dtype, self.dims)?;
        if let Some(&last) = values.last() {
            let elements = tensor.as_mut_slice::<T>()?;
            let (said, missing) = elements.split_at_mut(values.len());
            for (to, from) in said.iter_mut().zip(values) {
                *to = element(*from);
            }
            missing.fill(element(last));
        }
        Ok(tensor)
    }
}

fn strings(values: &[Vec<u8>], cx: &mut Fill<'_>) -> Result<Tensor, ValueError> {
    let last: &[u8] = values.last().map_or(&[], |v| v);
    // Its end, its place in the list below, and its bytes.
    let each = size_of::<usize>() + size_of::<&[u8]>() + last.len();
    cx.count(values.len(), each)?;
    let mut all: Vec<&[u8]> = values.iter().map(|v| &v[..]).collect();
    all.resize(cx.n, last);
    Ok(Tensor::strings(cx.dims, &all)?)
}

/// Strings in one piece, as TensorFlow's C++ packs them: their lengths as varints, then their
/// bytes.
fn packed_strings(content: &[u8], cx: &mut Fill<'_>) -> Result<Tensor, ValueError> {
    // Each string takes at least a byte.
    if cx.n > content.len() {
        return Err(ValueError::Strings);
    }
    let mut rest = content;
    let mut lengths = Vec::with_capacity(cx.n);
    for _ in 0..cx.n {
        let length = prost::decode_length_delimiter(&mut rest).map_err(|_| ValueError::Strings)?;
        lengths.push(length);
    }
    let mut all = Vec::with_capacity(cx.n);
    for length in lengths {
        let (string, after) = rest.split_at_checked(length).ok_or(ValueError::Strings)?;
        all.push(string);
        rest = after;
    }
    match rest {
        [] => Ok(Tensor::strings(cx.dims, &all)?),
        _ => Err(ValueError::Strings),
    }
}

/// Converts elements between the little-endian order of files and this machine's order.
fn in_order(bytes: &[u8], size: usize) -> std::borrow::Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytes.into();
    }
    let turned = bytes
        .chunks(size.max(1))
        .flat_map(|e| e.iter().rev().copied());
    turned.collect::<Vec<u8>>().into()
}

/// The most bytes that [`from_proto`] fills in for a message, and the bytes of its elements if it fills in all; no more
/// than the largest number.
///
/// # Errors
/// Its dtype or shape is none.
pub fn elements_bytes(proto: &TensorProto) -> Result<usize, ValueError> {
    let dtype = dtype::from_number(proto.dtype)?;
    let dims = shape::dims_from_proto(proto.tensor_shape.as_ref())?;
    let size = match dtype {
        DType::String => size_of::<usize>() + proto.string_val.last().map_or(0, Vec::len),
        _ => dtype.size(),
    };
    let count = checked_elements(&dims).unwrap_or(usize::MAX);
    Ok(count.saturating_mul(size))
}

/// Converts a tensor to a message with all elements in `tensor_content`, as TensorFlow's C++ does it; strings are their
/// lengths as varints, then their bytes.
///
/// # Errors
/// As [`to_proto`].
pub fn to_content_proto(tensor: &Tensor) -> Result<TensorProto, ValueError> {
    let dtype = tensor.dtype();
    let tensor_content = match dtype {
        DType::Resource | DType::Variant => return Err(ValueError::Handle),
        DType::String => {
            let strings = tensor.as_strings()?;
            let mut content = Vec::new();
            for string in strings {
                // A vector takes any number of bytes.
                let _ = prost::encode_length_delimiter(string.len(), &mut content);
            }
            content.extend_from_slice(strings.bytes());
            content
        }
        _ => in_order(tensor.bytes(), dtype.real().size()).into_owned(),
    };
    Ok(TensorProto {
        dtype: dtype::to_number(dtype),
        tensor_shape: Some(shape::to_proto(&tensor.shape())),
        tensor_content,
        ..TensorProto::default()
    })
}

/// Converts a tensor to a message, encoded as TensorFlow's `make_tensor_proto` does it: one element
/// in the list of its type, several as `tensor_content`, strings always in their list.
///
/// # Errors
/// [`ValueError::Handle`] for resources and variants.
pub fn to_proto(tensor: &Tensor) -> Result<TensorProto, ValueError> {
    let dtype = tensor.dtype();
    let mut proto = TensorProto {
        dtype: dtype::to_number(dtype),
        tensor_shape: Some(shape::to_proto(&tensor.shape())),
        ..TensorProto::default()
    };
    if tensor.len() > 1 && dtype.size() > 0 {
        proto.tensor_content = in_order(tensor.bytes(), dtype.real().size()).into_owned();
        return Ok(proto);
    }
    fn list<T: Element, V>(tensor: &Tensor, value: impl Fn(T) -> V) -> Result<Vec<V>, TensorError> {
        Ok(tensor.as_slice::<T>()?.iter().map(|&v| value(v)).collect())
    }
    let p = &mut proto;
    match dtype {
        DType::F16 => p.half_val = list(tensor, |v: f16| v.to_bits().into())?,
        DType::BF16 => p.half_val = list(tensor, |v: bf16| v.to_bits().into())?,
        DType::F32 => p.float_val = list(tensor, |v: f32| v)?,
        DType::F64 => p.double_val = list(tensor, |v: f64| v)?,
        DType::I8 => p.int_val = list(tensor, |v: i8| v.into())?,
        DType::I16 => p.int_val = list(tensor, |v: i16| v.into())?,
        DType::I32 => p.int_val = list(tensor, |v: i32| v)?,
        DType::I64 => p.int64_val = list(tensor, |v: i64| v)?,
        DType::U8 => p.int_val = list(tensor, |v: u8| v.into())?,
        DType::U16 => p.int_val = list(tensor, |v: u16| v.into())?,
        DType::U32 => p.uint32_val = list(tensor, |v: u32| v)?,
        DType::U64 => p.uint64_val = list(tensor, |v: u64| v)?,
        DType::C64 => p.scomplex_val = list(tensor, |v: Complex<f32>| [v.re, v.im])?.concat(),
        DType::C128 => p.dcomplex_val = list(tensor, |v: Complex<f64>| [v.re, v.im])?.concat(),
        DType::QI8 => p.int_val = list(tensor, |v: Quantized<i8>| v.0.into())?,
        DType::QU8 => p.int_val = list(tensor, |v: Quantized<u8>| v.0.into())?,
        DType::QI16 => p.int_val = list(tensor, |v: Quantized<i16>| v.0.into())?,
        DType::QU16 => p.int_val = list(tensor, |v: Quantized<u16>| v.0.into())?,
        DType::QI32 => p.int_val = list(tensor, |v: Quantized<i32>| v.0)?,
        DType::Bool => p.bool_val = list(tensor, |v: bool| v)?,
        DType::String => {
            p.string_val = tensor.as_strings()?.to_vecs();
        }
        _ => return Err(ValueError::Handle),
    }
    Ok(proto)
}
