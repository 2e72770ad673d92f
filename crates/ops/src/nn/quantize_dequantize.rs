//! QuantizeAndDequantize, its versions V2 to V4, and the gradient of V4: numbers rounded to the steps of a quantization, and
//! kept as floats.

use smallvec::smallvec;
use thalweg_cpu::Writer;
use thalweg_cpu::number::Wide;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{
    AttrDef, Gradient, arg, arg_of, bool_attr, float_attr, int_attr, str_attr, type_attr,
};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use crate::support::elementwise::CHUNK;
use crate::support::number_bounds::NumberBounds;
use crate::support::shapes;
use crate::support::trivial_kernels::nothing;
use crate::support::widened::widened;

const SIGNED: AttrDef = bool_attr("signed_input", true);
const BITS: AttrDef = int_attr("num_bits", 8);
const NARROW: AttrDef = bool_attr("narrow_range", false);
const AXIS: AttrDef = int_attr("axis", -1);
const T: AttrDef = type_attr("T", DType::FLOATS);
const ROUND: AttrDef = str_attr("round_mode", "HALF_TO_EVEN", &["HALF_TO_EVEN", "HALF_UP"]);
const ATTRS: &[AttrDef] = &[
    SIGNED,
    BITS,
    bool_attr("range_given", false),
    T,
    ROUND,
    NARROW,
    AXIS,
];
/// Input of the third version with the number of bits.
const BITS_INPUT: usize = 3;

/// The axis whose elements have a range each; `None` if there is one range.
pub(super) fn channel_axis(attrs: &Attrs) -> Option<usize> {
    attrs
        .get("axis")
        .and_then(|_| usize::try_from(attrs.int("axis")).ok())
}

/// Checks that so many bits make a quantization.
fn check_bits(attrs: &Attrs, bits: i64) -> Result<u32, InferError> {
    let signed = attrs.bool("signed_input");
    let most = if signed { 61 } else { 62 };
    match u32::try_from(bits) {
        Ok(bits) if (1..=most).contains(&bits) => Ok(bits),
        _ => Err(InferError::Attr {
            attr: "num_bits",
            reason: format!(
                "num_bits is out of range: {bits} with signed_input {signed}, of 1 to {most}"
            ),
        }),
    }
}

/// Checks the axis and the ranges, inputs `i` and `i + 1`.
pub(super) fn check_ranges(cx: &Infer<'_>, x: usize, i: usize) -> Result<(), InferError> {
    let axis = cx.attrs().int("axis");
    let rank = cx.shape(x).rank();
    if axis < -1 || rank.is_some_and(|rank| axis >= rank as i64) {
        return Err(InferError::Attr {
            attr: "axis",
            reason: format!(
                "axis should be at least -1 and below the rank of the input, {}: got {axis}",
                cx.shape(x)
            ),
        });
    }
    for input in [i, i + 1] {
        let Some(axis) = channel_axis(cx.attrs()) else {
            cx.ranked(input, 0)?;
            continue;
        };
        let (range, length) = (cx.ranked(input, 1)?, cx.shape(x).dim(axis));
        if let (Some(found), Some(expected)) = (range.dim(0), length)
            && found != expected
        {
            return Err(InferError::Value {
                input,
                reason: format!("has {found} limits, but axis {axis} has {expected} elements"),
            });
        }
    }
    Ok(())
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    check_ranges(cx, 0, 1)?;
    if cx.attrs().get("num_bits").is_some() {
        check_bits(cx.attrs(), cx.attrs().int("num_bits"))?;
    } else if let Some(&[bits]) = cx.ints(BITS_INPUT).as_deref() {
        check_bits(cx.attrs(), bits)?;
    }
    cx.set(0, cx.shape(0).clone());
    Ok(())
}

/// Elements before, along and after the axis of the ranges.
pub(super) fn split(dims: &[usize], axis: Option<usize>) -> [usize; 3] {
    let product = |dims: &[usize]| dims.iter().fold(1, |n: usize, &d| n.saturating_mul(d));
    match axis.filter(|&axis| axis < dims.len()) {
        Some(axis) => [
            product(&dims[..axis]),
            dims[axis],
            product(&dims[axis + 1..]),
        ],
        None => [1, 1, product(dims)],
    }
}

