//! Multinomial, StatelessMultinomial: draws of classes by their unnormalised log probabilities.

use thalweg_cpu::number::{Number, double};
use thalweg_cpu::{Isa, Writer};
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, dispatch};

use super::box_muller::uniform_f64;
use super::fill::{SEED, SEED2};
use super::philox::Philox;
use super::reserve::take_blocks;
use super::seed_source::SeedSource;
use super::stateless::check_generator_inputs;
use crate::support::shapes::expect_scalar;

/// Number of blocks reserved for each draw, which takes two words; TensorFlow's.
const RESERVED_PER_DRAW: u64 = 2 * 256;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    check_generator_inputs(cx)?;
    let logits = cx.ranked(0, 2)?;
    expect_scalar(cx, 1)?;
    let wrong = |reason: String| InferError::Value { input: 1, reason };
    let samples = match cx.ints(1).and_then(|v| v.first().copied()) {
        None => None,
        Some(n) => {
            Some(usize::try_from(n).map_err(|_| wrong(format!("{n} samples: use at least 0")))?)
        }
    };
    if logits.dim(1) == Some(0) && logits.dim(0) != Some(0) {
        return Err(InferError::Value {
            input: 0,
            reason: "there is no class to draw: give at least one".to_owned(),
        });
    }
    let shape = Shape::partial([logits.dim(0), samples]);
    if let Some(dims) = shape.to_dims()
        && checked_elements(&dims).is_none_or(|n| n > isize::MAX as usize / 8)
    {
        return Err(wrong(format!("a tensor of shape {shape} is too large")));
    }
    cx.set(0, shape);
    Ok(())
}

/// Writes a class for each sample, as TensorFlow's loop does for a batch that it does not split.
fn draw<T: Number>(
    isa: Isa,
    (philox, first): (Philox, u64),
    logits: &[T],
    classes: usize,
    samples: usize,
    sums: &mut [f64],
    mut put: impl FnMut(usize, usize),
) {
    let mut word = 0u64;
    let mut next = || {
        let block = philox.block(first.wrapping_add(word / 4));
        word += 1;
        block[(word as usize - 1) % 4]
    };
    for (row, logits) in logits.chunks_exact(classes.max(1)).enumerate() {
        // Logits that are not finite have probability zero.
        let finite = |x: &T| Some(x.to_f64()).filter(|x| x.is_finite());
        let largest = logits.iter().filter_map(finite).fold(f64::MIN, f64::max);
        isa.run(Writer(
            sums,
            #[inline(always)]
            |sums: &mut [f64]| {
                for (sum, x) in sums.iter_mut().zip(logits) {
                    let x = x.to_f64();
                    let power = double::exp(x - largest);
                    *sum = if x.is_finite() { power } else { 0.0 };
                }
            },
        ));
        let mut total = 0.0;
        for sum in &mut *sums {
            total += *sum;
            *sum = total;
        }
        for sample in 0..samples {
            let (a, b) = (next(), next());
            let wanted = uniform_f64(a, b) * total;
            put(
                row * samples + sample,
                sums.partition_point(|&sum| sum <= wanted),
            );
        }
    }
}

fn prepare<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let source = SeedSource::of(p);
    let [batch, classes] = *p.dims(0) else {
        return Err(KernelError::Argument("rows of logits"));
    };
    let samples = p.output_dims(0).get(1).copied().unwrap_or(0);
    let dtype = p.outputs.first().map_or(DType::I64, |o| o.dtype);
    let reserved = (batch as u64)
        .wrapping_mul(samples.next_multiple_of(4) as u64)
        .wrapping_mul(RESERVED_PER_DRAW);
    let run = move |cx: &KernelCx<'_>| {
        let logits = cx.input::<T>(0)?;
        let from = match source {
            SeedSource::Counter(philox) => (philox, take_blocks(cx, reserved)?),
            _ => source.start(cx, 0)?,
        };
        let sums = cx.scratch::<f64>(classes)?;
        dispatch!(dtype, [I32 I64], O => {
            let out = cx.output::<O>(0)?;
            // There are fewer classes than elements of a tensor, and TensorFlow narrows as well.
            draw(cx.cpu().isa(), from, logits, classes, samples, sums, |i, class| out[i] = class as O);
            Ok(())
        }, else Err(KernelError::DType(dtype)))
    };
    let cost = batch.saturating_mul(samples.saturating_add(classes).saturating_mul(16));
    Ok(Prepared::new(cost, run).with_scratch(classes * size_of::<f64>()))
}

fn kernel(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    dispatch!(p.dtype(0), FLOATS, T => prepare::<T>(p), else Err(KernelError::DType(p.dtype(0))))
}

const T: AttrDef = type_attr("T", DType::NUMBERS);
const OUTPUT: AttrDef = type_attr_or("output_dtype", DType::INDICES, DType::I64);
const OUTPUTS: &[Arg] = &[arg("output", "output_dtype")];

/// Draws classes.
pub(crate) static MULTINOMIAL: Op = Op {
    def: OpDef {
        name: "Multinomial",
        summary: "For each row of logits, n draws of a class.",
        inputs: &[arg("logits", "T"), arg_of("num_samples", DType::I32).host()],
        outputs: OUTPUTS,
        attrs: &[SEED, SEED2, T, OUTPUT],
        shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(kernel).only(&[("T", DType::FLOATS)])],
};

/// Draws classes, from seeds.
pub(crate) static STATELESS_MULTINOMIAL: Op = Op {
    def: OpDef {
        name: "StatelessMultinomial",
        summary: "For each row of logits, n draws of a class, by two seeds.",
        inputs: &[
            arg("logits", "T"),
            arg_of("num_samples", DType::I32).host(),
            arg("seed", "Tseed"),
        ],
        outputs: OUTPUTS,
        attrs: &[T, type_attr_or("Tseed", DType::INDICES, DType::I64), OUTPUT],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(kernel).only(&[("T", DType::FLOATS)])],
};
