//! The table of op cases: results of TensorFlow's kernels, read from `tests/golden/ops.jsonl.gz`; comparison with a
//! tolerance.

use std::io::Read;

use serde_json::Value;
use thalweg_graph::Attr;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Quantized, Shape, Tensor, dispatch};

/// A call of an op with its expected results.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub op: String,
    pub attrs: Vec<(String, Attr)>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Tensor>,
    /// Expected results of the next run in the same session, for random ops.
    pub second_run: Vec<Tensor>,
    pub variables_after: Vec<Tensor>,
    pub tolerance: Tolerance,
}

#[derive(Clone)]
pub enum Input {
    Tensor(Tensor),
    /// A variable with its initial value, if it has one.
    Variable(DType, Vec<usize>, Option<Tensor>),
}

/// A result passes if it is within `abs + rel * |expected|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub rel: f64,
    pub abs: f64,
}

/// Every case of the ops whose names begin with `prefix`.
pub fn cases(prefix: &str) -> Vec<Case> {
    let lines = lines("ops.jsonl.gz");
    lines
        .iter()
        .map(case)
        .filter(|c| c.op.starts_with(prefix))
        .collect()
}

/// The objects of a file in `tests/golden`, one a line.
pub fn lines(file: &str) -> Vec<Value> {
    texts(file)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The lines of a file in `tests/golden`.
pub fn texts(file: &str) -> Vec<String> {
    let path = super::root().join("tests/golden").join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A line of the table as a case.
pub fn case(v: &Value) -> Case {
    let list = |key: &str| v[key].as_array().map_or(&[][..], |a| a);
    Case {
        name: v["name"].as_str().unwrap().to_owned(),
        op: v["op"].as_str().unwrap().to_owned(),
        attrs: v["attrs"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), attr(value)))
            .collect(),
        inputs: list("inputs").iter().map(input).collect(),
        outputs: list("outputs").iter().map(tensor).collect(),
        second_run: list("outputs_second_run").iter().map(tensor).collect(),
        variables_after: list("variables_after").iter().map(tensor).collect(),
        tolerance: Tolerance {
            rel: v["tolerance"]["rel"].as_f64().unwrap_or(0.0),
            abs: v["tolerance"]["abs"].as_f64().unwrap_or(0.0),
        },
    }
}

fn attr(v: &Value) -> Attr {
    let (kind, value) = v.as_object().unwrap().iter().next().unwrap();
    let ints = |v: &Value| -> Vec<i64> {
        v.as_array()
            .unwrap()
            .iter()
            .map(|i| i.as_i64().unwrap())
            .collect()
    };
    match kind.as_str() {
        "type" => Attr::Type(dtype(value)),
        "types" => Attr::Types(value.as_array().unwrap().iter().map(dtype).collect()),
        "i" => Attr::Int(value.as_i64().unwrap()),
        "f" => Attr::Float(number(value) as f32),
        "b" => Attr::Bool(value.as_bool().unwrap()),
        "s" => Attr::Str(value.as_str().unwrap().to_owned()),
        "strs" => {
            let all = value.as_array().unwrap().iter();
            Attr::Strs(all.map(|s| s.as_str().unwrap().into()).collect())
        }
        "ints" => Attr::Ints(ints(value)),
        "floats" => {
            let all = value.as_array().unwrap().iter();
            Attr::Floats(all.map(|f| number(f) as f32).collect())
        }
        "shape" => Attr::Shape(match value.as_array() {
            Some(dims) => Shape::partial(dims.iter().map(|d| d.as_u64().map(|d| d as usize))),
            None => Shape::unknown(),
        }),
        other => panic!("an attribute of kind {other}"),
    }
}

fn input(v: &Value) -> Input {
    match v.get("variable") {
        None => Input::Tensor(tensor(v)),
        Some(t) => Input::Variable(
            dtype(&t["dtype"]),
            dims(t),
            t.get("data").map(|_| tensor(t)),
        ),
    }
}

fn dtype(v: &Value) -> DType {
    DType::from_name(v.as_str().unwrap()).unwrap()
}

fn dims(v: &Value) -> Vec<usize> {
    v["dims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d.as_u64().unwrap() as usize)
        .collect()
}

fn number(v: &Value) -> f64 {
    match v.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        Some("nan") => f64::NAN,
        _ => v.as_f64().unwrap(),
    }
}

/// A number of JSON as an element.
trait Parse {
    fn parse(v: &Value) -> Self;
}

macro_rules! parse {
    ($($t:ty => $f:expr;)*) => {$(
        impl Parse for $t {
            fn parse(v: &Value) -> $t { let f: fn(&Value) -> $t = $f; f(v) }
        }
    )*};
}

