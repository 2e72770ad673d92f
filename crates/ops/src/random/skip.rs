//! RngReadAndSkip, RngSkip: the state of a generator in a variable, a counter and a key.

use thalweg_device::{KernelCx, KernelError, Op, Prepared, cpu};
use thalweg_graph::op::{Effect, Gradient, arg_of};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::reserve::{reserved_blocks, skipped};
use super::seed_source::check_algorithm;
use crate::support::shapes::expect_scalar;

/// Numbers of a state: two of the counter, and the key.
const STATE: usize = 3;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 1)?;
    expect_scalar(cx, 2)?;
    if let Some((dtype, shape)) = cx.variable(0) {
        if dtype != DType::I64 {
            return Err(InferError::Value {
                input: 0,
                reason: format!("dtype of RNG state variable must be int64, not {dtype}"),
            });
        }
        if shape.merge(&Shape::known(&[STATE])).is_none() {
            return Err(InferError::Mismatch {
                what: "RNG state must have a counter of two numbers and a key".to_owned(),
                left: shape,
                right: Shape::known(&[STATE]),
            });
        }
    }
    if cx.outputs() > 0 {
        cx.set(0, Shape::known(&[STATE]));
    }
    Ok(())
}

/// Adds a number of elements to the counter in variable 0; `before` gets the state before.
fn skip(cx: &KernelCx<'_>, elements: u64, before: Option<&mut [i64]>) -> Result<(), KernelError> {
    cx.update::<i64, 1>([0], |[state]| {
        let &mut [low, high, _] = state else {
            let count = state.len();
            return Err(KernelError::Invalid(format!(
                "RNG state must have {STATE} numbers, not {count}"
            )));
        };
        if let Some(before) = before {
            before.copy_from_slice(state);
        }
        let counter = [low as u64, high as u64];
        let after = skipped(counter, reserved_blocks(elements as usize));
        (state[0], state[1]) = (after[0] as i64, after[1] as i64);
        Ok(())
    })
}

fn read_and_skip() -> Prepared {
    Prepared::new(1, |cx| {
        let ([alg], [delta]) = (cx.input::<i32>(1)?, cx.input::<u64>(2)?) else {
            return Err(KernelError::Argument("an algorithm and a number"));
        };
        check_algorithm(i64::from(*alg))?;
        skip(cx, *delta, Some(cx.output::<i64>(0)?))
    })
}

/// Returns the state, and goes on.
pub(crate) static READ_AND_SKIP: Op = Op {
    def: OpDef {
        name: "RngReadAndSkip",
        summary: "The state of a generator, whose counter then skips the blocks of so many elements.",
        inputs: &[
            arg_of("resource", DType::Resource),
            arg_of("alg", DType::I32),
            arg_of("delta", DType::U64),
        ],
        outputs: &[arg_of("value", DType::I64)],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|_| Ok(read_and_skip()))],
};

/// Goes on.
pub(crate) static SKIP: Op = Op {
    def: OpDef {
        name: "RngSkip",
        summary: "Lets the counter of a generator skip the blocks of so many elements.",
        inputs: &[
            arg_of("resource", DType::Resource),
            arg_of("algorithm", DType::I64),
            arg_of("delta", DType::I64),
        ],
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|_| {
        Ok(Prepared::new(1, |cx| {
            let ([alg], [delta]) = (cx.input::<i64>(1)?, cx.input::<i64>(2)?) else {
                return Err(KernelError::Argument("an algorithm and a number"));
            };
            check_algorithm(*alg)?;
            skip(cx, *delta as u64, None)
        }))
    })],
};
