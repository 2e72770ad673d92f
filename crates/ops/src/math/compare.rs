//! Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd, LogicalOr, LogicalNot.

use thalweg_device::{KernelError, Op, TensorCx, cpu, cpu_tensors, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_tensor::{DType, Tensor};

use super::define::NUMBER;
use crate::support::broadcast_index::BroadcastIndex;
use crate::support::elementwise::{binary, binary_to, computed, unary};
use crate::support::shapes;

const fn comparison(name: &'static str, summary: &'static str) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: NUMBERS_X_Y,
        outputs: Z,
        attrs: NUMBER,
        shape: shapes::broadcast,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    }
}

/// Kernels of a comparison of two numbers, and further kernels.
macro_rules! comparison_kernel {
    ($list:ident, $op:tt $(, $other:expr)?) => {
        &[$($other,)? cpu(|p| {
            computed!(p.dtype(0), $list, T => Ok(binary_to::<T, bool>(p, |x, y| x $op y)),
                else Err(KernelError::DType(p.dtype(0))))
        }), gpu(crate::gpu::binary)]
    };
}

/// Dtypes that can be compared for equality: all plain ones, and strings.
const EQUALITY_DTYPES: &[DType] = &{
    let mut all = [DType::String; DType::COMPUTED.len() + 1];
    let mut i = 0;
    while i < DType::COMPUTED.len() {
        all[i] = DType::COMPUTED[i];
        i += 1;
    }
    all
};

const STRINGS: &[(&str, &[DType])] = &[("T", &[DType::String])];

/// Compares strings, with broadcasting.
fn compare_strings(
    cx: &TensorCx<'_>,
    compare: impl Fn(Option<&[u8]>, Option<&[u8]>) -> bool,
) -> Result<Vec<Tensor>, KernelError> {
    let (dims, [of_x, of_y]) = BroadcastIndex::of_inputs(cx, [0, 1])?;
    let (x, y) = (cx.strings(0)?, cx.strings(1)?);
    let mut compared = cx.zeros(DType::Bool, &dims)?;
    let mut stop = cx.stop_check();
    for (i, to) in compared.as_mut_slice::<bool>()?.iter_mut().enumerate() {
        stop.tick()?;
        *to = compare(x.get(of_x.index(i)), y.get(of_y.index(i)));
    }
    Ok(vec![compared])
}

/// `x == y`.
pub(crate) static EQUAL: Op = Op {
    def: OpDef {
        attrs: &[
            type_attr("T", EQUALITY_DTYPES),
            bool_attr("incompatible_shape_error", true),
        ],
        ..comparison(
            "Equal",
            "True if two elements are equal, with broadcasting.",
        )
    },
    kernels: comparison_kernel!(
        COMPUTED,
        ==,
        cpu_tensors(|cx| compare_strings(cx, |x, y| x == y)).only(STRINGS)
    ),
};

/// `x != y`.
pub(crate) static NOT_EQUAL: Op = Op {
    def: OpDef {
        attrs: &[
            type_attr("T", EQUALITY_DTYPES),
            bool_attr("incompatible_shape_error", true),
        ],
        ..comparison(
            "NotEqual",
            "True if two elements differ, with broadcasting.",
        )
    },
    kernels: comparison_kernel!(
        COMPUTED,
        !=,
        cpu_tensors(|cx| compare_strings(cx, |x, y| x != y)).only(STRINGS)
    ),
};

/// `x < y`.
pub(crate) static LESS: Op = Op {
    def: comparison("Less", "True if x is below y, with broadcasting."),
    kernels: comparison_kernel!(NUMBERS, <),
};

/// `x <= y`.
pub(crate) static LESS_EQUAL: Op = Op {
    def: comparison("LessEqual", "True if x is at most y, with broadcasting."),
    kernels: comparison_kernel!(NUMBERS, <=),
};

/// `x > y`.
pub(crate) static GREATER: Op = Op {
    def: comparison("Greater", "True if x is above y, with broadcasting."),
    kernels: comparison_kernel!(NUMBERS, >),
};

/// `x >= y`.
pub(crate) static GREATER_EQUAL: Op = Op {
    def: comparison(
        "GreaterEqual",
        "True if x is at least y, with broadcasting.",
    ),
    kernels: comparison_kernel!(NUMBERS, >=),
};

const NUMBERS_X_Y: &[Arg] = &[arg("x", "T"), arg("y", "T")];
const X_Y: &[Arg] = &[arg_of("x", DType::Bool), arg_of("y", DType::Bool)];
const Z: &[Arg] = &[arg_of("z", DType::Bool)];

/// `x && y`.
pub(crate) static LOGICAL_AND: Op = Op {
    def: OpDef {
        name: "LogicalAnd",
        summary: "True if both are true, with broadcasting.",
        inputs: X_Y,
        outputs: Z,
        shape: shapes::broadcast,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| Ok(binary::<bool>(p, |x, y| x & y))).in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// `x || y`.
pub(crate) static LOGICAL_OR: Op = Op {
    def: OpDef {
        name: "LogicalOr",
        summary: "True if at least one is true, with broadcasting.",
        inputs: X_Y,
        outputs: Z,
        shape: shapes::broadcast,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| Ok(binary::<bool>(p, |x, y| x | y))).in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// `!x`.
pub(crate) static LOGICAL_NOT: Op = Op {
    def: OpDef {
        name: "LogicalNot",
        summary: "True if an element is false.",
        inputs: &[arg_of("x", DType::Bool)],
        outputs: &[arg_of("y", DType::Bool)],
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| Ok(unary::<bool>(p, |x| !x))).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};
