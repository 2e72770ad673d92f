//! Prod.

use std::marker::PhantomData;

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::op::Gradient;
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::dispatch;

use super::axes::{ALL_NUMBERS, on_gpu};
use super::fold::{Fold, over_axes};
use super::gradient::{keep_reduced_dims, reduce_same_axes};
use crate::support::gradient_nodes::conj;
use crate::support::widened::widened;
use thalweg_cpu::number::{Arithmetic, Float};

/// The product over axes; 1 without elements.
pub(crate) static PROD: Op = Op {
    def: OpDef {
        name: "Prod",
        summary: "The product over the given axes; of integers, modulo their range.",
        gradient: Gradient::Rule(|g| smallvec![Some(gradient(g))]),
        ..ALL_NUMBERS
    },
    kernels: &[
        cpu(|p| {
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => over_axes(p, FloatProduct::<T>(PhantomData)), else
                dispatch!(p.dtype(0), [I64 U64 C128], T => over_axes(p, PlainProduct::<T>(PhantomData)), else
                    Err(KernelError::DType(p.dtype(0)))))
            })
        }),
        gpu(on_gpu),
    ],
};

/// Gradient of each element: the product of the others. Without zeros, the product of all divided by the element; for
/// the only zero, the product of the others; 0 if another element is 0.
#[track_caller]
fn gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (graph, x) = (g.graph(), conj(g.input(0)));
    let dy = keep_reduced_dims(g, g.grad());
    let (zero, one) = (x.constant_like(0), x.constant_like(1));
    let equal = |a: Output<'g>, b: Output<'g>| graph.op("Equal").input(a).input(b).output();
    let select = |c: Output<'g>, a: Output<'g>, b: Output<'g>| {
        graph.op("SelectV2").input(c).input(a).input(b).output()
    };
    let is_zero = equal(x, zero);
    let product = reduce_same_axes(g, "Prod", select(is_zero, one, x));
    // The count has the input's dtype: only 0 and 1 need to be exact.
    let zeros = reduce_same_axes(g, "Sum", select(is_zero, one, zero));
    let of_zero = dy * select(equal(zeros, one), product, zero);
    let of_others = dy * select(equal(zeros, zero), product, zero);
    select(is_zero, of_zero, of_others / select(is_zero, one, x))
}

#[derive(Clone, Copy)]
struct FloatProduct<T>(PhantomData<T>);

impl<T: Float> Fold for FloatProduct<T> {
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T::Wide {
        T::Wide::ONE
    }
    #[inline(always)]
    fn lift(self, x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a * b
    }
    #[inline(always)]
    fn finish(self, product: T::Wide) -> T {
        T::narrow(product)
    }
}

/// Product of integers, modulo their range, and of complex numbers.
#[derive(Clone, Copy)]
struct PlainProduct<T>(PhantomData<T>);

impl<T: Arithmetic> Fold for PlainProduct<T> {
    type In = T;
    type Acc = T;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T {
        T::ONE
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        x
    }
    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        a.mul(b)
    }
    #[inline(always)]
    fn finish(self, product: T) -> T {
        product
    }
}
