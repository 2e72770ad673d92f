//! The first elements of a tensor as text, in the two forms that TensorFlow has for it.

use thalweg_device::KernelError;
use thalweg_graph::{DType, Tensor, dispatch};

use super::printf::{plain_f32, plain_f64};

/// Each element as text.
fn texts(tensor: &Tensor, quoted: bool) -> Result<Vec<String>, KernelError> {
    let escaped = |s: &[u8]| {
        let text = c_escaped(s);
        if quoted { format!("\"{text}\"") } else { text }
    };
    Ok(match tensor.dtype() {
        DType::String => tensor.as_strings()?.iter().map(|s| escaped(s)).collect(),
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
fn c_escaped(s: &[u8]) -> String {
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
    String::from_utf8_lossy(&text).into_owned()
}

/// The first `most` elements, all where that is negative: `[1 2][3...]...`, as Print and Assert show
/// them.
pub(crate) fn summary(tensor: &Tensor, most: i64) -> Result<String, KernelError> {
    let texts = texts(tensor, false)?;
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
pub(crate) fn summary_v2(tensor: &Tensor, ends: i64) -> Result<String, KernelError> {
    let texts = texts(tensor, true)?;
    let mut out = String::new();
    let ends = usize::try_from(ends).unwrap_or(usize::MAX);
    block(tensor.dims(), 0, &texts, ends, &mut out);
    Ok(out)
}

/// The elements below dimension `at`, which `texts` are.
fn block(dims: &[usize], at: usize, texts: &[String], ends: usize, out: &mut String) {
    let Some(&len) = dims.get(at) else {
        out.push_str(texts.first().map_or("", String::as_str));
        return;
    };
    let each = texts.len() / len.max(1);
    // Between two of them: a space, or lines and as far in as they stand.
    let inner = dims.len() - at - 1;
    let between = match inner {
        0 => " ".to_owned(),
        n => "\n".repeat(n) + &" ".repeat(at + 1),
    };
    let first = ends.min(len);
    let last = len.saturating_sub(ends).max(first);
    out.push('[');
    for i in 0..first {
        if i > 0 {
            out.push_str(&between);
        }
        block(dims, at + 1, &texts[i * each..(i + 1) * each], ends, out);
    }
    if last > first {
        match inner {
            0 => out.push_str(" ..."),
            _ => {
                out.push_str(&between);
                out.push_str("...");
            }
        }
    }
    for i in last..len {
        out.push_str(&between);
        block(dims, at + 1, &texts[i * each..(i + 1) * each], ends, out);
    }
    out.push(']');
}
