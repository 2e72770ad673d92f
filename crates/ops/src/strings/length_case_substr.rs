//! StringLength, StringLower, StringUpper, StringStrip, Substr.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, Gradient, arg, arg_of, str_attr, type_attr};
use thalweg_tensor::{DType, Tensor};

use super::map_strings::{map_strings, quoted_escaped};
use crate::support::broadcast_index::BroadcastIndex;
use crate::support::shapes::unchanged;

const INPUT: &[Arg] = &[arg_of("input", DType::String)];
const OUTPUT: &[Arg] = &[arg_of("output", DType::String)];
const UNITS: &[&str] = &["BYTE", "UTF8_CHAR"];

/// Returns `true` if a byte begins a character of UTF-8.
fn is_char_start(byte: &u8) -> bool {
    byte & 0xc0 != 0x80
}

/// Number of bytes or characters.
pub(crate) static LENGTH: Op = Op {
    def: OpDef {
        name: "StringLength",
        summary: "The length of each string, in bytes or in characters of UTF-8.",
        inputs: INPUT,
        outputs: &[arg_of("output", DType::I32)],
        attrs: &[str_attr("unit", "BYTE", UNITS)],
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let chars = cx.attrs().str("unit") == "UTF8_CHAR";
        super::map_strings::map_to_numbers(cx, |s| {
            let len = if chars {
                s.iter().filter(|b| is_char_start(b)).count()
            } else {
                s.len()
            };
            i32::try_from(len).map_err(|_| format!("its length {len} does not fit in i32"))
        })
    })],
};

/// Changes the case of ASCII characters, or of all.
fn change_case(
    cx: &TensorCx<'_>,
    ascii: fn(&[u8]) -> Vec<u8>,
    all: fn(&str) -> String,
) -> Result<Vec<Tensor>, KernelError> {
    match cx.attrs().str("encoding") {
        "" => map_strings(cx, ascii),
        "utf-8" => map_strings(cx, |s| all(&String::from_utf8_lossy(s)).into_bytes()),
        other => Err(KernelError::Invalid(format!(
            "encoding \"{other}\": use \"\" (only letters of ASCII change) or \"utf-8\""
        ))),
    }
}

/// Converts to lower case.
pub(crate) static LOWER: Op = Op {
    def: OpDef {
        name: "StringLower",
        summary: "Each string in lower case.",
        inputs: INPUT,
        outputs: OUTPUT,
        attrs: &[str_attr("encoding", "", &[])],
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        change_case(cx, <[u8]>::to_ascii_lowercase, str::to_lowercase)
    })],
};

/// Converts to upper case.
pub(crate) static UPPER: Op = Op {
    def: OpDef {
        name: "StringUpper",
        summary: "Each string in upper case.",
        inputs: INPUT,
        outputs: OUTPUT,
        attrs: &[str_attr("encoding", "", &[])],
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        change_case(cx, <[u8]>::to_ascii_uppercase, str::to_uppercase)
    })],
};

/// Returns `true` if a byte is white space in C.
pub(super) fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Removes the white space at both ends of a string.
pub(super) fn strip(s: &[u8]) -> &[u8] {
    let start = s.iter().position(|b| !is_space(b)).unwrap_or(s.len());
    let end = s
        .iter()
        .rposition(|b| !is_space(b))
        .map_or(start, |i| i + 1);
    &s[start..end]
}

/// Removes white space at both ends.
pub(crate) static STRIP: Op = Op {
    def: OpDef {
        name: "StringStrip",
        summary: "Each string without white space at its ends.",
        inputs: INPUT,
        outputs: OUTPUT,
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| map_strings(cx, |s| strip(s).to_vec()))],
};

/// Substring of `len` units from `pos` on; `None` if `pos` is out of range.
fn substring(s: &[u8], pos: i64, len: i64, chars: bool) -> Option<&[u8]> {
    // Start of each unit, and the end.
    let starts: Option<Vec<usize>> = chars.then(|| {
        let starts = (0..s.len()).filter(|&i| is_char_start(&s[i]));
        starts.chain([s.len()]).collect()
    });
    let units = starts.as_ref().map_or(s.len(), |s| s.len() - 1);
    let pos = match pos < 0 {
        true => pos.checked_add(i64::try_from(units).ok()?)?,
        false => pos,
    };
    let pos = usize::try_from(pos).ok().filter(|&p| p <= units)?;
    // A negative length means all bytes, but no characters, as in TensorFlow.
    let negative = if chars { 0 } else { usize::MAX };
    let len = usize::try_from(len).unwrap_or(negative);
    let end = pos.saturating_add(len).min(units);
    let at = |i: usize| starts.as_ref().map_or(Some(i), |s| s.get(i).copied());
    s.get(at(pos)?..at(end)?)
}

fn substr(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (input, pos, len) = (cx.strings(0)?, cx.ints(1)?, cx.ints(2)?);
    let (dims, [at, from]) = BroadcastIndex::of_inputs(cx, [0, 1])?;
    let count = thalweg_tensor::shape::elements(&dims);
    let chars = cx.attrs().str("unit") == "UTF8_CHAR";
    let mut parts = cx.string_tensor(&dims)?;
    for i in 0..count {
        let (s, p) = (at.index(i), from.index(i));
        let (Some(s), Some(&pos), Some(&len)) = (input.get(s), pos.get(p), len.get(p)) else {
            return Err(KernelError::Argument("an element"));
        };
        let part = substring(s, pos, len, chars).ok_or_else(|| KernelError::Element {
            input: 1,
            element: p,
            reason: format!(
                "position {pos} is out of range for string {}",
                quoted_escaped(s)
            ),
        })?;
        parts.push(part)?;
    }
    Ok(vec![parts.finish()?])
}

/// Takes substrings.
pub(crate) static SUBSTR: Op = Op {
    def: OpDef {
        name: "Substr",
        summary: "The substring of each string of the given length from the given position on; a negative position counts from the end.",
        inputs: &[
            arg_of("input", DType::String),
            arg("pos", "T"),
            arg("len", "T"),
        ],
        outputs: OUTPUT,
        attrs: &[
            type_attr("T", DType::INDICES),
            str_attr("unit", "BYTE", UNITS),
        ],
        shape: |cx| {
            cx.same(1, 2)?;
            crate::support::shapes::broadcast(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(substr)],
};
