//! Max, Min.

use std::marker::PhantomData;

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::op::Gradient;
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::{DType, Element, dispatch};

use super::axes::{NUMBERS, on_gpu};
use super::fold::{Fold, over_axes};
use super::gradient::{keep_reduced_dims, reduce_same_axes};
use crate::support::widened::widened;
use thalweg_cpu::number::{Float, Number};

/// The largest element over axes; the lowest value (-infinity) without elements.
pub(crate) static MAX: Op = Op {
    def: OpDef {
        name: "Max",
        summary: "The largest element over the given axes; NaN where one is.",
        gradient: Gradient::Rule(|g| smallvec![Some(gradient(g))]),
        ..NUMBERS
    },
    kernels: &[
        cpu(|p| {
            let none = extreme_of_none::<true>(p.dtype(0));
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => over_axes(p, FloatExtreme::<T, true>(PhantomData)), else
                dispatch!(p.dtype(0), [I64 U64], T => over_axes(p, IntExtreme::<T, true>(none as T)), else
                    Err(KernelError::DType(p.dtype(0)))))
            })
        }),
        gpu(on_gpu),
    ],
};

/// The smallest element over axes; the highest value (infinity) without elements.
pub(crate) static MIN: Op = Op {
    def: OpDef {
        name: "Min",
        summary: "The smallest element over the given axes; NaN where one is.",
        gradient: Gradient::Rule(|g| smallvec![Some(gradient(g))]),
        ..NUMBERS
    },
    kernels: &[
        cpu(|p| {
            let none = extreme_of_none::<false>(p.dtype(0));
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => over_axes(p, FloatExtreme::<T, false>(PhantomData)), else
                dispatch!(p.dtype(0), [I64 U64], T => over_axes(p, IntExtreme::<T, false>(none as T)), else
                    Err(KernelError::DType(p.dtype(0)))))
            })
        }),
        gpu(on_gpu),
    ],
};

/// Sends the output's gradient in equal parts to the elements that equal the output.
#[track_caller]
fn gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (graph, x) = (g.graph(), g.input(0));
    let (y, dy) = (
        keep_reduced_dims(g, g.output(0)),
        keep_reduced_dims(g, g.grad()),
    );
    let equal = graph.op("Equal").input(x).input(y).output();
    let cast = graph.op("Cast").input(equal);
    let chosen = cast.attr("DstT", x.dtype()).output();
    chosen * (dy / reduce_same_axes(g, "Sum", chosen))
}

/// A dtype with a lowest and a highest value.
pub(super) trait Bounded: Element + PartialOrd {
    /// The lowest value: negative infinity if the dtype has it.
    const LOWEST: Self;
    /// The highest value: infinity if the dtype has it.
    const HIGHEST: Self;
}

macro_rules! bounded {
    ($($t:ident)*; $lowest:ident, $highest:ident) => {$(
        impl Bounded for $t {
            const LOWEST: $t = $t::$lowest;
            const HIGHEST: $t = $t::$highest;
        }
    )*};
}

bounded! { f32 f64; NEG_INFINITY, INFINITY }
bounded! { i64 u64; MIN, MAX }

/// The lowest (`MAX`) or highest integer of a dtype: the result without elements.
fn extreme_of_none<const MAX: bool>(dtype: DType) -> i128 {
    dispatch!(dtype, INTS, T => i128::from(if MAX { T::MIN } else { T::MAX }), else 0)
}

/// Maximum (`MAX`) or minimum of floats; NaN if one of them is.
#[derive(Clone, Copy)]
struct FloatExtreme<T, const MAX: bool>(PhantomData<T>);

impl<T: Float, const MAX: bool> Fold for FloatExtreme<T, MAX>
where
    T::Wide: Bounded,
{
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T::Wide {
        if MAX {
            T::Wide::LOWEST
        } else {
            T::Wide::HIGHEST
        }
    }
    #[inline(always)]
    fn lift(self, x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        // Compiles to the processor's maximum, which keeps a NaN in `a` but not one in `b`.
        let second = if MAX { b > a } else { b < a };
        let extreme = if second { b } else { a };
        if b != b { b } else { extreme }
    }
    #[inline(always)]
    fn finish(self, extreme: T::Wide) -> T {
        T::narrow(extreme)
    }
}

/// Maximum (`MAX`) or minimum of integers; the field is the result without elements.
#[derive(Clone, Copy)]
struct IntExtreme<T, const MAX: bool>(T);

impl<T: Number, const MAX: bool> Fold for IntExtreme<T, MAX> {
    type In = T;
    type Acc = T;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T {
        self.0
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        x
    }
    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        let first = if MAX { a > b } else { a < b };
        if first { a } else { b }
    }
    #[inline(always)]
    fn finish(self, extreme: T) -> T {
        extreme
    }
}