/// Numbers of the first and the last step, and the ways to get to a step.
#[derive(Clone, Copy)]
struct Quantization {
    first: i64,
    last: i64,
    half_up: bool,
    range_given: bool,
}

/// The steps of a range.
#[derive(Clone, Copy)]
struct QuantizationSteps<T> {
    min: T,
    max: T,
    scale: T,
    inverse: T,
}

impl Quantization {
    fn of(p: &Prepare<'_>) -> Result<Quantization, KernelError> {
        let attrs = &p.node.attrs;
        let bits = match attrs.get("num_bits") {
            Some(_) => attrs.int("num_bits"),
            None => p.ints(BITS_INPUT)?.first().copied().unwrap_or(0),
        };
        let bits = check_bits(attrs, bits).map_err(|e| KernelError::Invalid(e.to_string()))?;
        let narrow = attrs.get("narrow_range").is_some() && attrs.bool("narrow_range");
        let (first, last) = match attrs.bool("signed_input") {
            true => (
                -(1i64 << (bits - 1)) + i64::from(narrow),
                (1i64 << (bits - 1)) - 1,
            ),
            false => (0, (1i64 << bits) - 1),
        };
        Ok(Quantization {
            first,
            last,
            half_up: attrs.get("round_mode").is_some() && attrs.str("round_mode") == "HALF_UP",
            range_given: attrs.bool("range_given"),
        })
    }

    /// The finest steps of which both limits are within the first and the last, with 0 as one of them.
    fn steps<T: Wide + NumberBounds>(self, min: T, max: T) -> QuantizationSteps<T> {
        let (first, last) = (
            T::from_f64(self.first as f64),
            T::from_f64(self.last as f64),
        );
        let scale = |step: T, limit: T| match step * limit > T::ZERO {
            true => step / limit,
            false => T::HIGHEST,
        };
        let (from_min, from_max) = (scale(first, min), scale(last, max));
        if from_min < from_max {
            let inverse = min / first;
            QuantizationSteps {
                min,
                max: last * inverse,
                scale: from_min,
                inverse,
            }
        } else {
            let inverse = max / last;
            QuantizationSteps {
                min: first * inverse,
                max,
                scale: from_max,
                inverse,
            }
        }
    }

    #[inline(always)]
    fn rounded<T: Wide>(self, x: T, steps: QuantizationSteps<T>) -> T {
        let x = match self.range_given {
            true if x > steps.max => steps.max,
            true if x < steps.min => steps.min,
            _ => x,
        };
        let x = x * steps.scale;
        let whole = match self.half_up {
            true => (x + T::from_f64(0.5)).floor(),
            false => T::from_f64(x.to_f64().round_ties_even()),
        };
        whole * steps.inverse
    }
}

/// The limits of each channel: given as inputs or attributes, or those of its elements.
fn limits<T: Wide>(
    cx: &KernelCx<'_>,
    q: Quantization,
    given: Option<[f32; 2]>,
    [outer, channels, inner]: [usize; 3],
    to: &mut [[T; 2]],
) -> Result<(), KernelError> {
    if !q.range_given {
        let x = cx.input::<T>(0)?;
        for (channel, to) in to.iter_mut().enumerate() {
            let rows = (0..outer).map(|i| &x[(i * channels + channel) * inner..][..inner]);
            let all = rows.flatten().copied();
            let range = all.fold(None, |range: Option<[T; 2]>, x| match range {
                None => Some([x, x]),
                Some([min, max]) => {
                    Some([if x < min { x } else { min }, if x > max { x } else { max }])
                }
            });
            *to = range.unwrap_or([T::ZERO; 2]);
        }
        return Ok(());
    }
    if let Some(given) = given {
        to.fill(given.map(|limit| T::from_f64(limit.into())));
    } else {
        let (min, max) = (cx.input::<T>(1)?, cx.input::<T>(2)?);
        if min.len() != to.len() || max.len() != to.len() {
            return Err(KernelError::Argument("a range for each channel"));
        }
        for (to, (&min, &max)) in to.iter_mut().zip(min.iter().zip(max)) {
            *to = [min, max];
        }
    }
    match to.iter().find(|[min, max]| min > max) {
        Some([min, max]) => Err(KernelError::Invalid(format!(
            "Invalid range: input_min {} > input_max {}",
            min.to_f64(),
            max.to_f64()
        ))),
        None => Ok(()),
    }
}

