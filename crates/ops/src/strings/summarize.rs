//! Text summaries of tensors: their first elements, in the two formats of TensorFlow.

use std::ops::Range;

use thalweg_device::KernelError;
use thalweg_tensor::{DType, StringTensorBuilder, Tensor, dispatch};

use super::printf::{round_trip_f32, round_trip_f64};

/// Element `i` as text; `string` formats strings.
fn text(tensor: &Tensor, i: usize, string: fn(&[u8]) -> Vec<u8>) -> Result<Vec<u8>, KernelError> {
    let missing = || KernelError::Argument("an element");
    Ok(match tensor.dtype() {
        DType::String => string(tensor.as_strings()?.get(i).ok_or_else(missing)?),
        DType::Bool => {
            let x = tensor.as_slice::<bool>()?.get(i).ok_or_else(missing)?;
            u8::from(*x).to_string().into_bytes()
        }
        DType::F64 => {
            let x = tensor.as_slice::<f64>()?.get(i).ok_or_else(missing)?;
            round_trip_f64(*x).into_bytes()
        }
        DType::F32 => {
            let x = tensor.as_slice::<f32>()?.get(i).ok_or_else(missing)?;
            round_trip_f32(*x).into_bytes()
        }
        dtype => dispatch!(dtype, [F16 BF16], T => {
            round_trip_f32(tensor.as_slice::<T>()?.get(i).ok_or_else(missing)?.to_f32()).into_bytes()
        }, else dispatch!(dtype, INTS, T => {
            tensor.as_slice::<T>()?.get(i).ok_or_else(missing)?.to_string().into_bytes()
        }, else format!("<{dtype}>").into_bytes())),
    })
}

/// Escapes a string as in C source; bytes beyond ASCII stay.
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

/// Appends the first `max_elements` elements, or all if that is negative, in the format of Print and Assert:
/// `[1 2][3...]...`.
pub(crate) fn summary(
    out: &mut StringTensorBuilder,
    tensor: &Tensor,
    max_elements: i64,
) -> Result<(), KernelError> {
    let limit = usize::try_from(max_elements)
        .unwrap_or(tensor.len())
        .min(tensor.len());
    if tensor.dims().is_empty() {
        if limit > 0 {
            out.extend(&text(tensor, 0, c_escaped)?)?;
        }
    } else {
        append_one_dimension(tensor, 0, limit, &mut 0, out)?;
    }
    if tensor.len() > limit {
        out.extend(b"...")?;
    }
    Ok(())
}

fn append_one_dimension(
    tensor: &Tensor,
    at: usize,
    limit: usize,
    next: &mut usize,
    out: &mut StringTensorBuilder,
) -> Result<(), KernelError> {
    let dims = tensor.dims();
    if *next >= limit {
        return Ok(());
    }
    let Some(&len) = dims.get(at) else {
        return Ok(());
    };
    if at + 1 == dims.len() {
        for i in 0..len {
            if *next >= limit {
                if at != 0 {
                    out.extend(b"...")?;
                }
                return Ok(());
            }
            if i > 0 {
                out.extend(b" ")?;
            }
            out.extend(&text(tensor, *next, c_escaped)?)?;
            *next += 1;
        }
        return Ok(());
    }
    for _ in 0..len {
        let open = *next < limit;
        if open {
            out.extend(b"[")?;
        }
        append_one_dimension(tensor, at + 1, limit, next, out)?;
        if open {
            out.extend(b"]")?;
        }
        if *next >= limit {
            return Ok(());
        }
    }
    Ok(())
}

/// Appends the first and last `ends` elements of each dimension, or all if that is negative, in the format of PrintV2
/// and StringFormat: `[1 2 ... 8 9]`, with rows on lines of their own.
pub(crate) fn summary_v2(
    out: &mut StringTensorBuilder,
    tensor: &Tensor,
    ends: i64,
) -> Result<(), KernelError> {
    // Without elements, no dimension is shortened.
    let ends = usize::try_from(ends)
        .unwrap_or(usize::MAX)
        .min(tensor.len());
    append_block(tensor, 0, 0..tensor.len(), ends, out)
}

fn quoted(s: &[u8]) -> Vec<u8> {
    [b"\"", &*c_escaped(s), b"\""].concat()
}

/// Appends the elements at these indices, which are those below dimension `at`.
fn append_block(
    tensor: &Tensor,
    at: usize,
    elements: Range<usize>,
    ends: usize,
    out: &mut StringTensorBuilder,
) -> Result<(), KernelError> {
    let dims = tensor.dims();
    let Some(&len) = dims.get(at) else {
        if !elements.is_empty() {
            out.extend(&text(tensor, elements.start, quoted)?)?;
        }
        return Ok(());
    };
    let each = elements.len() / len.max(1);
    let number = |i: usize| elements.start + i * each..elements.start + (i + 1) * each;
    // Separator: a space, or line breaks and indentation.
    let inner = dims.len() - at - 1;
    let between = match inner {
        0 => b" ".to_vec(),
        n => [b"\n".repeat(n), b" ".repeat(at + 1)].concat(),
    };
    let first = ends.min(len);
    let last = len.saturating_sub(ends).max(first);
    out.extend(b"[")?;
    for i in 0..first {
        if i > 0 {
            out.extend(&between)?;
        }
        append_block(tensor, at + 1, number(i), ends, out)?;
    }
    if last > first {
        out.extend(&between)?;
        out.extend(b"...")?;
    }
    for i in last..len {
        out.extend(&between)?;
        append_block(tensor, at + 1, number(i), ends, out)?;
    }
    out.extend(b"]")?;
    Ok(())
}
