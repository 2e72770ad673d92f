//! Unusual numbers, strings, shapes and tensors.

use thalweg_graphdef::messages::tensor_shape_proto::Dim;
use thalweg_graphdef::messages::{TensorProto, TensorShapeProto};
use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
use thalweg_tensor::{DType, Tensor};

/// The most elements that a tensor gets here: kernels make larger ones.
const MAX_ELEMENTS: usize = 1 << 12;
/// The most bytes that a tensor's message may expand to.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

const INTS: [i64; 24] = [
    i64::MIN,
    i64::MIN + 1,
    i64::MAX,
    i64::MAX - 1,
    i64::MAX / 2,
    i32::MIN as i64,
    i32::MIN as i64 - 1,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    u32::MAX as i64,
    1 << 16,
    1 << 20,
    1 << 24,
    1 << 32,
    1 << 40,
    1 << 48,
    1 << 62,
    -(1 << 16),
    -(1 << 40),
    127,
    128,
    255,
    1000,
    4096,
];

const FLOATS: [f64; 14] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -0.0,
    f64::MAX,
    f64::MIN_POSITIVE,
    1e-45,
    f32::MAX as f64,
    1e10,
    -1e10,
    9.3e18,
    -9.3e18,
    0.5,
    -1.5,
];

const STRINGS: [&[u8]; 20] = [
    b"",
    b"SAME",
    b"VALID",
    b"EXPLICIT",
    b"NCHW",
    b"NHWC",
    b"\xff\xfe",
    b"a\0b",
    b"-1",
    b"99999999999999999999",
    b"1e400",
    b"nan",
    b"%s%d%n",
    b"{}{}{}",
    b"((((a*)*)*)*)*b",
    b"[",
    b"ij,jk->ik",
    b"...,->...",
    b"/etc/passwd",
    b"variable_0",
];

/// Small numbers, and for a quarter of all bytes extreme ones.
pub fn int(byte: u8) -> i64 {
    match byte {
        0..192 => i64::from(byte % 64) - 8,
        _ => INTS[usize::from(byte) % INTS.len()],
    }
}

pub fn float(byte: u8) -> f64 {
    match byte {
        0..128 => f64::from(byte) / 4.0 - 8.0,
        _ => FLOATS[usize::from(byte) % FLOATS.len()],
    }
}

pub fn string(byte: u8) -> Vec<u8> {
    match byte {
        0..200 => STRINGS[usize::from(byte) % STRINGS.len()].to_vec(),
        _ => vec![byte; usize::from(byte)],
    }
}

/// A dtype's number in messages, possibly an invalid one.
pub fn dtype_number(byte: u8) -> i32 {
    match byte {
        0..200 => {
            thalweg_graphdef::dtype::to_number(DType::ALL[usize::from(byte) % DType::ALL.len()])
        }
        _ => i32::from(byte) - 200,
    }
}

/// A shape's message, possibly an invalid one.
pub fn shape(byte: u8, dims: u8) -> TensorShapeProto {
    let dim = |k: u8| Dim {
        size: int(dims.wrapping_mul(2 * k + 1)),
        name: String::new(),
    };
    TensorShapeProto {
        dim: (0..byte % 6).map(dim).collect(),
        unknown_rank: byte >= 224,
    }
}

/// The tensor of a message; `None` if it is invalid.
pub fn read(proto: &TensorProto) -> Option<Tensor> {
    from_proto(proto, &mut Budget::new(MAX_MESSAGE_BYTES)).ok()
}

pub fn written(tensor: &Tensor) -> Option<TensorProto> {
    to_proto(tensor).ok()
}

/// A tensor of small numbers.
pub fn small(dtype: DType, dims: &[usize], from: u8) -> Option<Tensor> {
    let of = |i: usize| i64::from(from % 8) + (i % 3) as i64;
    filled(
        dtype,
        dims,
        &|i| element(dtype, of(i), of(i) as f64),
        &|i| of(i).to_string().into_bytes(),
    )
}

/// The tensor in another shape, with its elements repeated cyclically.
pub fn reshaped(t: &Tensor, dims: &[usize]) -> Option<Tensor> {
    let size = t.dtype().size();
    let zero = vec![0; size];
    let bytes = |i: usize| match t.len() {
        0 => zero.clone(),
        n => t.bytes()[i % n * size..][..size].to_vec(),
    };
    let text = |i: usize| match t.as_strings() {
        Ok(all) if !all.is_empty() => all[i % all.len()].to_vec(),
        _ => Vec::new(),
    };
    filled(t.dtype(), dims, &bytes, &text)
}

/// Dimensions with one of them changed.
pub fn other_dims(dims: &[usize], at: u8, how: u8) -> Vec<usize> {
    let mut dims = dims.to_vec();
    let at = usize::from(at) % dims.len().max(1);
    let has = !dims.is_empty();
    match how {
        0..32 => dims.insert(at, 1),
        32..64 if has => drop(dims.remove(at)),
        64..80 => dims.insert(at, 0),
        80..112 if has => dims[at] = 0,
        112..144 if has => dims[at] += 1,
        144..160 => dims.reverse(),
        160..176 => dims = vec![1; usize::from(how - 160)],
        176..240 if has => dims[at] = usize::from(how - 176),
        _ => dims.push(2),
    }
    dims
}

/// The tensor with element `at` changed.
pub fn revalued(t: &Tensor, at: u8, value: u8) -> Option<Tensor> {
    let at = usize::from(at) % t.len().max(1);
    let size = t.dtype().size();
    let new = element(t.dtype(), int(value), float(value));
    let bytes = |i: usize| match i == at {
        true => new.clone(),
        false => t.bytes()[i * size..][..size].to_vec(),
    };
    let text = |i: usize| match t.as_strings() {
        Ok(all) if i != at => all[i].to_vec(),
        _ => string(value),
    };
    filled(t.dtype(), t.dims(), &bytes, &text)
}

fn filled(
    dtype: DType,
    dims: &[usize],
    bytes: &dyn Fn(usize) -> Vec<u8>,
    text: &dyn Fn(usize) -> Vec<u8>,
) -> Option<Tensor> {
    let count = dims
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|&n| n <= MAX_ELEMENTS)?;
    match dtype {
        DType::Resource | DType::Variant => None,
        DType::String => Tensor::strings(dims, &(0..count).map(text).collect::<Vec<_>>()).ok(),
        _ => Tensor::from_bytes(dtype, dims, &(0..count).flat_map(bytes).collect::<Vec<_>>()).ok(),
    }
}

/// A number as an element, rounded to the dtype.
fn element(dtype: DType, int: i64, float: f64) -> Vec<u8> {
    match dtype {
        DType::F16 => half::f16::from_f64(float).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(float).to_le_bytes().to_vec(),
        DType::F32 => (float as f32).to_le_bytes().to_vec(),
        DType::F64 => float.to_le_bytes().to_vec(),
        DType::Bool => vec![(int & 1) as u8],
        _ => {
            let bits = 8 * dtype.size().clamp(1, 8) as u32;
            let most = i64::MAX >> (64 - bits);
            let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
            let int = if unsigned {
                int
            } else {
                int.clamp(-most - 1, most)
            };
            int.to_le_bytes()[..bits as usize / 8].to_vec()
        }
    }
}
