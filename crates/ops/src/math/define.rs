//! Attributes, arguments and base definitions of elementwise ops.

use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr};
use thalweg_tensor::DType;

use crate::support::shapes;

/// Attribute `T` of any number.
pub(super) const NUMBER: &[AttrDef] = &[type_attr("T", DType::NUMBERS)];
/// Attribute `T` of any number, real or complex.
pub(super) const REAL_OR_COMPLEX: &[AttrDef] = &[type_attr("T", DType::ALL_NUMBERS)];
/// Attribute `T` of a float or a complex number.
pub(super) const FLOAT_OR_COMPLEX: &[AttrDef] = &[type_attr("T", DType::FLOATS_AND_COMPLEX)];
/// Attribute `T` of a float.
pub(super) const FLOAT: &[AttrDef] = &[type_attr("T", DType::FLOATS)];

const X: &[Arg] = &[arg("x", "T")];
const X_Y: &[Arg] = &[arg("x", "T"), arg("y", "T")];
const Y: &[Arg] = &[arg("y", "T")];
const Z: &[Arg] = &[arg("z", "T")];
const Y_DY: &[Arg] = &[arg("y", "T"), arg("dy", "T")];

/// Definition of an op with one input and an output of its dtype and shape.
pub(super) const fn unary_op(
    name: &'static str,
    summary: &'static str,
    attrs: &'static [AttrDef],
    gradient: Gradient,
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: X,
        outputs: Y,
        attrs,
        shape: shapes::unchanged,
        gradient,
        ..OpDef::EMPTY
    }
}

/// Definition of an op with two inputs of one dtype, broadcast to an output of that dtype.
pub(super) const fn binary_op(
    name: &'static str,
    summary: &'static str,
    attrs: &'static [AttrDef],
    gradient: Gradient,
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: X_Y,
        outputs: Z,
        attrs,
        shape: shapes::broadcast,
        gradient,
        ..OpDef::EMPTY
    }
}

/// Definition of the gradient of an op, computed from its result `y` and the result's gradient `dy`.
pub(super) const fn gradient_from_result(
    name: &'static str,
    summary: &'static str,
    gradient: Gradient,
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: Y_DY,
        outputs: Z,
        attrs: FLOAT_OR_COMPLEX,
        shape: shapes::all_the_same,
        gradient,
        ..OpDef::EMPTY
    }
}

/// A type whose method is a function of `f32` or `f64`: see [`Function`](crate::support::elementwise::Function).
macro_rules! inlined_type {
    ($name:ident, $f:path) => {
        #[derive(Clone, Copy)]
        struct $name;
        impl<W: thalweg_cpu::number::Wide> $crate::support::elementwise::Function<W, W> for $name {
            #[inline(always)]
            fn of(self, x: W) -> W {
                $f(x)
            }
        }
    };
}

/// Kernel of a function of one float, computed in `f32` or `f64`, in place if the plan allows it; with `complex:`, also
/// of a complex number, computed in `Complex<f64>`.
macro_rules! float_kernel {
    ($f:path) => {{
        $crate::math::define::inlined_type!(Inlined, $f);
        &[cpu(|p| {
            $crate::support::elementwise::computed!(p.dtype(0), FLOATS, T => Ok($crate::support::elementwise::unary_of::<T>(p, Inlined)),
                else Err(thalweg_device::KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]), thalweg_device::gpu(crate::gpu::unary).in_place(&[(0, 0)])]
    }};
    ($f:path, complex: $c:expr) => {{
        $crate::math::define::inlined_type!(Inlined, $f);
        &[cpu(|p| {
            $crate::support::elementwise::computed!(p.dtype(0), COMPLEX, T => Ok($crate::support::elementwise::unary::<T>(p, |x: T| $c(x))), else
            $crate::support::elementwise::computed!(p.dtype(0), FLOATS, T => Ok($crate::support::elementwise::unary_of::<T>(p, Inlined)),
                else Err(thalweg_device::KernelError::DType(p.dtype(0)))))
        })
        .in_place(&[(0, 0)]), thalweg_device::gpu(crate::gpu::unary).in_place(&[(0, 0)])]
    }};
}

/// Kernel of a function of two floats, or of two complex numbers; see `float_kernel`.
macro_rules! float_kernel_2 {
    ($f:expr) => {
        &[cpu(|p| {
            $crate::support::elementwise::computed!(p.dtype(0), FLOATS, T => Ok($crate::support::elementwise::binary::<T>(p, $f)),
                else Err(thalweg_device::KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]), thalweg_device::gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])]
    };
    ($f:expr, complex: $c:expr) => {
        &[cpu(|p| {
            $crate::support::elementwise::computed!(p.dtype(0), COMPLEX, T => Ok($crate::support::elementwise::binary::<T>(p, |x: T, y: T| $c(x, y))), else
            $crate::support::elementwise::computed!(p.dtype(0), FLOATS, T => Ok($crate::support::elementwise::binary::<T>(p, $f)),
                else Err(thalweg_device::KernelError::DType(p.dtype(0)))))
        })
        .in_place(&[(0, 0), (1, 0)]), thalweg_device::gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])]
    };
}

pub(super) use {float_kernel, float_kernel_2, inlined_type};
