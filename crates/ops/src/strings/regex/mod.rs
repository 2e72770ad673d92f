//! RegexFullMatch, StaticRegexFullMatch, RegexReplace, StaticRegexReplace.
//! TensorFlow uses RE2, whose syntax the `regex` crate has except for a few escapes; like RE2 it takes time that is
//! linear in the text.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg_of, attr, bool_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::DType;

use crate::support::shapes::unchanged;

#[cfg(feature = "regex")]
mod matches;
#[cfg(not(feature = "regex"))]
#[path = "without.rs"]
mod matches;

use matches::{full_match, replace};

/// The only string of input `i`, which must be UTF-8.
fn text_input<'a>(cx: &TensorCx<'a>, i: usize) -> Result<&'a str, KernelError> {
    let wrong = || KernelError::Invalid(format!("input {i} must be one string of UTF-8"));
    match cx.strings(i)?.only() {
        Some(one) => std::str::from_utf8(one).map_err(|_| wrong()),
        None => Err(wrong()),
    }
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
