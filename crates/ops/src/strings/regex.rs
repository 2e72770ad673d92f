//! RegexFullMatch, StaticRegexFullMatch, RegexReplace, StaticRegexReplace.
//! TensorFlow uses RE2, whose syntax the `regex` crate has except for a few escapes; like RE2 it takes time that is
//! linear in the text.

use regex::bytes::Regex;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg_of, attr, bool_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, StringTensorBuilder, Tensor};

use crate::support::shapes::unchanged;

fn compile(pattern: &str) -> Result<Regex, KernelError> {
    Regex::new(pattern)
        .map_err(|e| KernelError::Invalid(format!("'{pattern}' is no regular expression: {e}")))
}

/// The only string of input `i`, which must be UTF-8.
fn text_input<'a>(cx: &TensorCx<'a>, i: usize) -> Result<&'a str, KernelError> {
    let wrong = || KernelError::Invalid(format!("input {i} must be one string of UTF-8"));
    match cx.strings(i)? {
        [one] => std::str::from_utf8(one).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

fn full_match(cx: &TensorCx<'_>, pattern: &str) -> Result<Vec<Tensor>, KernelError> {
    // Checks that the pattern is valid by itself, before it is put between anchors.
    compile(pattern)?;
    let whole = compile(&format!(r"\A(?:{pattern})\z"))?;
    let mut found = cx.zeros(DType::Bool, cx.tensor(0)?.dims())?;
    let mut stop = cx.stop_check();
    for (found, s) in found.as_mut_slice::<bool>()?.iter_mut().zip(cx.strings(0)?) {
        stop.tick()?;
        *found = whole.is_match(s);
    }
    Ok(vec![found])
}

/// A piece of a replacement.
enum RewritePiece {
    Text(Vec<u8>),
    /// The match of the group of this number.
    Group(usize),
}

/// Parses a replacement in RE2's syntax: `\1` is a group.
fn parse_rewrite(rewrite: &str) -> Result<Vec<RewritePiece>, KernelError> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut bytes = rewrite.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    pieces.push(RewritePiece::Text(std::mem::take(&mut text)));
                    pieces.push(RewritePiece::Group(usize::from(digit - b'0')));
                }
                Some(b'\\') => text.push(b'\\'),
                _ => {
                    return Err(KernelError::Invalid(format!(
                        "'{rewrite}': a backslash must stand before a digit or another one"
                    )));
                }
            },
            byte => text.push(byte),
        }
    }
    pieces.push(RewritePiece::Text(text));
    Ok(pieces)
}

/// Appends a string with its matches, each given by its groups, replaced.
fn append_replaced<'t>(
    out: &mut StringTensorBuilder,
    s: &'t [u8],
    matches: impl Iterator<Item = impl Fn(usize) -> Option<std::ops::Range<usize>> + 't>,
    rewrite: &[RewritePiece],
) -> Result<(), KernelError> {
    let mut last = 0;
    for group in matches {
        let Some(whole) = group(0) else { continue };
        out.extend(&s[last..whole.start])?;
        for piece in rewrite {
            match piece {
                RewritePiece::Text(text) => out.extend(text)?,
                RewritePiece::Group(i) => out.extend(group(*i).map_or(&[][..], |r| &s[r]))?,
            }
        }
        last = whole.end;
    }
    out.extend(&s[last..])?;
    out.end();
    Ok(())
}

fn replace(cx: &TensorCx<'_>, pattern: &str, rewrite: &str) -> Result<Vec<Tensor>, KernelError> {
    let (regex, rewrite) = (compile(pattern)?, parse_rewrite(rewrite)?);
    let max_matches = match cx.attrs().bool("replace_global") {
        true => usize::MAX,
        false => 1,
    };
    // An empty match must not split a character of text, as it would in bytes.
    let of_text = regex::Regex::new(pattern).ok();
    let mut out = cx.string_tensor(cx.tensor(0)?.dims())?;
    let mut stop = cx.stop_check();
    for s in cx.strings(0)? {
        stop.tick()?;
        match (&of_text, std::str::from_utf8(s)) {
            (Some(regex), Ok(text)) => {
                let all = regex.captures_iter(text).take(max_matches);
                let groups = all.map(|c| move |i: usize| c.get(i).map(|m| m.range()));
                append_replaced(&mut out, s, groups, &rewrite)?;
            }
            _ => {
                let all = regex.captures_iter(s).take(max_matches);
                let groups = all.map(|c| move |i: usize| c.get(i).map(|m| m.range()));
                append_replaced(&mut out, s, groups, &rewrite)?;
            }
        }
    }
    Ok(vec![out.finish()?])
}

const TEXT_OP: OpDef = OpDef {
    outputs: &[arg_of("output", DType::String)],
    shape: unchanged,
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// `true` for each string that matches as a whole.
pub(crate) static FULL_MATCH: Op = Op {
    def: OpDef {
        name: "RegexFullMatch",
        summary: "True for each string that matches a regular expression as a whole.",
        inputs: &[
            arg_of("input", DType::String),
            arg_of("pattern", DType::String),
        ],
        outputs: &[arg_of("output", DType::Bool)],
        ..TEXT_OP
    },
    kernels: &[cpu_tensors(|cx| full_match(cx, text_input(cx, 1)?))],
};

/// Like [`FULL_MATCH`], with a constant pattern.
pub(crate) static STATIC_FULL_MATCH: Op = Op {
    def: OpDef {
        name: "StaticRegexFullMatch",
        summary: "True for each string that matches a regular expression as a whole.",
        inputs: &[arg_of("input", DType::String)],
        outputs: &[arg_of("output", DType::Bool)],
        attrs: &[attr("pattern", AttrKind::Str)],
        ..TEXT_OP
    },
    kernels: &[cpu_tensors(|cx| full_match(cx, cx.attrs().str("pattern")))],
};

/// Replaces matches in each string.
pub(crate) static REPLACE: Op = Op {
    def: OpDef {
        name: "RegexReplace",
        summary: "Each string with the matches of a regular expression replaced.",
        inputs: &[
            arg_of("input", DType::String),
            arg_of("pattern", DType::String),
            arg_of("rewrite", DType::String),
        ],
        attrs: &[bool_attr("replace_global", true)],
        ..TEXT_OP
    },
    kernels: &[cpu_tensors(|cx| {
        replace(cx, text_input(cx, 1)?, text_input(cx, 2)?)
    })],
};

/// Like [`REPLACE`], with a constant pattern.
pub(crate) static STATIC_REPLACE: Op = Op {
    def: OpDef {
        name: "StaticRegexReplace",
        summary: "Each string with the matches of a regular expression replaced.",
        inputs: &[arg_of("input", DType::String)],
        attrs: &[
            attr("pattern", AttrKind::Str),
            attr("rewrite", AttrKind::Str),
            bool_attr("replace_global", true),
        ],
        ..TEXT_OP
    },
    kernels: &[cpu_tensors(|cx| {
        replace(cx, cx.attrs().str("pattern"), cx.attrs().str("rewrite"))
    })],
};
