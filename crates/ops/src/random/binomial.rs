//! StatelessRandomBinomial.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::philox::Philox;
use super::sampler::{BLOCKS_PER_ELEMENT, MAX_ROUNDS, Sampler, draw_each, samples_that_end_with};
use super::seed_source::SeedSource;
use crate::support::broadcast_index::BroadcastIndex;

/// Blocks of an element whose expected count is small; TensorFlow's.
const BLOCKS_OF_INVERSION: u64 = 42;
/// From this expected count on the numbers come from rejection.
const LARGE: f64 = 10.0;
/// Estimated nanoseconds of an element.
const COST: u64 = 400;

/// Number `number` of a run, whose first block is `first`: of the binomial distribution of parameters of dtype `T`.
fn binomial<T: Number>(count: T, chance: T, (philox, first): (&Philox, u64), number: u64) -> f64 {
    let rounded = |v: f64| T::from_f64(v).to_f64();
    let (count, chance) = (count.to_f64(), chance.to_f64());
    match (count, chance) {
        _ if count <= 0.0 || chance <= 0.0 => return 0.0,
        _ if chance >= 1.0 => return count,
        _ if count.is_nan() || chance.is_nan() => return f64::NAN,
        _ => {}
    }
    // Of two outcomes the rarer one is counted.
    let swapped = chance > 0.5;
    let rare = if swapped {
        rounded(1.0 - chance)
    } else {
        chance
    };
    let large = rounded(count * rare) >= LARGE;
    let blocks = if large {
        BLOCKS_PER_ELEMENT
    } else {
        BLOCKS_OF_INVERSION
    };
    let mut random = Sampler::new(philox, first.wrapping_add(number.wrapping_mul(blocks)));
    let drawn = match large {
        true => by_rejection(count, rare, &mut random),
        false => by_inversion(count, rare, &mut random),
    };
    if swapped { count - drawn } else { drawn }
}

/// The number of outcomes within `count` trials, from the numbers of trials between two.
fn by_inversion(count: f64, chance: f64, random: &mut Sampler<'_>) -> f64 {
    let (mut trials, mut outcomes) = (0.0, 0.0);
    // It ends: each number of trials is at least 1, and their mean exceeds a tenth of the count.
    loop {
        trials += (random.uniform().ln() / (-chance).ln_1p()).ceil();
        if trials > count {
            return outcomes;
        }
        outcomes += 1.0;
    }
}

/// Transformed rejection (W. Hörmann, The generation of binomial random variates, 1993: BTRS). NaN for an infinite count.
fn by_rejection(count: f64, chance: f64, random: &mut Sampler<'_>) -> f64 {
    let deviation = (count * chance * (1.0 - chance)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * chance;
    let c = count * chance + 0.5;
    let v_r = 0.92 - 4.2 / b;
    let odds = chance / (1.0 - chance);
    let alpha = (2.83 + 5.1 / b) * deviation;
    let mode = ((count + 1.0) * chance).floor();
    for _ in 0..MAX_ROUNDS {
        let u = random.uniform();
        let v = random.uniform();
        let u = u - 0.5;
        let from_edge = 0.5 - u.abs();
        let k = ((2.0 * a / from_edge + b) * u + c).floor();
        if from_edge >= 0.07 && v <= v_r {
            return k;
        }
        if k < 0.0 || k > count {
            continue;
        }
        let v = (v * alpha / (a / (from_edge * from_edge) + b)).ln();
        let bound = (mode + 0.5) * ((mode + 1.0) / (odds * (count - mode + 1.0))).ln()
            + (count + 1.0) * ((count - mode + 1.0) / (count - k + 1.0)).ln()
            + (k + 0.5) * (odds * (count - k + 1.0) / (k + 1.0)).ln()
            + stirling_tail(mode)
            + stirling_tail(count - mode)
            - stirling_tail(k)
            - stirling_tail(count - k);
        if v <= bound {
            return k;
        }
    }
    f64::NAN
}

/// Numbers that TensorFlow reserves in the state of a generator for `elements` numbers of `parameters` parameters.
fn reserved(parameters: usize, elements: usize) -> usize {
    let samples = elements / parameters.max(1);
    let blocks = parameters.saturating_mul(200);
    blocks.saturating_mul(samples.saturating_add(3)) / 4
}

/// The logarithm of `k!` less Stirling's formula for it.
fn stirling_tail(k: f64) -> f64 {
    if k <= 9.0 {
        let half_log_tau = 0.5 * std::f64::consts::TAU.ln();
        return libm::lgamma(k + 1.0) - (half_log_tau + (k + 0.5) * (k + 1.0).ln() - (k + 1.0));
    }
    let square = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
}

/// The shape of counts and probabilities together.
pub(super) fn both(counts: &Shape, chances: &Shape) -> Result<Shape, InferError> {
    counts
        .broadcast(chances)
        .ok_or_else(|| InferError::Mismatch {
            what: "counts and probs must have compatible batch dimensions".to_owned(),
            left: counts.clone(),
            right: chances.clone(),
        })
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let parameters = both(cx.shape(2), cx.shape(3))?;
    samples_that_end_with(cx, &parameters)
}

/// Kernel of counts in input `at` and probabilities in the next one.
fn prepare<T: Number, O: Number>(p: &Prepare<'_>, at: usize) -> Result<Prepared, KernelError> {
    let source = SeedSource::of(p);
    let [counts, chances] = [at, at + 1].map(|i| Shape::known(p.dims(i)));
    let parameters = both(&counts, &chances).ok().and_then(|s| s.to_dims());
    let parameters = parameters.ok_or(KernelError::Argument("counts and probs"))?;
    let [count_at, chance_at] = [counts, chances].map(|s| BroadcastIndex::new(&s, &parameters));
    let all = parameters.iter().product();
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let run = move |cx: &KernelCx<'_>| {
        let (counts, chances) = (cx.input::<T>(at)?, cx.input::<T>(at + 1)?);
        let (philox, first) = source.start(cx, reserved(all, elements))?;
        draw_each::<O>(cx, all, |parameter, number| {
            let count = counts[count_at.index(parameter)];
            let chance = chances[chance_at.index(parameter)];
            binomial(count, chance, (&philox, first), number)
        })
    };
    Ok(Prepared::new(elements, run).with_cost(20 + (elements as u64).saturating_mul(COST)))
}

/// As [`prepare`], for the dtypes of the node.
pub(super) fn kernel(p: &Prepare<'_>, at: usize) -> Result<Prepared, KernelError> {
    let output = p.outputs.first().map_or(DType::I64, |o| o.dtype);
    dispatch!(p.dtype(at), [F16 F32 F64 I32 I64], T => {
        dispatch!(output, [F16 F32 F64 I32 I64], O => prepare::<T, O>(p, at), else Err(KernelError::DType(output)))
    }, else Err(KernelError::DType(p.dtype(at))))
}

pub(super) const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::I32, DType::I64];

/// Numbers of binomial distributions, from seeds.
pub(crate) static STATELESS_RANDOM_BINOMIAL: Op = Op {
    def: OpDef {
        name: "StatelessRandomBinomial",
        summary: "Numbers of the binomial distribution of each count and probability, in the shape that the first input lists, by two seeds.",
        inputs: &[
            arg("shape", "S").host(),
            arg("seed", "Tseed"),
            arg("counts", "T"),
            arg("probs", "T"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("S", DType::INDICES),
            type_attr_or("Tseed", DType::INDICES, DType::I64),
            type_attr_or("T", TYPES, DType::F64),
            type_attr_or("dtype", TYPES, DType::I64),
        ],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| kernel(p, 2))],
};
