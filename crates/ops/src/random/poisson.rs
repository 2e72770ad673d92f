//! RandomPoisson, RandomPoissonV2, StatelessRandomPoisson.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg, type_attr, type_attr_or};
use thalweg_tensor::{DType, dispatch};

use super::fill::{SEED, SEED2};
use super::sampler::{
    MAX_ROUNDS, Sampler, of_one_parameter, samples_of_each, samples_that_end_with,
};

/// From this rate on the numbers come from rejection.
const LARGE_RATE: f64 = 10.0;

/// A number of the Poisson distribution, at most `largest`. NaN if the rate is NaN.
fn poisson(rate: f64, largest: f64, random: &mut Sampler<'_>) -> f64 {
    match rate {
        _ if rate < LARGE_RATE => by_products(rate, random),
        _ if rate.is_nan() || rate.is_infinite() => rate,
        _ => by_rejection(rate, largest, random),
    }
}

/// The number of events of a process within a unit of time (D. E. Knuth, Seminumerical Algorithms).
fn by_products(rate: f64, random: &mut Sampler<'_>) -> f64 {
    let limit = (-rate).exp();
    let (mut product, mut count) = (1.0, 0.0);
    // It ends: the product of numbers below 1 falls to zero.
    loop {
        product *= random.uniform();
        if product <= limit {
            return count;
        }
        count += 1.0;
    }
}

/// Transformed rejection (W. Hörmann, The transformed rejection method for generating Poisson random variables, 1993).
fn by_rejection(rate: f64, largest: f64, random: &mut Sampler<'_>) -> f64 {
    let log_rate = rate.ln();
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    for _ in 0..MAX_ROUNDS {
        let u = random.uniform() - 0.5;
        let v = random.uniform();
        let from_edge = 0.5 - u.abs();
        let k = ((2.0 * a / from_edge + b) * u + rate + 0.43).floor();
        if k > largest {
            continue;
        }
        if from_edge >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0) {
            return k;
        }
        if k < 0.0 || from_edge < 0.013 && v > from_edge {
            continue;
        }
        let s = (v * inverse_alpha / (a / (from_edge * from_edge) + b)).ln();
        if s <= -rate + k * log_rate - libm::lgamma(k + 1.0) {
            return k;
        }
    }
    // All likely numbers are beyond the dtype's.
    largest
}

fn prepare(p: &Prepare<'_>, input: usize) -> Result<Prepared, KernelError> {
    let output = p.outputs.first().map_or(DType::I64, |o| o.dtype);
    macro_rules! of {
        ($t:ty, $largest:expr) => {
            dispatch!(p.dtype(input), [F16 F32 F64 I32 I64], R => {
                Ok(of_one_parameter::<R, $t>(p, input, |rate, random| poisson(rate, $largest, random)))
            }, else Err(KernelError::DType(p.dtype(input))))
        };
    }
    match output {
        DType::F16 => of!(half::f16, half::f16::MAX.to_f64()),
        DType::F32 => of!(f32, f64::from(f32::MAX)),
        DType::F64 => of!(f64, f64::MAX),
        DType::I32 => of!(i32, f64::from(i32::MAX)),
        DType::I64 => of!(i64, Number::to_f64(i64::MAX)),
        other => Err(KernelError::DType(other)),
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::I32, DType::I64];

const fn random(
    name: &'static str,
    inputs: &'static [thalweg_graph::op::Arg],
    attrs: &'static [thalweg_graph::op::AttrDef],
) -> OpDef {
    OpDef {
        name,
        summary: "Numbers of the Poisson distribution of each rate, in the shape that the first input lists.",
        inputs,
        outputs: const { &[arg("output", "dtype")] },
        attrs,
        shape: samples_of_each,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    }
}

/// Numbers of Poisson distributions, of the rate's dtype.
pub(crate) static RANDOM_POISSON: Op = Op {
    def: random(
        "RandomPoisson",
        &[arg("shape", "S").host(), arg("rate", "dtype")],
        &[
            SEED,
            SEED2,
            type_attr("S", DType::INDICES),
            type_attr("dtype", &[DType::F16, DType::F32, DType::F64]),
        ],
    ),
    kernels: &[cpu(|p| prepare(p, 1))],
};

/// Numbers of Poisson distributions.
pub(crate) static RANDOM_POISSON_V2: Op = Op {
    def: random(
        "RandomPoissonV2",
        &[arg("shape", "S").host(), arg("rate", "R")],
        &[
            SEED,
            SEED2,
            type_attr("S", DType::INDICES),
            type_attr_or("R", TYPES, DType::F64),
            type_attr_or("dtype", TYPES, DType::I64),
        ],
    ),
    kernels: &[cpu(|p| prepare(p, 1))],
};

/// Numbers of Poisson distributions, from seeds.
pub(crate) static STATELESS_RANDOM_POISSON: Op = Op {
    def: OpDef {
        name: "StatelessRandomPoisson",
        summary: "Numbers of the Poisson distribution of each rate, in the shape that the first input lists, by two seeds.",
        inputs: &[
            arg("shape", "T").host(),
            arg("seed", "Tseed"),
            arg("lam", "Rtype"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("Rtype", TYPES),
            type_attr("dtype", TYPES),
            type_attr("T", DType::INDICES),
            type_attr_or("Tseed", DType::INDICES, DType::I64),
        ],
        shape: |cx| samples_that_end_with(cx, &cx.shape(2).clone()),
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, 2))],
};
