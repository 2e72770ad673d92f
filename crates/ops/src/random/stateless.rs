//! StatelessRandomUniform, StatelessRandomNormal, StatelessTruncatedNormal, StatelessRandomUniformInt,
//! StatelessRandomUniformFullInt, their V2 variants, StatelessRandomGetKeyCounter, StatelessRandomGetKeyCounterAlg,
//! StatelessRandomGetAlg.
//! Their numbers depend on the inputs only: on two seeds, or on a key and a counter (V2).

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu, on_host};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::fill::listed_shape;
use super::normal::{normal, truncated_normal};
use super::seed_source::{RNG_ALG_PHILOX, SeedSource};
use super::uniform::{full_int, uniform, uniform_int};
use crate::support::shapes::expect_scalar;

/// Checks a list of dimensions; two seeds, or a key, a counter and an algorithm; and scalar bounds.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    check_generator_inputs(cx)?;
    let inputs = cx.op().inputs;
    for (i, arg) in inputs.iter().enumerate() {
        if matches!(arg.name, "minval" | "maxval") {
            expect_scalar(cx, i)?;
        }
    }
    listed_shape(cx)
}

/// Checks the shapes of the seeds, or of the key, counter and algorithm.
pub(super) fn check_generator_inputs(cx: &Infer<'_>) -> Result<(), InferError> {
    for (i, arg) in cx.op().inputs.iter().enumerate() {
        let expected = match arg.name {
            "seed" | "counter" => Shape::known(&[2]),
            "key" => Shape::known(&[1]),
            "alg" => Shape::scalar(),
            _ => continue,
        };
        if expected.merge(cx.shape(i)).is_none() {
            return Err(InferError::Mismatch {
                what: format!("{} must have another shape", arg.name),
                left: cx.shape(i).clone(),
                right: expected,
            });
        }
    }
    Ok(())
}

/// Definition of an op that gives numbers of a dtype, in the shape that an input lists.
pub(super) const fn stateless(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [Arg],
    attrs: &'static [AttrDef],
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs,
        outputs: const { &[arg("output", "dtype")] },
        attrs,
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    }
}

const SEED_INPUTS: &[Arg] = &[arg("shape", "T").host(), arg("seed", "Tseed")];
const SEED_RANGE_INPUTS: &[Arg] = &[
    arg("shape", "T").host(),
    arg("seed", "Tseed"),
    arg("minval", "dtype"),
    arg("maxval", "dtype"),
];
const KEY_INPUTS: &[Arg] = &[
    arg("shape", "Tshape").host(),
    arg_of("key", DType::U64),
    arg_of("counter", DType::U64),
    arg_of("alg", DType::I32),
];
const KEY_RANGE_INPUTS: &[Arg] = &[
    arg("shape", "Tshape").host(),
    arg_of("key", DType::U64),
    arg_of("counter", DType::U64),
    arg_of("alg", DType::I32),
    arg("minval", "dtype"),
    arg("maxval", "dtype"),
];

const INT_TYPES: &[DType] = &[DType::I32, DType::I64, DType::U32, DType::U64];
const FLOAT: AttrDef = type_attr_or("dtype", DType::FLOATS, DType::F32);
const LISTED: AttrDef = type_attr_or("T", DType::INDICES, DType::I32);
const SEEDS: AttrDef = type_attr_or("Tseed", DType::INDICES, DType::I64);
const LISTED_V2: AttrDef = type_attr_or("Tshape", DType::INDICES, DType::I32);
const FULL_INT_TYPE: AttrDef = type_attr_or("dtype", INT_TYPES, DType::U64);

/// Uniform over `[0, 1)`, from seeds.
pub(crate) static UNIFORM: Op = Op {
    def: stateless(
        "StatelessRandomUniform",
        "Numbers spread evenly over [0, 1), in the shape that the first input lists, by two seeds.",
        SEED_INPUTS,
        &[FLOAT, LISTED, SEEDS],
    ),
    kernels: &[
        cpu(uniform),
        gpu(|p| crate::gpu::stateless(p, "RandomUniform")),
    ],
};

/// Uniform over `[0, 1)`, from a key.
pub(crate) static UNIFORM_V2: Op = Op {
    def: stateless(
        "StatelessRandomUniformV2",
        "Numbers spread evenly over [0, 1), in the shape that the first input lists, by a key and a counter.",
        KEY_INPUTS,
        &[FLOAT, LISTED_V2],
    ),
    kernels: &[
        cpu(uniform),
        gpu(|p| crate::gpu::stateless(p, "RandomUniform")),
    ],
};

/// Standard normal distribution, from seeds.
pub(crate) static NORMAL: Op = Op {
    def: stateless(
        "StatelessRandomNormal",
        "Numbers of the standard normal distribution, in the shape that the first input lists, by two seeds.",
        SEED_INPUTS,
        &[FLOAT, LISTED, SEEDS],
    ),
    kernels: &[
        cpu(normal),
        gpu(|p| crate::gpu::stateless(p, "RandomStandardNormal")),
    ],
};

/// Standard normal distribution, from a key.
pub(crate) static NORMAL_V2: Op = Op {
    def: stateless(
        "StatelessRandomNormalV2",
        "Numbers of the standard normal distribution, in the shape that the first input lists, by a key and a counter.",
        KEY_INPUTS,
        &[FLOAT, LISTED_V2],
    ),
    kernels: &[
        cpu(normal),
        gpu(|p| crate::gpu::stateless(p, "RandomStandardNormal")),
    ],
};

