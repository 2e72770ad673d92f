//! Integers as rows of bits.

use thalweg_device::{Kernel, KernelError, Op, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, dispatch};

use super::define::{one, two};
use crate::elementwise::{binary, convert, unary};
use crate::shapes;

const INTS: &[AttrDef] = &[type_attr("T", DType::INTS)];

/// A function of two integers.
macro_rules! kernel {
    ($f:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
        dispatch!(p.dtype(0), INTS, T => Ok(binary::<T>(p, $f)), else
                Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)])];
        KERNELS
    }};
}

/// The bits of both.
pub(crate) static BITWISE_AND: Op = Op {
    def: two(
        "BitwiseAnd",
        "The bits that are set in both elements, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x & y),
};

/// The bits of either.
pub(crate) static BITWISE_OR: Op = Op {
    def: two(
        "BitwiseOr",
        "The bits that are set in at least one of two elements, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x | y),
};

/// The bits of one alone.
pub(crate) static BITWISE_XOR: Op = Op {
    def: two(
        "BitwiseXor",
        "The bits that are set in one of two elements alone, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x ^ y),
};

/// Bits moved up.
pub(crate) static LEFT_SHIFT: Op = Op {
    def: two(
        "LeftShift",
        "x with its bits moved up by y, brought between 0 and the last bit, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x << places::<T>(y as i128)),
};

/// Bits moved down.
pub(crate) static RIGHT_SHIFT: Op = Op {
    def: two(
        "RightShift",
        "x with its bits moved down by y, brought between 0 and the last bit, with broadcasting; a sign stays.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x >> places::<T>(y as i128)),
};

/// By how many bits an element of `T` can be moved, at most and at least.
#[inline(always)]
fn places<T>(by: i128) -> u32 {
    by.clamp(0, size_of::<T>() as i128 * 8 - 1) as u32
}

/// The other bits.
pub(crate) static INVERT: Op = Op {
    def: one(
        "Invert",
        "The bits that are not set in each element.",
        INTS,
        Gradient::None,
    ),
    kernels: &[cpu(|p| {
        dispatch!(p.dtype(0), INTS, T => Ok(unary::<T>(p, |x| !x)), else
                Err(KernelError::DType(p.dtype(0))))
    })
    .in_place(&[(0, 0)])],
};

/// How many bits are set.
pub(crate) static POPULATION_COUNT: Op = Op {
    def: OpDef {
        name: "PopulationCount",
        summary: "How many bits are set in each element.",
        inputs: &[arg("x", "T")],
        outputs: &[arg_of("y", DType::U8)],
        attrs: INTS,
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        dispatch!(p.dtype(0), INTS, T => Ok(convert::<T, u8>(p, |x| x.count_ones() as u8)), else
            Err(KernelError::DType(p.dtype(0))))
    })],
};
