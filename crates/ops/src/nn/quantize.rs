//! QuantizeV2, Dequantize: floats as numbers of steps, and back.

use half::bf16;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Gradient, arg, arg_of, bool_attr, float_attr, int_attr, str_attr, type_attr,
    type_attr_or,
};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Quantized, Tensor, dispatch};

use super::quantize_dequantize::{channel_axis, check_ranges, split};

const T: AttrDef = type_attr("T", DType::QUANTIZED);
const MODE: AttrDef = str_attr(
    "mode",
    "MIN_COMBINED",
    &["MIN_COMBINED", "MIN_FIRST", "SCALED"],
);
const NARROW: AttrDef = bool_attr("narrow_range", false);
const AXIS: AttrDef = int_attr("axis", -1);

/// The steps of a quantized dtype.
trait Steps: Element {
    /// The first and the last one.
    const LIMITS: [i64; 2];
    /// The step of this number.
    fn at(step: i64) -> Self;
    /// The number of this step.
    fn number(self) -> i64;
}

macro_rules! steps {
    ($($integer:ty),*) => {$(
        impl Steps for Quantized<$integer> {
            const LIMITS: [i64; 2] = [<$integer>::MIN as i64, <$integer>::MAX as i64];

            fn at(step: i64) -> Self {
                Quantized(step as $integer)
            }

            fn number(self) -> i64 {
                self.0.into()
            }
        }
    )*};
}

steps!(i8, u8, i16, u16, i32);

/// The way from a float to a step.
#[derive(Clone, Copy)]
enum Mode {
    /// The range is divided by the number of steps less one.
    Combined,
    /// As `Combined`, and the first step is a whole number of them from zero.
    First,
    /// Zero is the step 0.
    Scaled { half_to_even: bool, narrow: bool },
}

impl Mode {
    fn of(attrs: &Attrs) -> Mode {
        match attrs.str("mode") {
            "SCALED" => Mode::Scaled {
                half_to_even: attrs.get("round_mode").is_some()
                    && attrs.str("round_mode") == "HALF_TO_EVEN",
                narrow: attrs.bool("narrow_range"),
            },
            "MIN_FIRST" => Mode::First,
            _ => Mode::Combined,
        }
    }
}

/// Checks the axis and the ranges.
fn check_axis(cx: &Infer<'_>) -> Result<(), InferError> {
    if cx.attrs().str("mode") == "MIN_FIRST" && cx.attrs().int("axis") != -1 {
        return Err(InferError::Attr {
            attr: "axis",
            reason: "MIN_FIRST mode is not implemented for an axis: use -1".to_owned(),
        });
    }
    check_ranges(cx, 0, 1)
}

fn quantize_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if cx.attrs().str("mode") != "SCALED" && cx.attrs().str("round_mode") == "HALF_TO_EVEN" {
        return Err(InferError::Attr {
            attr: "round_mode",
            reason: format!(
                "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{}'",
                cx.attrs().str("mode")
            ),
        });
    }
    check_axis(cx)?;
    for i in 0..3 {
        cx.set(i, cx.shape(i).clone());
    }
    Ok(())
}

/// The limits of each channel.
fn limits(cx: &TensorCx<'_>, channels: usize) -> Result<Vec<[f32; 2]>, KernelError> {
    let (min, max) = (cx.slice::<f32>(1)?, cx.slice::<f32>(2)?);
    if min.len() != channels || max.len() != channels {
        return Err(KernelError::Invalid(format!(
            "min_range has {} elements and max_range {}, and there must be {channels}",
            min.len(),
            max.len()
        )));
    }
    Ok(min.iter().zip(max).map(|(&min, &max)| [min, max]).collect())
}

/// A limit of the range that the first or the last step allows for.
fn scale(step: f32, limit: f32) -> f32 {
    match step * limit > 0.0 {
        true => step / limit,
        false => f32::MAX,
    }
}

/// Steps of the range of one channel: the range itself, and the step of a float.
fn quantizer<S: Steps>(mode: Mode, [min, max]: [f32; 2]) -> ([f32; 2], impl Fn(f32) -> i64) {
    let [first, last] = S::LIMITS;
    // The number of steps less one.
    let span = (last - first) as f64;
    let half = if first < 0 { (span + 1.0) / 2.0 } else { 0.0 } as f32;
    let mut range = [min, max];
    let mut low = 0.0;
    let factor = match mode {
        Mode::Combined => (span / f64::from(max - min)) as f32,
        Mode::First => {
            let factor = match max == min {
                true => 0.0,
                false => (span / f64::from(max - min)) as f32,
            };
            low = (min * factor).round() - first as f32;
            factor
        }
        Mode::Scaled { narrow, .. } => {
            let (first, last) = ((first + i64::from(narrow)) as f32, last as f32);
            let factor = scale(first, min).min(scale(last, max));
            range = [first / factor, last / factor];
            factor
        }
    };
    let [min, max] = range;
    let to_step = move |x: f32| {
        // TensorFlow's minimum and maximum keep a NaN out.
        let inside = if x < max { x } else { max };
        let inside = if inside > min { inside } else { min };
        let step = match mode {
            Mode::Combined if first < 0 => ((inside - min) * factor - half).round(),
            Mode::Combined => ((inside - min) * factor + 0.5).floor(),
            Mode::First => ((x * factor).round() - low)
                .max(first as f32)
                .min((last as f32).min(2_147_483_520.0)),
            Mode::Scaled { half_to_even, .. } => match half_to_even {
                true => (inside * factor).round_ties_even(),
                false => (inside * factor).round(),
            },
        };
        (step as i64).clamp(first, last)
    };
    (range, to_step)
}