fn kernel<T: Wide + NumberBounds>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let q = Quantization::of(p)?;
    let attrs = &p.node.attrs;
    let given = attrs
        .get("input_min")
        .map(|_| ["input_min", "input_max"].map(|name| attrs.float(name)));
    let dims = split(p.dims(0), channel_axis(attrs));
    let channels = dims[1];
    let chunk = match channels {
        1 => CHUNK,
        _ => channels.saturating_mul(dims[2]),
    };
    let elements = p.inputs.first().map_or(0, |x| x.elements());
    if elements == 0 {
        return Ok(nothing());
    }
    Ok(Prepared::new(elements, move |cx| {
        // Limits, and behind them steps, of each channel.
        let room = cx.scratch::<T>(channels.saturating_mul(6))?;
        let (ranges, steps) = room.split_at_mut(2 * channels);
        let ranges = ranges.as_chunks_mut::<2>().0;
        limits(cx, q, given, dims, ranges)?;
        for (to, &[min, max]) in steps.as_chunks_mut::<4>().0.iter_mut().zip(&*ranges) {
            let steps = q.steps(min, max);
            *to = [steps.min, steps.max, steps.scale, steps.inverse];
        }
        let steps = steps.as_chunks::<4>().0;
        let (x, isa) = (cx.input::<T>(0)?, cx.cpu().isa());
        // The elements of a channel that follow each other.
        let run = if channels == 1 { chunk } else { dims[2] };
        for_chunks(cx.pool(), cx.output::<T>(0)?, chunk, &|i, out| {
            let runs = out.chunks_mut(run).zip(x[i * chunk..].chunks(run));
            for ((out, x), &[min, max, scale, inverse]) in runs.zip(steps) {
                let steps = QuantizationSteps {
                    min,
                    max,
                    scale,
                    inverse,
                };
                isa.run(Writer(
                    out,
                    #[inline(always)]
                    |out: &mut [T]| {
                        let pairs = out.iter_mut().zip(x);
                        pairs.for_each(|(out, &x)| *out = q.rounded(x, steps));
                    },
                ));
            }
        });
        Ok(())
    })
    .with_scratch(channels.saturating_mul(6 * size_of::<T>())))
}

/// Kernel of all versions, of which `inputs` are of dtype `T`.
fn prepare(p: &Prepare<'_>, inputs: &'static [usize]) -> Result<Prepared, KernelError> {
    widened(
        p,
        inputs,
        &[0],
        &|p| dispatch!(p.dtype(0), [F32 F64], T => kernel::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
    )
}

/// Numbers rounded to steps; the range is of attributes.
pub(crate) static QUANTIZE_AND_DEQUANTIZE: Op = Op {
    def: OpDef {
        name: "QuantizeAndDequantize",
        summary: "Numbers rounded to the steps of a quantization whose range is that of attributes, or of the numbers.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            SIGNED,
            BITS,
            bool_attr("range_given", false),
            float_attr("input_min", 0.0),
            float_attr("input_max", 0.0),
            T,
        ],
        shape: |cx| {
            check_bits(cx.attrs(), cx.attrs().int("num_bits"))?;
            shapes::unchanged(cx)
        },
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, &[0]))],
};

/// Numbers rounded to steps; the range is of inputs.
pub(crate) static QUANTIZE_AND_DEQUANTIZE_V2: Op = Op {
    def: OpDef {
        name: "QuantizeAndDequantizeV2",
        summary: "Numbers rounded to the steps of a quantization whose range is that of inputs, or of the numbers.",
        inputs: &[
            arg("input", "T"),
            arg("input_min", "T"),
            arg("input_max", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad()), None, None]),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, &[0, 1, 2]))],
};

