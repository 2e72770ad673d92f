//! AsString, StringToNumber.

use std::fmt::Write;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Gradient, arg, arg_of, bool_attr, int_attr, str_attr, type_attr, type_attr_or,
};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Tensor, dispatch};

use super::map_strings::map_to_numbers;
use super::numbers::parse;
use super::printf::{FieldFormat, Style, float, write_float};
use crate::support::shapes::unchanged;
use thalweg_cpu::number::Number;

/// Maximum width and number of digits, since a file may contain any. `format!` panics above 65,535, and the shortest style
/// needs three more digits than requested.
const MAX_WIDTH: i64 = 65_000;

fn as_string_shape(cx: &mut thalweg_graph::Infer<'_>) -> Result<(), InferError> {
    let wrong = |attr: &'static str, reason: &str| {
        Err(InferError::Attr {
            attr,
            reason: reason.to_owned(),
        })
    };
    let attrs = cx.attrs();
    let whole = attrs.dtype("T").is_some_and(|d| !d.real().is_float());
    if attrs.bool("scientific") && attrs.bool("shortest") {
        return wrong(
            "scientific",
            "a number is written scientifically or shortest, not both",
        );
    }
    if whole && (attrs.bool("scientific") || attrs.bool("shortest")) {
        return wrong(
            "scientific",
            "only a floating-point number is written scientifically or shortest",
        );
    }
    if whole && attrs.int("precision") > -1 {
        return wrong(
            "precision",
            "only a floating-point number has places: leave it at -1",
        );
    }
    if !matches!(attrs.str("fill"), "" | " " | "0" | "-" | "+") {
        return wrong(
            "fill",
            "use one of \" \", \"0\", \"-\" and \"+\", or nothing",
        );
    }
    for attr in ["precision", "width"] {
        if attrs.int(attr) > MAX_WIDTH {
            return wrong(attr, "use at most 65000");
        }
    }
    unchanged(cx)
}

fn as_string(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (x, attrs) = (cx.tensor(0)?, cx.attrs());
    let width = usize::try_from(attrs.int("width")).ok();
    let field = FieldFormat {
        width: width.unwrap_or(0),
        // A fill character needs a width, except for the sign.
        flag: attrs
            .str("fill")
            .chars()
            .next()
            .filter(|&f| width.is_some() || f != '-'),
    };
    let precision = usize::try_from(attrs.int("precision")).ok();
    let style = match (attrs.bool("scientific"), attrs.bool("shortest")) {
        (true, _) => Style::Scientific,
        (_, true) => Style::Shortest,
        _ => Style::Fixed,
    };
    let text = match x.dtype() {
        DType::Bool => {
            let all = x.as_slice::<bool>()?.iter();
            cx.strings_of(x.dims(), all.map(|b| b.to_string()))?
        }
        DType::String => {
            let pad = |s: &[u8]| {
                let blank = vec![b' '; field.width.saturating_sub(s.len())];
                match field.flag {
                    Some('-') => [s, &blank].concat(),
                    _ => [&blank, s].concat(),
                }
            };
            cx.strings_of(x.dims(), cx.strings(0)?.iter().map(pad))?
        }
        DType::C64 | DType::C128 => dispatch!(x.dtype(), COMPLEX, T => {
            let part = |x: f64| field.number(float(x, style, precision));
            #[allow(clippy::useless_conversion, reason = "of f32, there is one")]
            let one = |x: &T| format!("({},{})", part(x.re.into()), part(x.im.into()));
            cx.strings_of(x.dims(), x.as_slice::<T>()?.iter().map(one))?
        }, else return Err(KernelError::DType(x.dtype()))),
        dtype => dispatch!(dtype, FLOATS, T => {
            let all = x.as_slice::<T>()?;
            padded(cx, x.dims(), field, all, |x, to| write_float(to, x.to_f64(), style, precision))?
        }, else dispatch!(dtype, INTS, T => {
            // Unsigned types have no place for a sign.
            let unsigned = [DType::U8, DType::U16, DType::U32, DType::U64].contains(&dtype);
            let flag = field.flag.filter(|f| !(unsigned && matches!(f, '+' | ' ')));
            let field = FieldFormat { flag, ..field };
            padded(cx, x.dims(), field, x.as_slice::<T>()?, |x, to| write!(to, "{x}"))?
        }, else return Err(KernelError::DType(dtype)))),
    };
    Ok(vec![text])
}

/// Numbers that `write` appends to a text, padded.
fn padded<T>(
    cx: &TensorCx<'_>,
    dims: &[usize],
    field: FieldFormat,
    numbers: &[T],
    write: impl Fn(&T, &mut String) -> std::fmt::Result,
) -> Result<Tensor, KernelError> {
    let (mut all, mut stop) = (cx.string_tensor(dims)?, cx.stop_check());
    let mut text = String::new();
    for number in numbers {
        stop.tick()?;
        text.clear();
        // A string takes any text.
        let _ = write(number, &mut text);
        match field.is_plain() {
            true => all.push(text.as_bytes())?,
            false => all.push(field.number(text.clone()).as_bytes())?,
        }
    }
    Ok(all.finish()?)
}

/// Formats numbers as C's `printf` does.
pub(crate) static AS_STRING: Op = Op {
    def: OpDef {
        name: "AsString",
        summary: "Each element as text, in the format of printf.",
        inputs: &[arg("input", "T")],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            type_attr("T", &DType::ALL),
            int_attr("precision", -1),
            bool_attr("scientific", false),
            bool_attr("shortest", false),
            int_attr("width", -1),
            str_attr("fill", "", &[]),
        ],
        shape: as_string_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(as_string)],
};

/// Parses strings as numbers.
pub(crate) static TO_NUMBER: Op = Op {
    def: OpDef {
        name: "StringToNumber",
        summary: "The number that each string represents.",
        inputs: &[arg_of("string_tensor", DType::String)],
        outputs: &[arg("output", "out_type")],
        attrs: &[type_attr_or(
            "out_type",
            &[
                DType::F32,
                DType::F64,
                DType::I32,
                DType::I64,
                DType::U32,
                DType::U64,
            ],
            DType::F32,
        )],
        shape: unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.attrs().dtype("out_type").unwrap_or(DType::F32);
        dispatch!(dtype, [F32 F64 I32 I64 U32 U64], T => map_to_numbers::<T>(cx, parse::<T>), else
            Err(KernelError::DType(dtype)))
    })],
};