parse! {
    half::f16 => |v| half::f16::from_f64(number(v));
    half::bf16 => |v| half::bf16::from_f64(number(v));
    // Through the text: an f64 in between would round twice.
    f32 => |v| v.as_number().map_or_else(|| number(v) as f32, |n| n.to_string().parse().unwrap());
    f64 => number;
    i8 => |v| v.as_i64().unwrap() as i8;
    i16 => |v| v.as_i64().unwrap() as i16;
    i32 => |v| v.as_i64().unwrap() as i32;
    i64 => |v| v.as_i64().unwrap();
    u8 => |v| v.as_u64().unwrap() as u8;
    u16 => |v| v.as_u64().unwrap() as u16;
    u32 => |v| v.as_u64().unwrap() as u32;
    u64 => |v| v.as_u64().unwrap();
    bool => |v| v.as_bool().unwrap();
    Quantized<i8> => |v| Quantized(i8::parse(v));
    Quantized<u8> => |v| Quantized(u8::parse(v));
    Quantized<i16> => |v| Quantized(i16::parse(v));
    Quantized<u16> => |v| Quantized(u16::parse(v));
    Quantized<i32> => |v| Quantized(i32::parse(v));
    Complex<f32> => |v| Complex::new(f32::parse(&v[0]), f32::parse(&v[1]));
    Complex<f64> => |v| Complex::new(f64::parse(&v[0]), f64::parse(&v[1]));
}

pub fn tensor(v: &Value) -> Tensor {
    let (dims, data) = (dims(v), v["data"].as_array().unwrap());
    dispatch!(dtype(&v["dtype"]), PLAIN, T => {
        let elements: Vec<T> = data.iter().map(T::parse).collect();
        Tensor::new(&dims, &elements).unwrap()
    }, else {
        let strings: Vec<Vec<u8>> = data.iter().map(string).collect();
        Tensor::strings(&dims, &strings).unwrap()
    })
}

/// A string: text, or an object with its bytes in hexadecimal digits.
fn string(v: &Value) -> Vec<u8> {
    match v["hex"].as_str() {
        None => v.as_str().unwrap().as_bytes().to_vec(),
        Some(hex) => (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect(),
    }
}

/// Describes the first difference between `found` and `expected`; `None` where they agree.
pub fn difference(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Option<String> {
    if found.dtype() != expected.dtype() || found.dims() != expected.dims() {
        return Some(format!("{found} in place of {expected}"));
    }
    let exact = found.dtype() == DType::String || found.dtype().is_int();
    if exact && tolerance.rel == 0.0 && tolerance.abs == 0.0 {
        return (found != expected).then(|| format!("{found} in place of {expected}"));
    }
    if found.dtype().is_complex() {
        return complex_difference(found, expected, tolerance);
    }
    let (f, e) = (numbers(found), numbers(expected));
    let fits = |(f, e): (f64, f64)| {
        f == e
            || (f.is_nan() && e.is_nan())
            || (e.is_finite() && (f - e).abs() <= tolerance.abs + tolerance.rel * e.abs())
    };
    let wrong: Vec<usize> = (0..f.len()).filter(|&i| !fits((f[i], e[i]))).collect();
    let &at = wrong.first()?;
    Some(format!(
        "{} of {} elements of {} differ; element {at} is {:?}, not {:?} (tolerance {tolerance:?})",
        wrong.len(),
        f.len(),
        found.shape(),
        f[at],
        e[at]
    ))
}

/// As [`difference`], of complex numbers: their distance has to be within the tolerance.
fn complex_difference(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Option<String> {
    let (f, e) = (complex_numbers(found), complex_numbers(expected));
    let same = |f: f64, e: f64| f == e || f.is_nan() && e.is_nan();
    let fits = |f: Complex<f64>, e: Complex<f64>| {
        same(f.re, e.re) && same(f.im, e.im)
            || e.is_finite() && (f - e).norm() <= tolerance.abs + tolerance.rel * e.norm()
    };
    let at = (0..f.len()).find(|&i| !fits(f[i], e[i]))?;
    Some(format!(
        "element {at} of {} is {}, not {} (tolerance {tolerance:?})",
        found.shape(),
        f[at],
        e[at]
    ))
}

#[allow(clippy::useless_conversion, reason = "of f32, there is one")]
fn complex_numbers(t: &Tensor) -> Vec<Complex<f64>> {
    dispatch!(t.dtype(), COMPLEX, T => t
        .as_slice::<T>()
        .unwrap()
        .iter()
        .map(|v| Complex::new(v.re.into(), v.im.into()))
        .collect(), else Vec::new())
}

/// The elements as `f64`.
pub fn numbers(t: &Tensor) -> Vec<f64> {
    match t.dtype() {
        DType::F16 => t
            .as_slice::<half::f16>()
            .unwrap()
            .iter()
            .map(|v| v.to_f64())
            .collect(),
        DType::BF16 => t
            .as_slice::<half::bf16>()
            .unwrap()
            .iter()
            .map(|v| v.to_f64())
            .collect(),
        DType::Bool => t
            .as_slice::<bool>()
            .unwrap()
            .iter()
            .map(|&v| f64::from(u8::from(v)))
            .collect(),
        DType::I64 => t
            .as_slice::<i64>()
            .unwrap()
            .iter()
            .map(|&v| v as f64)
            .collect(),
        DType::U64 => t
            .as_slice::<u64>()
            .unwrap()
            .iter()
            .map(|&v| v as f64)
            .collect(),
        DType::F64 => t.to_vec().unwrap(),
        d => dispatch!(d, [F32 I8 I16 I32 U8 U16 U32], T =>
            t.as_slice::<T>().unwrap().iter().map(|&v| f64::from(v)).collect(), else Vec::new()),
    }
}
