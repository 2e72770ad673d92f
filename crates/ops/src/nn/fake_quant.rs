//! FakeQuantWithMinMaxArgs, FakeQuantWithMinMaxVars, FakeQuantWithMinMaxVarsPerChannel, and their gradients: numbers rounded
//! to the steps of a quantization, and kept as `f32`.

use smallvec::smallvec;
use thalweg_cpu::Writer;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, InputGradients, arg_of, bool_attr, float_attr, int_attr,
};
use thalweg_graph::{Attrs, GradCx, Infer, InferError, NodeBuilder, OpDef};
use thalweg_tensor::{DType, Shape};

use crate::support::elementwise::CHUNK;
use crate::support::shape_inputs::invalid_value;
use crate::support::shapes;

const BITS: AttrDef = int_attr("num_bits", 8);
const NARROW: AttrDef = bool_attr("narrow_range", false);
const ARGS_ATTRS: &[AttrDef] = &[
    float_attr("min", -6.0),
    float_attr("max", 6.0),
    BITS,
    NARROW,
];
const VARS_ATTRS: &[AttrDef] = &[BITS, NARROW];
const INPUTS: Arg = arg_of("inputs", DType::F32);
const GRADIENTS: Arg = arg_of("gradients", DType::F32);
const MIN: Arg = arg_of("min", DType::F32);
const MAX: Arg = arg_of("max", DType::F32);
const OUTPUTS: &[Arg] = &[arg_of("outputs", DType::F32)];
const BACKPROPS: &[Arg] = &[
    arg_of("backprops_wrt_input", DType::F32),
    arg_of("backprop_wrt_min", DType::F32),
    arg_of("backprop_wrt_max", DType::F32),
];

/// The steps of a quantization: its range is moved so that 0 is one of them.
#[derive(Clone, Copy)]
struct Steps {
    min: f32,
    max: f32,
    scale: f32,
    by_scale: f32,
    /// The number of the step of 0.
    zero: f32,
    /// The range is that of 0 alone: there is nothing to round to.
    empty: bool,
}

/// Numbers of the first and the last step.
#[derive(Clone, Copy)]
struct StepRange {
    first: f32,
    last: f32,
}

impl StepRange {
    fn of(attrs: &Attrs) -> StepRange {
        StepRange {
            first: f32::from(u8::from(attrs.bool("narrow_range"))),
            last: ((1u32 << attrs.int("num_bits").clamp(2, 16)) - 1) as f32,
        }
    }

    /// The steps between two limits, as TensorFlow's `Nudge`.
    fn steps(self, min: f32, max: f32) -> Steps {
        let scale = (max - min) / (self.last - self.first);
        let zero = self.first - min / scale;
        let zero = match zero {
            zero if zero < self.first => self.first,
            zero if zero > self.last => self.last,
            zero => zero.round(),
        };
        let empty = min == 0.0 && max == 0.0;
        if empty {
            return Steps {
                min: 0.0,
                max: 0.0,
                scale: 0.0,
                by_scale: 0.0,
                zero: 0.0,
                empty,
            };
        }
        let (min, by_scale) = ((self.first - zero) * scale, 1.0 / scale);
        Steps {
            min,
            max: (self.last - zero) * scale,
            scale,
            by_scale,
            zero: (-min * by_scale + 0.5).floor(),
            empty,
        }
    }
}

impl Steps {
    #[inline(always)]
    fn rounded(self, x: f32) -> f32 {
        let clamped = x.min(self.max).max(self.min);
        ((clamped - self.min) * self.by_scale - self.zero + 0.5).floor() * self.scale
    }

    /// The gradients to a number, to the lower limit and to the upper one.
    #[inline(always)]
    fn gradients(self, x: f32, gradient: f32) -> [f32; 3] {
        match x {
            _ if self.empty => [gradient, 0.0, 0.0],
            x if x < self.min => [0.0, gradient, 0.0],
            x if x > self.max => [0.0, 0.0, gradient],
            _ => [gradient, 0.0, 0.0],
        }
    }
}

