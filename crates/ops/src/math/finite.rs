//! IsNan, IsInf, IsFinite, CheckNumerics, ApproximateEqual, NextAfter.

use smallvec::smallvec;
use thalweg_device::{InOut, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{
    Arg, AttrDef, Effect, Gradient, arg, arg_of, attr, float_attr, type_attr, type_attr_or,
};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, dispatch};

use super::abs_sign_min_max::magnitude;
use super::broadcast::sum_to;
use super::define::{FLOAT, binary_op};
use crate::support::elementwise::{binary, binary_to, computed, convert, rounding};
use crate::support::shapes;
use thalweg_cpu::number::{Arithmetic, Float, Number};

const X: &[Arg] = &[arg("x", "T")];
const Y_BOOL: &[Arg] = &[arg_of("y", DType::Bool)];

const fn predicate(name: &'static str, summary: &'static str) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: X,
        outputs: Y_BOOL,
        attrs: FLOAT,
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    }
}

/// Kernel of a predicate that can be computed in `f32` for all narrower floats.
fn predicate_kernel(
    p: &Prepare<'_>,
    single: impl Fn(f32) -> bool + Copy + Send + Sync + 'static,
    double: impl Fn(f64) -> bool + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F64 => Ok(convert::<f64, bool>(p, double)),
        DType::F16 | DType::BF16 | DType::F32 => Ok(convert::<f32, bool>(p, single)),
        other => Err(KernelError::DType(other)),
    }
}

/// `true` for NaN.
pub(crate) static IS_NAN: Op = Op {
    def: predicate("IsNan", "True for each element that is NaN."),
    kernels: &[
        cpu(|p| predicate_kernel(p, f32::is_nan, f64::is_nan)),
        gpu(crate::gpu::unary),
    ],
};

/// `true` for infinities.
pub(crate) static IS_INF: Op = Op {
    def: predicate("IsInf", "True for each element that is infinite."),
    kernels: &[
        cpu(|p| predicate_kernel(p, f32::is_infinite, f64::is_infinite)),
        gpu(crate::gpu::unary),
    ],
};

/// `true` if neither infinite nor NaN.
pub(crate) static IS_FINITE: Op = Op {
    def: predicate(
        "IsFinite",
        "True for each element that is neither NaN nor infinite.",
    ),
    kernels: &[
        cpu(|p| predicate_kernel(p, f32::is_finite, f64::is_finite)),
        gpu(crate::gpu::unary),
    ],
};

/// Passes the input on if all elements are finite; otherwise fails.
pub(crate) static CHECK_NUMERICS: Op = Op {
    def: OpDef {
        name: "CheckNumerics",
        summary: "The input, unchanged; an error if an element is NaN or infinite.",
        inputs: &[arg("tensor", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::FLOATS),
            attr("message", AttrKind::Str),
        ],
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| {
            const IN_GRADIENT: &str =
                "Not a number (NaN) or infinity (Inf) values detected in gradient. ";
            let message = format!("{IN_GRADIENT}{}", g.attrs().str("message"));
            let node = g.graph().op("CheckNumerics").input(g.grad());
            smallvec![Some(node.attr("message", message).output())]
        }),
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            dispatch!(p.dtype(0), FLOATS, T => Ok(check_numerics::<T>(p)), else
            Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::check_numerics).in_place(&[(0, 0)]),
    ],
};

fn check_numerics<T: Float>(p: &Prepare<'_>) -> Prepared {
    let message = p.node.attrs.str("message").to_owned();
    Prepared::new(p.outputs[0].elements() * 2, move |cx| {
        let look = |x: &[T]| {
            let nan = x.iter().any(|x| x.to_f64().is_nan());
            let infinite = x.iter().any(|x| x.to_f64().is_infinite());
            let what = match (infinite, nan) {
                (false, false) => return Ok(()),
                (true, true) => "Inf and NaN",
                (true, false) => "Inf",
                (false, true) => "NaN",
            };
            Err(KernelError::Invalid(format!(
                "{message} : Tensor had {what} values"
            )))
        };
        match cx.in_out::<T>(0, 0)? {
            InOut::Same(x) => look(x),
            InOut::Apart(x, out) => {
                out.copy_from_slice(x);
                look(x)
            }
        }
    })
}

/// `true` if two elements are nearly equal.
pub(crate) static APPROXIMATE_EQUAL: Op = Op {
    def: OpDef {
        name: "ApproximateEqual",
        summary: "True if two elements differ by at most a tolerance.",
        inputs: &[arg("x", "T"), arg("y", "T")],
        outputs: &[arg_of("z", DType::Bool)],
        attrs: &[
            type_attr("T", DType::NUMBERS),
            float_attr("tolerance", 1e-5),
        ],
        shape: shapes::all_the_same,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let tolerance = f64::from(p.node.attrs.float("tolerance"));
        let tolerance =
            dispatch!(p.dtype(0), NUMBERS, T => T::from_f64(tolerance).to_f64(), else tolerance);
        computed!(p.dtype(0), NUMBERS, T => {
            let round = rounding::<T>(p.dtype(0));
            let tolerance = T::from_f64(tolerance);
            Ok(binary_to::<T, bool>(p, move |x, y| {
                round(magnitude(round(x.sub(y)))) <= tolerance
            }))
        }, else Err(KernelError::DType(p.dtype(0))))
    })],
};

const NEXT_AFTER_ATTRS: &[AttrDef] = &[type_attr_or("T", &[DType::F64, DType::F32], DType::F32)];
const X_1_X_2: &[Arg] = &[arg("x1", "T"), arg("x2", "T")];

/// Next float towards another one.
pub(crate) static NEXT_AFTER: Op = Op {
    def: OpDef {
        inputs: X_1_X_2,
        outputs: &[arg("output", "T")],
        ..binary_op(
            "NextAfter",
            "The next float after x1 towards x2, with broadcasting.",
            NEXT_AFTER_ATTRS,
            Gradient::Rule(|g| {
                let (x, to) = (g.input(0), g.input(1));
                smallvec![Some(sum_to(g.grad(), x, to)), None]
            }),
        )
    },
    kernels: &[cpu(|p| match p.dtype(0) {
        DType::F32 => Ok(binary::<f32>(p, |x, to| match x.partial_cmp(&to) {
            None => f32::NAN,
            Some(std::cmp::Ordering::Equal) => to,
            Some(std::cmp::Ordering::Less) => x.next_up(),
            Some(std::cmp::Ordering::Greater) => x.next_down(),
        })),
        DType::F64 => Ok(binary::<f64>(p, |x, to| match x.partial_cmp(&to) {
            None => f64::NAN,
            Some(std::cmp::Ordering::Equal) => to,
            Some(std::cmp::Ordering::Less) => x.next_up(),
            Some(std::cmp::Ordering::Greater) => x.next_down(),
        })),
        other => Err(KernelError::DType(other)),
    })
    .in_place(&[(0, 0), (1, 0)])],
};
