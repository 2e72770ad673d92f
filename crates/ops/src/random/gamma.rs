//! RandomGamma, RandomGammaGrad, StatelessRandomGammaV2, StatelessRandomGammaV3.

use smallvec::smallvec;
use thalweg_cpu::special::igamma_slope;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{GradCx, Output};
use thalweg_tensor::{DType, dispatch};

use super::fill::{SEED, SEED2};
use super::sampler::{
    MAX_ROUNDS, Sampler, of_one_parameter, samples_of_each, samples_that_end_with,
};
use crate::math::broadcast::sum_to;
use crate::math::per_element_in_f64_2;
use crate::support::shapes;

/// A number of the gamma distribution of scale 1, by rejection (G. Marsaglia and W. W. Tsang, A simple method for
/// generating gamma variables, 2000). NaN for a negative `alpha`.
fn gamma(alpha: f64, random: &mut Sampler<'_>) -> f64 {
    if alpha == 1.0 {
        return -(-random.uniform()).ln_1p();
    }
    let small = alpha < 1.0;
    let d = alpha + if small { 2.0 / 3.0 } else { -1.0 / 3.0 };
    let c = 1.0 / 3.0 / d.sqrt();
    for _ in 0..MAX_ROUNDS {
        let x = random.normal();
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let u = random.uniform();
        let squared = x * x;
        if u < 1.0 - 0.0331 * squared * squared || u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            let boost = match small {
                true => random.uniform().powf(1.0 / alpha),
                false => 1.0,
            };
            return d * v * boost;
        }
    }
    f64::NAN
}

fn prepare(p: &Prepare<'_>, input: usize) -> Result<Prepared, KernelError> {
    dispatch!(p.dtype(input), [F16 F32 F64], T => Ok(of_one_parameter::<T, T>(p, input, gamma)),
        else Err(KernelError::DType(p.dtype(input))))
}

/// The derivative of a number by alpha: how it moves if its quantile stays.
fn slope(alpha: f64, sample: f64) -> f64 {
    let log_density = (alpha - 1.0) * sample.ln() - sample - libm::lgamma(alpha);
    -igamma_slope(alpha, sample) / log_density.exp()
}

/// The gradient by alpha, summed over the numbers of each.
fn gradient<'g>(g: &GradCx<'_, 'g>, alpha: Output<'g>) -> Output<'g> {
    let sample = g.output(0);
    let slope = g.graph().op("RandomGammaGrad").input(alpha).input(sample);
    sum_to(g.grad() * slope.output(), alpha, sample)
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64];

/// Numbers of gamma distributions.
pub(crate) static RANDOM_GAMMA: Op = Op {
    def: OpDef {
        name: "RandomGamma",
        summary: "Numbers of the gamma distribution of each alpha, in the shape that the first input lists.",
        inputs: &[arg("shape", "S").host(), arg("alpha", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            SEED,
            SEED2,
            type_attr("S", DType::INDICES),
            type_attr("T", TYPES),
        ],
        shape: samples_of_each,
        gradient: Gradient::Rule(|g| smallvec![None, Some(gradient(g, g.input(1)))]),
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, 1))],
};

/// The derivative of numbers of gamma distributions.
pub(crate) static RANDOM_GAMMA_GRAD: Op = Op {
    def: OpDef {
        name: "RandomGammaGrad",
        summary: "The derivative of a number of a gamma distribution by alpha, with broadcasting.",
        inputs: &[arg("alpha", "T"), arg("sample", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &[DType::F32, DType::F64])],
        shape: shapes::broadcast,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| per_element_in_f64_2(p, slope)).in_place(&[(0, 0), (1, 0)])],
};

const OUTPUT_TYPE: AttrDef = type_attr("dtype", TYPES);

/// Numbers of gamma distributions, from seeds.
pub(crate) static STATELESS_RANDOM_GAMMA_V2: Op = Op {
    def: OpDef {
        name: "StatelessRandomGammaV2",
        summary: "Numbers of the gamma distribution of each alpha, in the shape that the first input lists, by two seeds.",
        inputs: &[
            arg("shape", "T").host(),
            arg("seed", "Tseed"),
            arg("alpha", "dtype"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            OUTPUT_TYPE,
            type_attr("T", DType::INDICES),
            type_attr_or("Tseed", DType::INDICES, DType::I64),
        ],
        shape: |cx| samples_that_end_with(cx, &cx.shape(2).clone()),
        gradient: Gradient::Rule(|g| smallvec![None, None, Some(gradient(g, g.input(2)))]),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, 2))],
};

/// Numbers of gamma distributions, from a key.
pub(crate) static STATELESS_RANDOM_GAMMA_V3: Op = Op {
    def: OpDef {
        name: "StatelessRandomGammaV3",
        summary: "Numbers of the gamma distribution of each alpha, in the shape that the first input lists, by a key and a counter.",
        inputs: &[
            arg("shape", "shape_dtype").host(),
            arg_of("key", DType::U64),
            arg_of("counter", DType::U64),
            arg_of("alg", DType::I32),
            arg("alpha", "dtype"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            OUTPUT_TYPE,
            type_attr_or("shape_dtype", DType::INDICES, DType::I32),
        ],
        shape: |cx| samples_that_end_with(cx, &cx.shape(4).clone()),
        gradient: Gradient::Rule(|g| {
            smallvec![None, None, None, None, Some(gradient(g, g.input(4)))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| prepare(p, 4))],
};