/// The channel of each element.
fn channels_of([_, channels, inner]: [usize; 3]) -> impl Fn(usize) -> usize {
    move |i| i / inner.max(1) % channels.max(1)
}

fn quantize<S: Steps>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let x = cx.tensor(0)?;
    let parts = split(x.dims(), channel_axis(cx.attrs()));
    let (mode, mut stop) = (Mode::of(cx.attrs()), cx.stop_check());
    let finest = cx.attrs().float("ensure_minimum_range");
    let (mut ranges, mut quantizers) = (Vec::new(), Vec::new());
    for [min, max] in limits(cx, parts[1])? {
        let low = min.min(0.0);
        let least = finest * min.abs().max(max.abs()).max(1.0);
        let (range, to_step) = quantizer::<S>(mode, [low, max.max(low + least).max(0.0)]);
        ranges.push(range);
        quantizers.push(to_step);
    }
    let channel = channels_of(parts);
    let mut steps = cx.zeros(S::DTYPE, x.dims())?;
    let pairs = steps
        .as_mut_slice::<S>()?
        .iter_mut()
        .zip(cx.slice::<f32>(0)?);
    for (i, (to, &x)) in pairs.enumerate() {
        stop.tick()?;
        *to = S::at(quantizers[channel(i)](x));
    }
    let limit = |which: usize| {
        let all: Vec<f32> = ranges.iter().map(|range| range[which]).collect();
        cx.tensor_of(cx.tensor(1)?.dims(), &all)
    };
    Ok(vec![steps, limit(0)?, limit(1)?])
}

/// Floats as steps of a range.
pub(crate) static QUANTIZE_V2: Op = Op {
    def: OpDef {
        name: "QuantizeV2",
        summary: "Numbers as the steps of a range that are nearest to them, and the range.",
        inputs: &[
            arg_of("input", DType::F32),
            arg_of("min_range", DType::F32),
            arg_of("max_range", DType::F32),
        ],
        outputs: &[
            arg("output", "T"),
            arg_of("output_min", DType::F32),
            arg_of("output_max", DType::F32),
        ],
        attrs: &[
            T,
            MODE,
            str_attr(
                "round_mode",
                "HALF_AWAY_FROM_ZERO",
                &["HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"],
            ),
            NARROW,
            AXIS,
            float_attr("ensure_minimum_range", 0.01),
        ],
        shape: quantize_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.attrs().dtype("T").unwrap_or(DType::QU8);
        dispatch!(dtype, [QI8 QU8 QI16 QU16 QI32], S => quantize::<S>(cx), else Err(KernelError::DType(dtype)))
    })],
};

/// The float of a step of the range of one channel.
fn dequantizer<S: Steps>(mode: Mode, [min, max]: [f32; 2]) -> impl Fn(S) -> f32 {
    let [first, last] = S::LIMITS;
    let span = (last - first) as f32;
    let (shift, factor, base) = match mode {
        Mode::Combined => {
            let half = if first < 0 { (span + 1.0) / 2.0 } else { 0.0 };
            (half, (max - min) / (last as f32 - first as f32), min)
        }
        Mode::First => {
            let factor = (f64::from(max - min) / (last - first) as f64) as f32;
            let base = match max == min {
                true => min,
                false => (min / factor).round() * factor,
            };
            (-(first as f32), factor, base)
        }
        Mode::Scaled { narrow, .. } => {
            let from_max = max / last as f32;
            let factor = match first {
                0 => from_max,
                _ => (min / (first + i64::from(narrow)) as f32).max(from_max),
            };
            (0.0, factor, 0.0)
        }
    };
    move |step| (step.number() as f32 + shift) * factor + base
}

fn dequantize<S: Steps>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let x = cx.tensor(0)?;
    let parts = split(x.dims(), channel_axis(cx.attrs()));
    let mode = Mode::of(cx.attrs());
    let (ranges, mut stop) = (limits(cx, parts[1])?, cx.stop_check());
    let all: Vec<_> = (ranges.into_iter())
        .map(|range| dequantizer::<S>(mode, range))
        .collect();
    let channel = channels_of(parts);
    let dtype = cx.attrs().dtype("dtype").unwrap_or(DType::F32);
    let mut floats = cx.zeros(dtype, x.dims())?;
    for (i, &step) in cx.slice::<S>(0)?.iter().enumerate() {
        stop.tick()?;
        let float = all[channel(i)](step);
        match dtype {
            DType::BF16 => floats.as_mut_slice::<bf16>()?[i] = bf16::from_f32(float),
            _ => floats.as_mut_slice::<f32>()?[i] = float,
        }
    }
    Ok(vec![floats])
}

/// Steps of a range as floats.
pub(crate) static DEQUANTIZE: Op = Op {
    def: OpDef {
        name: "Dequantize",
        summary: "Steps of a range as the numbers that they stand for.",
        inputs: &[
            arg("input", "T"),
            arg_of("min_range", DType::F32),
            arg_of("max_range", DType::F32),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            T,
            MODE,
            NARROW,
            AXIS,
            type_attr_or("dtype", &[DType::F32, DType::BF16], DType::F32),
        ],
        shape: |cx| {
            check_axis(cx)?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, [QI8 QU8 QI16 QU16 QI32], S => dequantize::<S>(cx), else Err(KernelError::DType(dtype)))
    })],
};
