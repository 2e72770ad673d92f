//! The first elements of a tensor as text, in the two forms that TensorFlow has for it.

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Tensor, dispatch};

use super::printf::{plain_f32, plain_f64};

/// Each number as text.
fn numbers(tensor: &Tensor) -> Result<Vec<String>, KernelError> {
    Ok(match tensor.dtype() {
        DType::Bool => {
            let all = tensor.as_slice::<bool>()?.iter();
            all.map(|&b| u8::from(b).to_string()).collect()
        }
        DType::F64 => tensor
            .as_slice::<f64>()?
            .iter()
            .map(|&x| plain_f64(x))
            .collect(),
        DType::F32 => tensor
            .as_slice::<f32>()?
            .iter()
            .map(|&x| plain_f32(x))
            .collect(),
        dtype => dispatch!(dtype, [F16 BF16], T => {
            tensor.as_slice::<T>()?.iter().map(|x| plain_f32(x.to_f32())).collect()
        }, else dispatch!(dtype, INTS, T => {
            tensor.as_slice::<T>()?.iter().map(T::to_string).collect()
        }, else vec![format!("<{dtype}>")])),
    })
}

/// A string as C's source has it; what is beyond ASCII stays.
fn c_escaped(s: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(s.len());
    for &byte in s {
        match byte {
            b'\n' => text.extend(b"\\n"),
            b'\r' => text.extend(b"\\r"),
            b'\t' => text.extend(b"\\t"),
            b'"' | b'\'' | b'\\' => text.extend([b'\\', byte]),
            b' '..=b'~' | 0x80.. => text.push(byte),
            _ => text.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    text
}

/// The first `most` elements, all where that is negative: `[1 2][3...]...`, as Print and Assert show
/// them.
pub(crate) fn summary(tensor: &Tensor, most: i64) -> Result<String, KernelError> {
    let texts: Vec<String> = match tensor.dtype() {
        DType::String => {
            let text = |s: &[u8]| String::from_utf8_lossy(&c_escaped(s)).into_owned();
            tensor.as_strings()?.iter().map(|s| text(s)).collect()
        }
        _ => numbers(tensor)?,
    };
    let limit = usize::try_from(most)
        .unwrap_or(texts.len())
        .min(texts.len());
    let mut out = String::new();
    if tensor.dims().is_empty() {
        out += &texts[..limit].join(" ");
    } else {
        let mut next = 0;
        one_dimension(tensor.dims(), 0, &texts, limit, &mut next, &mut out);
    }
    if texts.len() > limit {
        out += "...";
    }
    Ok(out)
}

fn one_dimension(
    dims: &[usize],
    at: usize,
    texts: &[String],
    limit: usize,
    next: &mut usize,
    out: &mut String,
) {
    if *next >= limit {
        return;
    }
    let Some(&len) = dims.get(at) else {
        return;
    };
    if at + 1 == dims.len() {
        for i in 0..len {
            if *next >= limit {
                if at != 0 {
                    out.push_str("...");
                }
                return;
            }
            if i > 0 {
                out.push(' ');
            }
            out.push_str(&texts[*next]);
            *next += 1;
        }
        return;
    }
    for _ in 0..len {
        let open = *next < limit;
        if open {
            out.push('[');
        }
        one_dimension(dims, at + 1, texts, limit, next, out);
        if open {
            out.push(']');
        }
        if *next >= limit {
            return;
        }
    }
}

/// The first and last `ends` elements of each dimension, all where that is negative: `[1 2 ... 8 9]`,
/// with rows below each other, as PrintV2 and StringFormat show them.
pub(crate) fn summary_v2(tensor: &Tensor, ends: i64) -> Result<Vec<u8>, KernelError> {
    let texts: Vec<Vec<u8>> = match tensor.dtype() {
        DType::String => {
            let quoted = |s: &[u8]| [b"\"", &*c_escaped(s), b"\""].concat();
            tensor.as_strings()?.iter().map(|s| quoted(s)).collect()
        }
        _ => numbers(tensor)?
            .into_iter()
            .map(String::into_bytes)
            .collect(),
    };
    let mut out = Vec::new();
    // Of nothing, no dimension shows its ends.
    let ends = usize::try_from(ends).unwrap_or(usize::MAX).min(texts.len());
    block(tensor.dims(), 0, &texts, ends, &mut out);
    Ok(out)
}

/// The elements below dimension `at`, which `texts` are.
fn block(dims: &[usize], at: usize, texts: &[Vec<u8>], ends: usize, out: &mut Vec<u8>) {
    let Some(&len) = dims.get(at) else {
        out.extend(texts.first().into_iter().flatten());
        return;
    };
    let each = texts.len() / len.max(1);
    // Between two of them: a space, or lines and as far in as they stand.
    let inner = dims.len() - at - 1;
    let between = match inner {
        0 => b" ".to_vec(),
        n => [b"\n".repeat(n), b" ".repeat(at + 1)].concat(),
    };
    let first = ends.min(len);
    let last = len.saturating_sub(ends).max(first);
    out.push(b'[');
    for i in 0..first {
        if i > 0 {
            out.extend(&between);
        }
        block(dims, at + 1, &texts[i * each..(i + 1) * each], ends, out);
    }
    if last > first {
        out.extend(&between);
        out.extend(b"...");
    }
    for i in last..len {
        out.extend(&between);
        block(dims, at + 1, &texts[i * each..(i + 1) * each], ends, out);
    }
    out.push(b']');
}