/// Checks the attributes.
fn check_attrs(cx: &Infer<'_>) -> Result<(), InferError> {
    let bits = cx.attrs().int("num_bits");
    match (2..=16).contains(&bits) {
        true => Ok(()),
        false => Err(invalid_value(
            0,
            format!("num_bits is {bits}: give 2 to 16"),
        )),
    }
}

fn args_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    check_attrs(cx)?;
    let (min, max) = (cx.attrs().float("min"), cx.attrs().float("max"));
    if min >= max {
        let reason = format!("min is {min} and max {max}: min must be smaller than max");
        return Err(invalid_value(0, reason));
    }
    shapes::all_the_same(cx)
}

/// Shape rule of ops whose limits are inputs from `first` on: scalars, or one for each channel.
fn vars_shape(cx: &mut Infer<'_>, first: usize, per_channel: bool) -> Result<(), InferError> {
    check_attrs(cx)?;
    let mut shape = cx.shape(0).clone();
    if first == 2 {
        let other = cx.shape(1).clone();
        shape = shape.merge(&other).ok_or_else(|| InferError::Mismatch {
            what: "gradients and inputs must have the same shape".to_owned(),
            left: shape.clone(),
            right: other,
        })?;
    }
    if per_channel && shape.rank() == Some(0) {
        let reason = "it is a scalar, which has no channels: give one dimension or more".to_owned();
        return Err(invalid_value(first - 1, reason));
    }
    let channels = shape.dims().and_then(|dims| dims.last().copied().flatten());
    let limits = [first, first + 1].map(|i| cx.ranked(i, usize::from(per_channel)));
    for (i, limit) in limits.into_iter().enumerate() {
        let limit = limit?;
        let found = limit
            .dims()
            .and_then(|dims| dims.first().copied().flatten());
        if let (true, Some(found), Some(channels)) = (per_channel, found, channels)
            && found != channels
        {
            let reason = format!("it has {found} limits, for {channels} channels");
            return Err(invalid_value(first + i, reason));
        }
    }
    let limit = match per_channel {
        true => Shape::partial([channels]),
        false => Shape::scalar(),
    };
    for i in 1..cx.outputs() {
        cx.set(i, limit.clone());
    }
    cx.set(0, shape);
    Ok(())
}

/// Kernel that rounds input 0.
fn prepare_rounded(p: &Prepare<'_>, steps_of: Limits) -> Prepared {
    let range = StepRange::of(&p.node.attrs);
    let channels = steps_of.channels(p, 1);
    Prepared::new(p.outputs[0].elements() * 2, move |cx| {
        let (x, out) = (cx.input::<f32>(0)?, cx.output::<f32>(0)?);
        let (min, max) = steps_of.limits(cx, 1)?;
        if channels == 0 {
            return Ok(());
        }
        let limits = min.iter().zip(max);
        let steps: Vec<Steps> = limits.map(|(min, max)| range.steps(*min, *max)).collect();
        let (rows, isa) = ((CHUNK / channels).max(1), cx.cpu().isa());
        for_chunks(cx.pool(), out, rows * channels, &|task, part| {
            let x = &x[task * rows * channels..];
            isa.run(Writer(
                part,
                #[inline(always)]
                |part: &mut [f32]| match steps[..] {
                    [steps] => {
                        let pairs = part.iter_mut().zip(x);
                        pairs.for_each(|(out, x)| *out = steps.rounded(*x));
                    }
                    _ => {
                        for (out, x) in part.chunks_mut(channels).zip(x.chunks(channels)) {
                            let all = out.iter_mut().zip(x).zip(&steps);
                            all.for_each(|((out, x), steps)| *out = steps.rounded(*x));
                        }
                    }
                },
            ));
        });
        Ok(())
    })
}

/// Sources of the limits of a quantization.
#[derive(Clone, Copy)]
enum Limits {
    Attrs([f32; 2]),
    Inputs,
}

