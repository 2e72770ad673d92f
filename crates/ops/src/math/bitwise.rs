//! BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift, RightShift, Invert, PopulationCount.

use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::DType;

use super::define::{binary_op, unary_op};
use crate::support::elementwise::{binary, computed, convert, unary};
use crate::support::shapes;

const INTS: &[AttrDef] = &[type_attr("T", DType::INTS)];

/// Kernel of a function of two integers.
macro_rules! kernel {
    ($f:expr) => {
        kernel!(BITS, T, |p| $f)
    };
    ($list:ident, $T:ident, |$p:ident| $f:expr) => {{
        const KERNELS: &[Kernel] = &[
            cpu(|$p| {
            computed!($p.dtype(0), $list, $T => Ok(binary::<$T>($p, $f)), else
                    Err(KernelError::DType($p.dtype(0))))
            })
            .in_place(&[(0, 0), (1, 0)]),
            gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
        ];
        KERNELS
    }};
}

/// Kernel of a shift of x by y bits, which are clamped to a valid shift: between 0 and the last bit of the dtype.
macro_rules! shift {
    ($shift:tt) => {
        kernel!(INTS, T, |p| {
            let last = p.dtype(0).size() as T * 8 - 1;
            move |x: T, y: T| x $shift y.clamp(0, last)
        })
    };
}

/// Bits that are set in both.
pub(crate) static BITWISE_AND: Op = Op {
    def: binary_op(
        "BitwiseAnd",
        "The bits that are set in both elements, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x & y),
};

/// Bits that are set in either.
pub(crate) static BITWISE_OR: Op = Op {
    def: binary_op(
        "BitwiseOr",
        "The bits that are set in at least one of two elements, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x | y),
};

/// Bits that are set in exactly one.
pub(crate) static BITWISE_XOR: Op = Op {
    def: binary_op(
        "BitwiseXor",
        "The bits that are set in exactly one of two elements, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: kernel!(|x, y| x ^ y),
};

/// Bits shifted left.
pub(crate) static LEFT_SHIFT: Op = Op {
    def: binary_op(
        "LeftShift",
        "x with its bits moved up by y, brought between 0 and the last bit, with broadcasting.",
        INTS,
        Gradient::None,
    ),
    kernels: shift!(<<),
};

/// Bits shifted right.
pub(crate) static RIGHT_SHIFT: Op = Op {
    def: binary_op(
        "RightShift",
        "x with its bits moved down by y, brought between 0 and the last bit, with broadcasting; a sign stays.",
        INTS,
        Gradient::None,
    ),
    kernels: shift!(>>),
};

/// All bits inverted.
pub(crate) static INVERT: Op = Op {
    def: unary_op(
        "Invert",
        "The bits that are not set in each element.",
        INTS,
        Gradient::None,
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), BITS, T => Ok(unary::<T>(p, |x| !x)), else
                Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Number of set bits.
pub(crate) static POPULATION_COUNT: Op = Op {
    def: OpDef {
        name: "PopulationCount",
        summary: "The number of bits that are set in each element.",
        inputs: &[arg("x", "T")],
        outputs: &[arg_of("y", DType::U8)],
        attrs: INTS,
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), BITS, T => Ok(convert::<T, u8>(p, |x| x.count_ones() as u8)), else
            Err(KernelError::DType(p.dtype(0))))
        }),
        gpu(crate::gpu::unary),
    ],
};
