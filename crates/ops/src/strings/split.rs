//! Strings in pieces, as a sparse matrix with a row for each string.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, Gradient, arg_of, bool_attr, int_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::text::is_space;
use crate::shapes::expect_scalar;

const OUTPUTS: &[Arg] = &[
    arg_of("indices", DType::I64),
    arg_of("values", DType::String),
    arg_of("shape", DType::I64),
];

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(0, 1)?;
    expect_scalar(cx, 1)?;
    cx.set(0, Shape::partial([None, Some(2)]));
    cx.set(1, Shape::of_rank(1));
    cx.set(2, Shape::known(&[2]));
    Ok(())
}

/// The pieces of each string.
fn sparse(rows: &[Vec<&[u8]>]) -> Result<Vec<Tensor>, KernelError> {
    let mut indices = Vec::new();
    for (row, pieces) in rows.iter().enumerate() {
        for column in 0..pieces.len() {
            indices.extend([row as i64, column as i64]);
        }
    }
    let values = rows.concat();
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    Ok(vec![
        Tensor::new(&[values.len(), 2], &indices)?,
        Tensor::strings(&[values.len()], &values)?,
        Tensor::vector(&[rows.len() as i64, longest as i64]),
    ])
}

fn separator<'a>(cx: &TensorCx<'a>) -> Result<&'a [u8], KernelError> {
    match cx.strings(1)? {
        [one] => Ok(one),
        _ => Err(KernelError::Argument("one separator")),
    }
}

/// At every byte of a delimiter; where that is empty, into bytes.
fn split(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (delimiter, skip) = (separator(cx)?, cx.attrs().bool("skip_empty"));
    let rows: Vec<Vec<&[u8]>> = cx
        .strings(0)?
        .iter()
        .map(|s| match delimiter.is_empty() {
            _ if s.is_empty() => Vec::new(),
            true => s.chunks(1).collect(),
            false => {
                let pieces = s.split(|b| delimiter.contains(b));
                pieces.filter(|p| !skip || !p.is_empty()).collect()
            }
        })
        .collect();
    sparse(&rows)
}

/// At a separator; where that is empty, at white space. As Python's `str.split`.
fn split_v2(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let separator = separator(cx)?;
    // Zero is no bound either, as in TensorFlow.
    let most = usize::try_from(cx.attrs().int("maxsplit")).ok();
    let most = most.filter(|&most| most > 0).unwrap_or(usize::MAX);
    let pieces = |s| match separator.is_empty() {
        true => at_spaces(s, most),
        false => at(s, separator, most),
    };
    let rows: Vec<Vec<&[u8]>> = cx.strings(0)?.iter().map(|s| pieces(s)).collect();
    sparse(&rows)
}

fn at<'a>(mut s: &'a [u8], separator: &[u8], most: usize) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while pieces.len() < most
        && let Some(i) = s.windows(separator.len()).position(|w| w == separator)
    {
        pieces.push(&s[..i]);
        s = &s[i + separator.len()..];
    }
    pieces.push(s);
    pieces
}

/// After the last split stands the rest, be it empty, as in TensorFlow.
fn at_spaces(s: &[u8], most: usize) -> Vec<&[u8]> {
    let begin = |s: &[u8]| s.iter().position(|b| !is_space(b)).unwrap_or(s.len());
    let mut pieces = Vec::new();
    let mut rest = &s[begin(s)..];
    while !rest.is_empty() {
        let end = rest.iter().position(is_space).unwrap_or(rest.len());
        pieces.push(&rest[..end]);
        rest = &rest[end..];
        rest = &rest[begin(rest)..];
        if pieces.len() == most {
            pieces.push(rest);
            break;
        }
    }
    pieces
}

/// At the bytes of a delimiter.
pub(crate) static SPLIT: Op = Op {
    def: OpDef {
        name: "StringSplit",
        summary: "The pieces of each string between the bytes of a delimiter, as a sparse matrix.",
        inputs: &[
            arg_of("input", DType::String),
            arg_of("delimiter", DType::String),
        ],
        outputs: OUTPUTS,
        attrs: &[bool_attr("skip_empty", true)],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(split)],
};

/// At a separator.
pub(crate) static SPLIT_V2: Op = Op {
    def: OpDef {
        name: "StringSplitV2",
        summary: "The pieces of each string between separators, as a sparse matrix; as Python splits.",
        inputs: &[arg_of("input", DType::String), arg_of("sep", DType::String)],
        outputs: OUTPUTS,
        attrs: &[int_attr("maxsplit", -1)],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(split_v2)],
};
