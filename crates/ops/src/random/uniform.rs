//! RandomUniform, RandomUniformInt.

use half::{bf16, f16};
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Effect, Gradient, arg, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element};

use crate::random::box_muller::{uniform_f32, uniform_f64};
use crate::random::fill::{SEED, SEED2, SHAPE_TYPE, blockwise, fill, launches, listed_shape};
use crate::random::seed_source::SeedSource;
use crate::support::shapes::expect_scalar;

/// Kernel of numbers in `[0, 1)`.
pub(super) fn uniform(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match p.node.attrs.dtype("dtype") {
        Some(DType::F32) => Ok(blockwise(p, 9, |x| x.map(uniform_f32))),
        Some(DType::F64) => Ok(blockwise(p, 18, |[a, b, c, d]| {
            [uniform_f64(a, b), uniform_f64(c, d)]
        })),
        // Halves take as many random bits as their mantissa has, and one word each.
        Some(DType::F16) => Ok(blockwise(p, 60, |x| {
            x.map(|x| f16::from_f32((x & 0x3ff) as f32 / 1024.0))
        })),
        Some(DType::BF16) => Ok(blockwise(p, 14, |x| {
            x.map(|x| bf16::from_f32((x & 0x7f) as f32 / 128.0))
        })),
        other => Err(KernelError::DType(other.unwrap_or(DType::F32))),
    }
}

/// Kernel of integers between two inputs.
pub(super) fn uniform_int(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dtype = p.outputs.first().map_or(DType::I32, |o| o.dtype);
    match dtype {
        DType::I32 => Ok(integers::<i32, 4>(p, |x, low, high| {
            let range = high.wrapping_sub(low) as u32;
            x.map(|x| low.wrapping_add((x % range) as i32))
        })),
        DType::I64 => Ok(integers::<i64, 2>(p, |x, low, high| {
            let range = high.wrapping_sub(low) as u64;
            wide(x).map(|x| low.wrapping_add((x % range) as i64))
        })),
        _ => Err(KernelError::DType(dtype)),
    }
}

/// Kernel of integers over the whole range of their dtype.
pub(super) fn full_int(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match p.node.attrs.dtype("dtype") {
        Some(DType::I32) => Ok(blockwise(p, 9, |x| x.map(|x| x as i32))),
        Some(DType::I64) => Ok(blockwise(p, 18, |x| wide(x).map(|x| x as i64))),
        Some(DType::U32) => Ok(blockwise(p, 9, |x| x)),
        Some(DType::U64) => Ok(blockwise(p, 18, wide)),
        other => Err(KernelError::DType(other.unwrap_or(DType::U64))),
    }
}

/// Joins four words into two of twice the width.
#[inline(always)]
fn wide([a, b, c, d]: [u32; 4]) -> [u64; 2] {
    [(a, b), (c, d)].map(|(low, high)| u64::from(low) | u64::from(high) << 32)
}

/// Uniform over `[0, 1)`.
pub(crate) static RANDOM_UNIFORM: Op = Op {
    def: OpDef {
        name: "RandomUniform",
        summary: "Numbers spread evenly over [0, 1), in the shape that the input lists.",
        inputs: &[arg("shape", "T").host()],
        outputs: &[arg("output", "dtype")],
        attrs: &[SEED, SEED2, type_attr("dtype", DType::FLOATS), SHAPE_TYPE],
        shape: listed_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(uniform), gpu(launches)],
};

/// Uniform over the integers from `minval` up to, but not including, `maxval`.
pub(crate) static RANDOM_UNIFORM_INT: Op = Op {
    def: OpDef {
        name: "RandomUniformInt",
        summary: "Integers spread evenly over [minval, maxval), in the shape that the first input lists.",
        inputs: &[
            arg("shape", "T").host(),
            arg("minval", "Tout"),
            arg("maxval", "Tout"),
        ],
        outputs: &[arg("output", "Tout")],
        attrs: &[SEED, SEED2, type_attr("Tout", DType::INDICES), SHAPE_TYPE],
        shape: int_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(uniform_int), gpu(launches)],
};

fn int_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 1)?;
    expect_scalar(cx, 2)?;
    listed_shape(cx)
}

/// Kernel of integers in `[minval, maxval)`, which are inputs; `draw` is called only if the interval is not
/// empty.
fn integers<T: Element + Ord + std::fmt::Display, const N: usize>(
    p: &Prepare<'_>,
    draw: impl Fn([u32; 4], T, T) -> [T; N] + Copy + Send + Sync + 'static,
) -> Prepared {
    let source = SeedSource::of(p);
    // The bounds are the last two inputs.
    let high_at = p.inputs.len().saturating_sub(1);
    let low_at = high_at.saturating_sub(1);
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let run = move |cx: &KernelCx<'_>| {
        let (low, high) = (cx.input::<T>(low_at)?, cx.input::<T>(high_at)?);
        let out = cx.output::<T>(0)?;
        if out.is_empty() {
            return Ok(());
        }
        let ([low], [high]) = (low, high) else {
            return Err(KernelError::Argument("scalars"));
        };
        if low >= high {
            return Err(KernelError::Element {
                input: high_at,
                element: 0,
                reason: format!(
                    "no integer lies from {low} up to, but not, {high}: maxval must be above minval"
                ),
            });
        }
        let (philox, first) = source.start(cx, out.len())?;
        fill(cx.cpu(), &philox, first, out, |x| draw(x, *low, *high));
        Ok(())
    };
    Prepared::new(elements, run).with_cost(20 + elements as u64 * size_of::<T>() as u64)
}