impl Limits {
    fn of_attrs(p: &Prepare<'_>) -> Limits {
        let attr = |name| p.node.attrs.float(name);
        Limits::Attrs([attr("min"), attr("max")])
    }

    /// The number of limits of each kind; input `first` has the lower ones.
    fn channels(self, p: &Prepare<'_>, first: usize) -> usize {
        match self {
            Limits::Attrs(_) => 1,
            Limits::Inputs => p.inputs[first].elements(),
        }
    }

    fn limits<'a>(
        &'a self,
        cx: &KernelCx<'a>,
        first: usize,
    ) -> Result<(&'a [f32], &'a [f32]), KernelError> {
        match self {
            Limits::Attrs(limits) => Ok((&limits[..1], &limits[1..])),
            Limits::Inputs => Ok((cx.input(first)?, cx.input(first + 1)?)),
        }
    }
}

/// Kernel of the gradients to input 1 and, where the limits are inputs, to these.
fn prepare_gradients(p: &Prepare<'_>, limits: Limits) -> Prepared {
    let range = StepRange::of(&p.node.attrs);
    let channels = limits.channels(p, 2);
    Prepared::new(p.outputs[0].elements() * 4, move |cx| {
        let (gradients, x) = (cx.input::<f32>(0)?, cx.input::<f32>(1)?);
        let out = cx.output::<f32>(0)?;
        let (min, max) = limits.limits(cx, 2)?;
        let mut sums = match limits {
            Limits::Attrs(_) => None,
            Limits::Inputs => Some((cx.output::<f32>(1)?, cx.output::<f32>(2)?)),
        };
        let limits = min.iter().zip(max);
        // The steps of each channel, and the sums to its limits.
        let mut all: Vec<(Steps, [f64; 2])> = limits
            .map(|(min, max)| (range.steps(*min, *max), [0.0; 2]))
            .collect();
        let width = channels.max(1);
        let rows = x.chunks(width).zip(gradients.chunks(width));
        for (out, (x, gradients)) in out.chunks_mut(width).zip(rows) {
            let pairs = out.iter_mut().zip(x.iter().zip(gradients));
            for ((out, (x, gradient)), (steps, [to_min, to_max])) in pairs.zip(&mut all) {
                let [to_x, below, above] = steps.gradients(*x, *gradient);
                *out = to_x;
                *to_min += f64::from(below);
                *to_max += f64::from(above);
            }
        }
        if let Some((mins, maxs)) = &mut sums {
            for ((min, max), (_, sums)) in mins.iter_mut().zip(maxs.iter_mut()).zip(&all) {
                [*min, *max] = sums.map(|sum| sum as f32);
            }
        }
        Ok(())
    })
}

/// A node with the attributes of the differentiated one.
fn with_own_attrs<'g>(g: &GradCx<'_, 'g>, node: NodeBuilder<'g>) -> NodeBuilder<'g> {
    let attrs = g.attrs();
    let node = node
        .attr("num_bits", attrs.int("num_bits"))
        .attr("narrow_range", attrs.bool("narrow_range"));
    match g.op().attr("min").is_some() {
        true => node
            .attr("min", attrs.float("min"))
            .attr("max", attrs.float("max")),
        false => node,
    }
}

/// Gradient of an op that rounds, by `op`.
fn gradients<'g>(g: &GradCx<'_, 'g>, op: &str) -> InputGradients<'g> {
    let node = g.graph().op(op).input(g.grad());
    let node = (0..g.inputs()).fold(node, |node, i| node.input(g.input(i)));
    let node = with_own_attrs(g, node).build();
    (0..g.inputs() as u32)
        .map(|i| Some(node.output(i)))
        .collect()
}

