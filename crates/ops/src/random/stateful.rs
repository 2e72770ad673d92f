//! StatefulUniform, StatefulStandardNormal, StatefulStandardNormalV2, StatefulTruncatedNormal, StatefulUniformInt,
//! StatefulUniformFullInt, StatefulRandomBinomial: numbers from a generator whose state is in a variable.
//! NonDeterministicInts: numbers that no seed gives again.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::binomial;
use super::fill::{listed_shape, listed_shape_at};
use super::normal::{normal, truncated_normal};
use super::stateless::stateless;
use super::uniform::{full_int, uniform, uniform_int};
use crate::support::shapes::expect_scalar;

/// Checks the state, the algorithm and the bounds; the output has the listed shape.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let listed = check_generator(cx)?;
    listed_shape_at(cx, listed, &Shape::scalar())
}

/// Checks the inputs that are no parameters, and returns the place of the listed shape.
fn check_generator(cx: &Infer<'_>) -> Result<usize, InferError> {
    let mut listed = 0;
    for (i, arg) in cx.op().inputs.iter().enumerate() {
        match arg.name {
            "algorithm" | "minval" | "maxval" => expect_scalar(cx, i)?,
            "shape" => listed = i,
            _ => {}
        }
    }
    match cx.variable(0) {
        Some((dtype, _)) if dtype != DType::I64 => Err(InferError::Value {
            input: 0,
            reason: format!("dtype of RNG state variable must be int64, not {dtype}"),
        }),
        _ => Ok(listed),
    }
}

const fn stateful(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [Arg],
    attrs: &'static [AttrDef],
) -> OpDef {
    OpDef {
        shape,
        effect: Effect::Write,
        ..stateless(name, summary, inputs, attrs)
    }
}

const STATE: Arg = arg_of("resource", DType::Resource);
const ALGORITHM: Arg = arg_of("algorithm", DType::I64);
const LISTED: Arg = arg("shape", "shape_dtype").host();
const INPUTS: &[Arg] = &[STATE, ALGORITHM, LISTED];
const RANGE_INPUTS: &[Arg] = &[
    STATE,
    ALGORITHM,
    LISTED,
    arg("minval", "dtype"),
    arg("maxval", "dtype"),
];
const LISTED_TYPE: AttrDef = type_attr_or("shape_dtype", DType::INDICES, DType::I64);
const FLOATS: &[AttrDef] = &[
    type_attr_or("dtype", DType::FLOATS, DType::F32),
    LISTED_TYPE,
];
const INT_TYPES: &[DType] = &[DType::I32, DType::I64, DType::U32, DType::U64];

/// Uniform over `[0, 1)`.
pub(crate) static UNIFORM: Op = Op {
    def: stateful(
        "StatefulUniform",
        "Numbers spread evenly over [0, 1), in the shape that an input lists, by the generator in a variable.",
        INPUTS,
        FLOATS,
    ),
    kernels: &[cpu(uniform)],
};

/// Standard normal distribution; the state begins with the number of the algorithm.
pub(crate) static NORMAL: Op = Op {
    def: stateful(
        "StatefulStandardNormal",
        "Numbers of the standard normal distribution, by the generator and its algorithm in a variable.",
        &[STATE, LISTED],
        FLOATS,
    ),
    kernels: &[cpu(normal)],
};

/// Standard normal distribution.
pub(crate) static NORMAL_V2: Op = Op {
    def: stateful(
        "StatefulStandardNormalV2",
        "Numbers of the standard normal distribution, in the shape that an input lists, by the generator in a variable.",
        INPUTS,
        FLOATS,
    ),
    kernels: &[cpu(normal)],
};

/// Standard normal distribution between -2 and 2.
pub(crate) static TRUNCATED: Op = Op {
    def: stateful(
        "StatefulTruncatedNormal",
        "Numbers of the standard normal distribution between -2 and 2, by the generator in a variable.",
        INPUTS,
        FLOATS,
    ),
    kernels: &[cpu(truncated_normal)],
};

/// Uniform over an interval of integers.
pub(crate) static UNIFORM_INT: Op = Op {
    def: stateful(
        "StatefulUniformInt",
        "Integers spread evenly over [minval, maxval), in the shape that an input lists, by the generator in a variable.",
        RANGE_INPUTS,
        &[
            type_attr_or("dtype", DType::INDICES, DType::I64),
            LISTED_TYPE,
        ],
    ),
    kernels: &[cpu(uniform_int)],
};

/// Uniform over all integers.
pub(crate) static FULL_INT: Op = Op {
    def: stateful(
        "StatefulUniformFullInt",
        "Integers spread evenly over the range of their dtype, by the generator in a variable.",
        INPUTS,
        &[type_attr_or("dtype", INT_TYPES, DType::U64), LISTED_TYPE],
    ),
    kernels: &[cpu(full_int)],
};

fn binomial_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let listed = check_generator(cx)?;
    let parameters = binomial::both(cx.shape(3), cx.shape(4))?;
    listed_shape_at(cx, listed, &Shape::scalar())?;
    let (Some(dims), Some(own)) = (parameters.dims(), cx.ints(listed)) else {
        return Ok(());
    };
    let end = own.len().checked_sub(dims.len()).map(|at| &own[at..]);
    let fits = |(have, want): (&i64, &Option<usize>)| want.is_none_or(|d| *have == d as i64);
    match end.is_some_and(|end| end.iter().zip(dims).all(fits)) {
        true => Ok(()),
        false => Err(InferError::Value {
            input: listed,
            reason: format!(
                "Shape passed in must end with broadcasted shape: {own:?} does not end with {parameters}"
            ),
        }),
    }
}

fn binomial_kernel(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    binomial::kernel(p, 3)
}

/// Binomial distributions.
pub(crate) static BINOMIAL: Op = Op {
    def: OpDef {
        shape: binomial_shape,
        ..stateful(
            "StatefulRandomBinomial",
            "Numbers of the binomial distribution of each count and probability, by the generator in a variable.",
            &[
                STATE,
                ALGORITHM,
                arg("shape", "S").host(),
                arg("counts", "T"),
                arg("probs", "T"),
            ],
            &[
                type_attr("S", DType::INDICES),
                type_attr_or("T", binomial::TYPES, DType::F64),
                type_attr_or("dtype", binomial::TYPES, DType::I64),
            ],
        )
    },
    kernels: &[cpu(binomial_kernel)],
};

/// Integers that differ from plan to plan.
pub(crate) static NON_DETERMINISTIC_INTS: Op = Op {
    def: OpDef {
        name: "NonDeterministicInts",
        summary: "Integers spread evenly over the range of their dtype, which no seed gives again.",
        inputs: &[arg("shape", "shape_dtype").host()],
        outputs: &[arg("output", "dtype")],
        attrs: &[type_attr_or("dtype", INT_TYPES, DType::I64), LISTED_TYPE],
        shape: listed_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(full_int)],
};
