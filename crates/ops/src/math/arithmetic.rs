//! AddV2, Add, Sub, Mul, Neg, Square, SquaredDifference.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::{Kernel, KernelError, Op, TensorCx, cpu, cpu_tensors, gpu};
use thalweg_graph::op::{Gradient, arg, type_attr};
use thalweg_graph::{Infer, OpDef, scalar_of};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Tensor};

use super::broadcast::sum_to;
use super::define::{REAL_OR_COMPLEX, binary_op};
use crate::gpu::binary_as;
use crate::support::broadcast_index::BroadcastIndex;
use crate::support::elementwise::{binary, computed, rounding, unary};
use crate::support::gradient_nodes::conj;
use crate::support::shapes;

const ADD_DEF: OpDef = binary_op(
    "AddV2",
    "The sum of two tensors, element by element, with broadcasting.",
    REAL_OR_COMPLEX,
    Gradient::Rule(|g| {
        let (x, y) = (g.input(0), g.input(1));
        smallvec![Some(sum_to(g.grad(), x, y)), Some(sum_to(g.grad(), y, x))]
    }),
);

const ADD_ON_CPU: Kernel = cpu(|p| {
    computed!(p.dtype(0), WRAPPING, T => Ok(binary::<T>(p, T::add)), else Err(KernelError::DType(p.dtype(0))))
})
.in_place(&[(0, 0), (1, 0)]);

const ADD_ON_GPU: Kernel = gpu(|p| binary_as(p, "AddV2")).in_place(&[(0, 0), (1, 0)]);

/// `x + y`.
pub(crate) static ADD: Op = Op {
    def: ADD_DEF,
    kernels: &[ADD_ON_CPU, ADD_ON_GPU],
};

/// `x + y`, by its name in TensorFlow 1, which also joins strings.
pub(crate) static ADD_V1: Op = Op {
    def: OpDef {
        name: "Add",
        summary: "The sum of two tensors, element by element, or the strings of both joined, with broadcasting.",
        attrs: &[type_attr("T", NUMBERS_OR_STRING)],
        ..ADD_DEF
    },
    kernels: &[
        cpu_tensors(join_strings).only(&[("T", &[DType::String])]),
        ADD_ON_CPU.only(&[("T", DType::ALL_NUMBERS)]),
        ADD_ON_GPU.only(&[("T", DType::ALL_NUMBERS)]),
    ],
};

/// Dtypes of `Add`.
const NUMBERS_OR_STRING: &[DType] = &DType::joined::<15>(DType::ALL_NUMBERS, &[DType::String]);

/// Each string of the first input, followed by the one of the second.
fn join_strings(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (dims, [of_x, of_y]) = BroadcastIndex::of_inputs(cx, [0, 1])?;
    let (x, y) = (cx.strings(0)?, cx.strings(1)?);
    let mut joined = cx.string_tensor(&dims)?;
    let mut stop = cx.stop_check();
    for i in 0..elements(&dims) {
        stop.tick()?;
        let (Some(x), Some(y)) = (x.get(of_x.index(i)), y.get(of_y.index(i))) else {
            return Err(KernelError::Argument("an element"));
        };
        joined.extend(x)?;
        joined.extend(y)?;
        joined.end();
    }
    Ok(vec![joined.finish()?])
}

/// `x - y`.
pub(crate) static SUB: Op = Op {
    def: OpDef {
        name: "Sub",
        summary: "The difference of two tensors, element by element, with broadcasting.",
        inputs: &[arg("x", "T"), arg("y", "T")],
        outputs: &[arg("z", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: shapes::broadcast,
        gradient: Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.input(1));
            smallvec![Some(sum_to(g.grad(), x, y)), Some(sum_to(-g.grad(), y, x))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), WRAPPING, T => Ok(binary::<T>(p, T::sub)), else Err(KernelError::DType(p.dtype(0))))
    })
    .in_place(&[(0, 0), (1, 0)]), gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])],
};

/// `x * y`.
pub(crate) static MUL: Op = Op {
    def: OpDef {
        name: "Mul",
        summary: "The product of two tensors, element by element, with broadcasting.",
        inputs: &[arg("x", "T"), arg("y", "T")],
        outputs: &[arg("z", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: shapes::broadcast,
        same_as: factor_beside_one,
        gradient: Gradient::Rule(|g| {
            let (x, y, dz) = (g.input(0), g.input(1), g.grad());
            let (by_x, by_y) = (dz * conj(y), dz * conj(x));
            smallvec![Some(sum_to(by_x, x, y)), Some(sum_to(by_y, y, x))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), WRAPPING, T => Ok(binary::<T>(p, T::mul)), else Err(KernelError::DType(p.dtype(0))))
    })
    .in_place(&[(0, 0), (1, 0)]), gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])],
};

/// Index of the other factor, if one factor is a scalar 1.
fn factor_beside_one(cx: &Infer<'_>) -> Option<usize> {
    let is_one = |i: usize| {
        let one = cx.value(i).filter(|v| v.dims().is_empty());
        one.is_some() && one == scalar_of(cx.dtype(i), 1.0).as_ref()
    };
    (0..2).find(|&i| is_one(1 - i))
}

/// `-x`.
pub(crate) static NEG: Op = Op {
    def: OpDef {
        name: "Neg",
        summary: "The negative of each element.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| smallvec![Some(-g.grad())]),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            // -x and not 0 - x, whose sign is different for zero; negation of an integer wraps.
            computed!(p.dtype(0), COMPLEX, T => Ok(unary::<T>(p, |x: T| -x)), else
            computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, |x| -x)), else
            computed!(p.dtype(0), BITS, T => Ok(unary::<T>(p, |x| T::ZERO.sub(x))), else
                Err(KernelError::DType(p.dtype(0))))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// `x * x`.
pub(crate) static SQUARE: Op = Op {
    def: OpDef {
        name: "Square",
        summary: "The square of each element.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| {
            let x = conj(g.input(0));
            smallvec![Some(g.grad() * (x * x.constant_like(2)))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), WRAPPING, T => Ok(unary::<T>(p, |x| x.mul(x))), else Err(KernelError::DType(p.dtype(0))))
    })
    .in_place(&[(0, 0)]), gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

/// `(x - y)^2`.
pub(crate) static SQUARED_DIFFERENCE: Op = Op {
    def: binary_op(
        "SquaredDifference",
        "The square of the difference of two tensors, with broadcasting.",
        REAL_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.input(1));
            let twice = x.constant_like(2);
            let dx = g.grad() * (x - y) * twice;
            smallvec![Some(sum_to(dx, x, y)), Some(sum_to(-dx, y, x))]
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), WRAPPING, T => {
                let dtype = p.dtype(0);
                if !matches!(dtype, DType::F16 | DType::BF16) {
                    return Ok(binary::<T>(p, |x, y| {
                        let d = x.sub(y);
                        d.mul(d.conj())
                    }));
                }
                let round = rounding::<T>(dtype);
                Ok(binary::<T>(p, move |x, y| {
                    let d = round(x.sub(y));
                    d.mul(d)
                }))
            }, else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};
