//! EuclideanNorm.

use std::marker::PhantomData;

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::Gradient;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, dispatch};

use super::axes::ALL_NUMBERS;
use super::fold::{Fold, over_axes};
use super::gradient::{broadcast_to_input, keep_reduced_dims};
use crate::support::elementwise::{Compute, Conversion};
use crate::support::widened::widened;
use thalweg_cpu::number::{Arithmetic, Float, Number, Wide};

/// The square root of the sum of squares over axes.
pub(crate) static EUCLIDEAN_NORM: Op = Op {
    def: OpDef {
        name: "EuclideanNorm",
        summary: "The root of the sum of the squares over the given axes.",
        // Over no axes, the result is the absolute value.
        same_as: |_| None,
        gradient: Gradient::Rule(|g| {
            let (norm, dy) = (
                keep_reduced_dims(g, g.output(0)),
                keep_reduced_dims(g, g.grad()),
            );
            smallvec![Some(g.input(0) / broadcast_to_input(g, norm / dy))]
        }),
        ..ALL_NUMBERS
    },
    kernels: &[cpu(|p| {
        let dtype = p.dtype(0);
        widened(p, &[0], &[0], &|p| {
            dispatch!(p.dtype(0), [F32 F64], T => over_axes(p, Norm::<T>(PhantomData)), else
            dispatch!(p.dtype(0), [I64 U64], T => over_axes(p, IntNorm::<T> { stored: T::conversion(dtype) }), else match p.dtype(0) {
                DType::C128 => over_axes(p, ComplexNorm),
                other => Err(KernelError::DType(other)),
            }))
        })
    })],
};

#[derive(Clone, Copy)]
struct Norm<T>(PhantomData<T>);

impl<T: Float> Fold for Norm<T> {
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn lift(self, x: T) -> T::Wide {
        x.widen() * x.widen()
    }
    #[inline(always)]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a + b
    }
    #[inline(always)]
    fn finish(self, sum: T::Wide) -> T {
        T::narrow(Wide::sqrt(sum))
    }
}

/// Norm of complex numbers.
#[derive(Clone, Copy)]
struct ComplexNorm;

impl Fold for ComplexNorm {
    type In = Complex<f64>;
    type Acc = f64;
    type Out = Complex<f64>;
    #[inline(always)]
    fn empty(self) -> f64 {
        0.0
    }
    #[inline(always)]
    fn lift(self, x: Complex<f64>) -> f64 {
        x.norm_sqr()
    }
    #[inline(always)]
    fn join(self, a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(self, sum: f64) -> Complex<f64> {
        sum.sqrt().into()
    }
}

/// Norm of integers: squares are summed modulo the range, and the root is rounded down.
#[derive(Clone, Copy)]
struct IntNorm<T> {
    /// Conversion to the stored dtype.
    stored: Option<Conversion<T>>,
}

impl<T: Number + Compute> Fold for IntNorm<T> {
    type In = T;
    type Acc = T;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T {
        T::ZERO
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        x.mul(x)
    }
    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        a.add(b)
    }
    #[inline(always)]
    fn finish(self, sum: T) -> T {
        let sum = self.stored.map_or(sum, |stored| stored.round(sum));
        T::from_f64(sum.to_f64().sqrt())
    }
}