/// Rounds to the steps between two attributes.
pub(crate) static FAKE_QUANT_WITH_MIN_MAX_ARGS: Op = Op {
    def: OpDef {
        name: "FakeQuantWithMinMaxArgs",
        summary: "Each element, clamped to a range and rounded to one of its 2^num_bits steps.",
        inputs: &[INPUTS],
        outputs: OUTPUTS,
        attrs: ARGS_ATTRS,
        shape: args_shape,
        gradient: Gradient::Rule(|g| gradients(g, "FakeQuantWithMinMaxArgsGradient")),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| Ok(prepare_rounded(p, Limits::of_attrs(p))))],
};

/// Gradient of the same.
pub(crate) static FAKE_QUANT_WITH_MIN_MAX_ARGS_GRADIENT: Op = Op {
    def: OpDef {
        name: "FakeQuantWithMinMaxArgsGradient",
        summary: "The gradient where the inputs are within the range, 0 elsewhere.",
        inputs: &[GRADIENTS, INPUTS],
        outputs: &[arg_of("backprops", DType::F32)],
        attrs: ARGS_ATTRS,
        shape: args_shape,
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op(g.op().name).input(g.grad()).input(g.input(1));
            let node = with_own_attrs(g, node);
            smallvec![Some(node.output()), None]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| Ok(prepare_gradients(p, Limits::of_attrs(p))))],
};

const VARS_DEF: OpDef = OpDef {
    name: "FakeQuantWithMinMaxVars",
    summary: "Each element, clamped to the range between two scalars and rounded to one of its 2^num_bits steps.",
    inputs: &[INPUTS, MIN, MAX],
    outputs: OUTPUTS,
    attrs: VARS_ATTRS,
    shape: |cx| vars_shape(cx, 1, false),
    gradient: Gradient::Rule(|g| gradients(g, "FakeQuantWithMinMaxVarsGradient")),
    ..OpDef::EMPTY
};

/// Rounds to the steps between two scalars.
pub(crate) static FAKE_QUANT_WITH_MIN_MAX_VARS: Op = Op {
    def: VARS_DEF,
    kernels: &[cpu(|p| Ok(prepare_rounded(p, Limits::Inputs)))],
};

const VARS_GRADIENT_DEF: OpDef = OpDef {
    name: "FakeQuantWithMinMaxVarsGradient",
    summary: "The gradients of numbers that were rounded: to those within the range, and to the limits the sums of those beyond.",
    inputs: &[GRADIENTS, INPUTS, MIN, MAX],
    outputs: BACKPROPS,
    attrs: VARS_ATTRS,
    shape: |cx| vars_shape(cx, 2, false),
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// Gradient of the same.
pub(crate) static FAKE_QUANT_WITH_MIN_MAX_VARS_GRADIENT: Op = Op {
    def: VARS_GRADIENT_DEF,
    kernels: &[cpu(|p| Ok(prepare_gradients(p, Limits::Inputs)))],
};

/// Rounds to the steps between two numbers of each channel.
pub(crate) static FAKE_QUANT_WITH_MIN_MAX_VARS_PER_CHANNEL: Op = Op {
    def: OpDef {
        name: "FakeQuantWithMinMaxVarsPerChannel",
        summary: "Each element, clamped to the range of its channel, the last dimension, and rounded to one of its 2^num_bits steps.",
        shape: |cx| vars_shape(cx, 1, true),
        gradient: Gradient::Rule(|g| gradients(g, "FakeQuantWithMinMaxVarsPerChannelGradient")),
        ..VARS_DEF
    },
    kernels: &[cpu(|p| Ok(prepare_rounded(p, Limits::Inputs)))],
};

/// Gradient of the same.
pub(crate) static FAKE_QUANT_WITH_MIN_MAX_VARS_PER_CHANNEL_GRADIENT: Op = Op {
    def: OpDef {
        name: "FakeQuantWithMinMaxVarsPerChannelGradient",
        shape: |cx| vars_shape(cx, 2, true),
        ..VARS_GRADIENT_DEF
    },
    kernels: &[cpu(|p| Ok(prepare_gradients(p, Limits::Inputs)))],
};