/// Numbers rounded to steps; the number of bits is an input too.
pub(crate) static QUANTIZE_AND_DEQUANTIZE_V3: Op = Op {
    def: OpDef {
        name: "QuantizeAndDequantizeV3",
        summary: "Numbers rounded to the steps of a quantization whose range and number of bits are inputs.",
        inputs: &[
            arg("input", "T"),
            arg("input_min", "T"),
            arg("input_max", "T"),
            arg_of("num_bits", DType::I32).host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[SIGNED, bool_attr("range_given", true), T, NARROW, AXIS],
        shape: |cx| {
            shapes::expect_scalar(cx, BITS_INPUT)?;
            shape(cx)
        },
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad()), None, None, None]),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, &[0, 1, 2]))],
};

/// Numbers rounded to steps, with no gradient outside of the range.
pub(crate) static QUANTIZE_AND_DEQUANTIZE_V4: Op = Op {
    def: OpDef {
        name: "QuantizeAndDequantizeV4",
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("QuantizeAndDequantizeV4Grad").input(g.grad());
            let node = node.input(g.input(0)).input(g.input(1)).input(g.input(2));
            let node = node.attr("axis", g.attrs().int("axis")).build();
            smallvec![
                Some(node.output(0)),
                Some(node.output(1)),
                Some(node.output(2))
            ]
        }),
        ..QUANTIZE_AND_DEQUANTIZE_V2.def
    },
    kernels: &[cpu(|p| prepare(p, &[0, 1, 2]))],
};

/// Gradient of [`QUANTIZE_AND_DEQUANTIZE_V4`]: that of each number within the limits. The limits get none.
fn grad_kernel<T: Wide>(p: &Prepare<'_>) -> Prepared {
    let [_, channels, inner] = split(p.dims(1), channel_axis(&p.node.attrs));
    let elements = p.inputs.first().map_or(0, |x| x.elements());
    Prepared::new(elements, move |cx| {
        let (dy, x) = (cx.input::<T>(0)?, cx.input::<T>(1)?);
        let (min, max) = (cx.input::<T>(2)?, cx.input::<T>(3)?);
        if min.len() != channels || max.len() != channels {
            return Err(KernelError::Argument("a range for each channel"));
        }
        for (at, (out, (&dy, &x))) in cx
            .output::<T>(0)?
            .iter_mut()
            .zip(dy.iter().zip(x))
            .enumerate()
        {
            let channel = at / inner % channels;
            let within = x >= min[channel] && x <= max[channel];
            *out = dy * if within { T::ONE } else { T::ZERO };
        }
        for i in [1, 2] {
            cx.output::<T>(i)?.fill(T::ZERO);
        }
        Ok(())
    })
}

/// Gradient of [`QUANTIZE_AND_DEQUANTIZE_V4`].
pub(crate) static QUANTIZE_AND_DEQUANTIZE_V4_GRAD: Op = Op {
    def: OpDef {
        name: "QuantizeAndDequantizeV4Grad",
        summary: "The gradient of QuantizeAndDequantizeV4: that of each number within the range. The limits get none.",
        inputs: &[
            arg("gradients", "T"),
            arg("input", "T"),
            arg("input_min", "T"),
            arg("input_max", "T"),
        ],
        outputs: &[
            arg("input_backprop", "T"),
            arg("input_min_backprop", "T"),
            arg("input_max_backprop", "T"),
        ],
        attrs: &[T, AXIS],
        shape: |cx| {
            check_ranges(cx, 1, 2)?;
            let x = cx.same(0, 1)?;
            let limits = match channel_axis(cx.attrs()) {
                Some(axis) => Shape::partial([x.dim(axis)]),
                None => Shape::scalar(),
            };
            cx.set(0, x);
            cx.set(1, limits.clone());
            cx.set(2, limits);
            Ok(())
        },
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        widened(
            p,
            &[0, 1, 2, 3],
            &[0, 1, 2],
            &|p| dispatch!(p.dtype(0), [F32 F64], T => Ok(grad_kernel::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
        )
    })],
};