/// Standard normal distribution between -2 and 2, from seeds.
pub(crate) static TRUNCATED: Op = Op {
    def: stateless(
        "StatelessTruncatedNormal",
        "Numbers of the standard normal distribution between -2 and 2, in the shape that the first input lists, by two seeds.",
        SEED_INPUTS,
        &[FLOAT, LISTED, SEEDS],
    ),
    kernels: &[
        cpu(truncated_normal),
        gpu(|p| crate::gpu::stateless(p, "TruncatedNormal")),
    ],
};

/// Standard normal distribution between -2 and 2, from a key.
pub(crate) static TRUNCATED_V2: Op = Op {
    def: stateless(
        "StatelessTruncatedNormalV2",
        "Numbers of the standard normal distribution between -2 and 2, in the shape that the first input lists, by a key and a counter.",
        KEY_INPUTS,
        &[FLOAT, LISTED_V2],
    ),
    kernels: &[
        cpu(truncated_normal),
        gpu(|p| crate::gpu::stateless(p, "TruncatedNormal")),
    ],
};

/// Uniform over an interval of integers, from seeds.
pub(crate) static UNIFORM_INT: Op = Op {
    def: stateless(
        "StatelessRandomUniformInt",
        "Integers spread evenly over [minval, maxval), in the shape that the first input lists, by two seeds.",
        SEED_RANGE_INPUTS,
        &[type_attr("dtype", DType::INDICES), LISTED, SEEDS],
    ),
    kernels: &[
        cpu(uniform_int),
        gpu(|p| crate::gpu::stateless(p, "RandomUniformInt")),
    ],
};

/// Uniform over an interval of integers, from a key.
pub(crate) static UNIFORM_INT_V2: Op = Op {
    def: stateless(
        "StatelessRandomUniformIntV2",
        "Integers spread evenly over [minval, maxval), in the shape that the first input lists, by a key and a counter.",
        KEY_RANGE_INPUTS,
        &[type_attr("dtype", INT_TYPES), LISTED_V2],
    ),
    kernels: &[
        cpu(uniform_int).only(&[("dtype", DType::INDICES)]),
        gpu(|p| crate::gpu::stateless(p, "RandomUniformInt")).only(&[("dtype", DType::INDICES)]),
    ],
};

/// Uniform over all integers, from seeds.
pub(crate) static FULL_INT: Op = Op {
    def: stateless(
        "StatelessRandomUniformFullInt",
        "Integers spread evenly over the range of their dtype, in the shape that the first input lists, by two seeds.",
        SEED_INPUTS,
        &[
            FULL_INT_TYPE,
            LISTED,
            type_attr_or("Tseed", INT_TYPES, DType::I64),
        ],
    ),
    kernels: &[
        cpu(full_int),
        gpu(|p| crate::gpu::stateless(p, "RandomUniformFullInt")),
    ],
};

/// Uniform over all integers, from a key.
pub(crate) static FULL_INT_V2: Op = Op {
    def: stateless(
        "StatelessRandomUniformFullIntV2",
        "Integers spread evenly over the range of their dtype, in the shape that the first input lists, by a key and a counter.",
        KEY_INPUTS,
        &[FULL_INT_TYPE, LISTED_V2],
    ),
    kernels: &[
        cpu(full_int),
        gpu(|p| crate::gpu::stateless(p, "RandomUniformFullInt")),
    ],
};

fn key_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    check_generator_inputs(cx)?;
    cx.set(0, Shape::known(&[1]));
    cx.set(1, Shape::known(&[2]));
    cx.set(2, Shape::scalar());
    Ok(())
}

fn key(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let source = SeedSource::of(p);
    let with_alg = p.outputs.len() > 2;
    Ok(Prepared::new(1, move |cx| {
        let (key, stream) = source.scramble(cx)?;
        cx.output::<u64>(0)?.fill(key);
        for (out, value) in cx.output::<u64>(1)?.iter_mut().zip([0, stream]) {
            *out = value;
        }
        if with_alg {
            cx.output::<i32>(2)?.fill(RNG_ALG_PHILOX);
        }
        Ok(())
    }))
}

/// Key and counter of two seeds.
pub(crate) static GET_KEY_COUNTER: Op = Op {
    def: OpDef {
        name: "StatelessRandomGetKeyCounter",
        summary: "The key and the counter of two seeds.",
        inputs: &[arg("seed", "Tseed")],
        outputs: &[arg_of("key", DType::U64), arg_of("counter", DType::U64)],
        attrs: &[SEEDS],
        shape: key_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(key), on_host()],
};

/// Key, counter and algorithm of two seeds.
pub(crate) static GET_KEY_COUNTER_ALG: Op = Op {
    def: OpDef {
        name: "StatelessRandomGetKeyCounterAlg",
        summary: "The key and the counter of two seeds, and the algorithm for them.",
        inputs: &[arg("seed", "Tseed")],
        outputs: &[
            arg_of("key", DType::U64),
            arg_of("counter", DType::U64),
            arg_of("alg", DType::I32),
        ],
        attrs: &[SEEDS],
        shape: key_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(key), on_host()],
};

/// Number of the algorithm.
pub(crate) static GET_ALG: Op = Op {
    def: OpDef {
        name: "StatelessRandomGetAlg",
        summary: "The algorithm of random numbers: Philox.",
        outputs: &[arg_of("alg", DType::I32)],
        shape: crate::support::shapes::scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|_| {
            Ok(Prepared::new(1, |cx| {
                cx.output::<i32>(0)?.fill(RNG_ALG_PHILOX);
                Ok(())
            }))
        }),
        on_host(),
    ],
};
