//! Reciprocal, Inv, ReciprocalGrad, InvGrad.

use smallvec::smallvec;
use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::op::Gradient;
use thalweg_graph::{GradCx, OpDef};

use super::define::{gradient_from_result, unary_op};
use crate::support::elementwise::{binary, computed, unary};
use crate::support::gradient_nodes::conj;
use thalweg_cpu::number::{Arithmetic, Float};
use thalweg_graph::op::{AttrDef, type_attr};
use thalweg_tensor::DType;

/// Floats, signed integers and complex numbers.
const SIGNED_OR_COMPLEX: &[AttrDef] = &[type_attr(
    "T",
    &DType::joined::<10>(DType::SIGNED, DType::COMPLEX),
)];

const RECIPROCAL_DEF: OpDef = unary_op(
    "Reciprocal",
    "One divided by each element.",
    SIGNED_OR_COMPLEX,
    Gradient::Rule(|g| smallvec![Some(grad(g, g.output(0), g.grad()))]),
);

const GRAD_DEF: OpDef = gradient_from_result(
    "ReciprocalGrad",
    "The gradient of a reciprocal y: -dy y^2.",
    Gradient::Rule(|g| {
        let (y, dy, dz) = (conj(g.input(0)), g.input(1), g.grad());
        smallvec![Some(conj(dz) * -2.0 * dy * y), Some(grad(g, y, dz))]
    }),
);

fn grad<'g>(
    g: &GradCx<'_, 'g>,
    y: thalweg_graph::Output<'g>,
    dy: thalweg_graph::Output<'g>,
) -> thalweg_graph::Output<'g> {
    g.graph().op("ReciprocalGrad").input(y).input(dy).output()
}

const KERNELS: &[Kernel] = &[cpu(|p| {
    computed!(p.dtype(0), COMPLEX, T => Ok(unary::<T>(p, |x: T| x.inv())), else
    computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, |x| T::narrow(<T as Float>::Wide::ONE / x.widen()))),
        else Err(KernelError::DType(p.dtype(0)))))
})
.in_place(&[(0, 0)]), gpu(crate::gpu::unary).in_place(&[(0, 0)]).only(&[("T", DType::FLOATS)])];

const GRAD_KERNELS: &[Kernel] = &[
    cpu(|p| {
        computed!(p.dtype(0), COMPLEX, T => Ok(binary::<T>(p, |y: T, dy: T| {
        if dy == T::ZERO { dy } else { -dy * y.conj() * y.conj() }
    })), else
    computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |y, dy| {
        let (y, dy) = (y.widen(), dy.widen());
        let zero = <T as Float>::Wide::ZERO;
        T::narrow(if dy == zero { zero } else { -dy * y * y })
    })), else Err(KernelError::DType(p.dtype(0)))))
    })
    .in_place(&[(0, 0), (1, 0)]),
    gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
];

/// `1 / x`.
pub(crate) static RECIPROCAL: Op = Op {
    def: RECIPROCAL_DEF,
    kernels: KERNELS,
};

/// `1 / x`, by its older name.
pub(crate) static INV: Op = Op {
    def: OpDef {
        name: "Inv",
        ..RECIPROCAL_DEF
    },
    kernels: KERNELS,
};

/// `-dy y^2`, and 0 where `dy` is 0, whatever `y` is.
pub(crate) static RECIPROCAL_GRAD: Op = Op {
    def: GRAD_DEF,
    kernels: GRAD_KERNELS,
};

/// `-dy y^2`, by its older name.
pub(crate) static INV_GRAD: Op = Op {
    def: OpDef {
        name: "InvGrad",
        ..GRAD_DEF
    },
    kernels: GRAD_KERNELS,
};
