//! StringSplit, StringSplitV2: pieces of strings, as a sparse matrix with a row for each string.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, Gradient, arg_of, bool_attr, int_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::length_case_substr::is_space;
use crate::support::shapes::expect_scalar;

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

/// Callback that receives the pieces of a string in order.
type TakePiece<'a, 'b> = &'b mut dyn FnMut(&'a [u8]) -> Result<(), KernelError>;

/// Collects the pieces of each string of input 0 from `pieces`; they are counted before memory for
/// them is allocated.
fn sparse_pieces<'a>(
    cx: &TensorCx<'a>,
    pieces: impl Fn(&'a [u8], TakePiece<'a, '_>) -> Result<(), KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    let rows = cx.strings(0)?;
    let (mut count, mut longest) = (0usize, 0i64);
    let mut stop = cx.stop_check();
    for row in rows {
        stop.tick()?;
        let before = count;
        pieces(row, &mut |_| {
            count += 1;
            Ok(())
        })?;
        longest = longest.max((count - before) as i64);
    }
    let mut indices = cx.zeros(DType::I64, &[count, 2])?;
    let mut values = cx.string_tensor(&[count])?;
    let mut places = indices.as_mut_slice::<i64>()?.chunks_exact_mut(2);
    for (number, row) in rows.iter().enumerate() {
        stop.tick()?;
        let mut column = 0;
        pieces(row, &mut |piece| {
            if let Some(place) = places.next() {
                place.copy_from_slice(&[number as i64, column]);
            }
            column += 1;
            Ok(values.push(piece)?)
        })?;
    }
    Ok(vec![
        indices,
        values.finish()?,
        Tensor::vector(&[rows.len() as i64, longest]),
    ])
}

fn separator<'a>(cx: &TensorCx<'a>) -> Result<&'a [u8], KernelError> {
    match cx.strings(1)?.only() {
        Some(one) => Ok(one),
        None => Err(KernelError::Argument("one separator")),
    }
}

/// Splits at every byte of a delimiter; if that is empty, into bytes.
fn split(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (delimiter, skip) = (separator(cx)?, cx.attrs().bool("skip_empty"));
    sparse_pieces(cx, |s, take| match delimiter.is_empty() {
        _ if s.is_empty() => Ok(()),
        true => s.chunks(1).try_for_each(take),
        false => {
            let mut pieces = s.split(|b| delimiter.contains(b));
            (pieces.by_ref())
                .filter(|p| !skip || !p.is_empty())
                .try_for_each(take)
        }
    })
}

/// Splits at a separator; if that is empty, at white space. Like Python's `str.split`.
fn split_v2(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let separator = separator(cx)?;
    // Zero is no limit either, as in TensorFlow.
    let max_splits = usize::try_from(cx.attrs().int("maxsplit")).ok();
    let max_splits = max_splits
        .filter(|&max_splits| max_splits > 0)
        .unwrap_or(usize::MAX);
    sparse_pieces(cx, |s, take| match separator.is_empty() {
        true => split_at_spaces(s, max_splits, take),
        false => split_at_separator(s, separator, max_splits, take),
    })
}

fn split_at_separator<'a>(
    mut s: &'a [u8],
    separator: &[u8],
    max_splits: usize,
    take: TakePiece<'a, '_>,
) -> Result<(), KernelError> {
    let mut count = 0;
    let find = |s: &[u8]| match separator {
        [one] => s.iter().position(|byte| byte == one),
        _ => s.windows(separator.len()).position(|w| w == separator),
    };
    while count < max_splits
        && let Some(i) = find(s)
    {
        take(&s[..i])?;
        count += 1;
        s = &s[i + separator.len()..];
    }
    take(s)
}

/// The last piece is the rest, even if empty, as in TensorFlow.
fn split_at_spaces<'a>(
    s: &'a [u8],
    max_splits: usize,
    take: TakePiece<'a, '_>,
) -> Result<(), KernelError> {
    let begin = |s: &[u8]| s.iter().position(|b| !is_space(b)).unwrap_or(s.len());
    let mut count = 0;
    let mut rest = &s[begin(s)..];
    while !rest.is_empty() {
        let end = rest.iter().position(is_space).unwrap_or(rest.len());
        take(&rest[..end])?;
        count += 1;
        rest = &rest[end..];
        rest = &rest[begin(rest)..];
        if count == max_splits {
            return take(rest);
        }
    }
    Ok(())
}

/// Splits at the bytes of a delimiter.
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

/// Splits at a separator.
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
