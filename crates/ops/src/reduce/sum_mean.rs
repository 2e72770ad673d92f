//! Sum, Mean.

use std::marker::PhantomData;

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::Gradient;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, dispatch};

use super::axes::{ALL_NUMBERS, on_gpu, reduced_count};
use super::fold::{Fold, over_axes};
use super::gradient::{broadcast_to_input, elements_per_output, keep_reduced_dims};
use crate::support::widened::widened;
use thalweg_cpu::number::{Arithmetic, Float, Number};

/// The sum over axes; 0 without elements.
pub(crate) static SUM: Op = Op {
    def: OpDef {
        name: "Sum",
        summary: "The sum over the given axes; of integers, modulo their range.",
        gradient: Gradient::Rule(|g| {
            smallvec![Some(broadcast_to_input(g, keep_reduced_dims(g, g.grad())))]
        }),
        ..ALL_NUMBERS
    },
    kernels: &[
        cpu(|p| {
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => over_axes(p, FloatSum::<T>(PhantomData)), else
                dispatch!(p.dtype(0), [I64 U64 C128], T => over_axes(p, PlainSum::<T>(PhantomData)), else
                    Err(KernelError::DType(p.dtype(0)))))
            })
        }),
        gpu(on_gpu),
    ],
};

/// The mean over axes; NaN without elements.
pub(crate) static MEAN: Op = Op {
    def: OpDef {
        name: "Mean",
        summary: "The mean over the given axes; of integers, rounded towards zero.",
        gradient: Gradient::Rule(|g| {
            // Divided before it is broadcast, while it is small.
            let mean = g.grad() / elements_per_output(g);
            smallvec![Some(broadcast_to_input(g, keep_reduced_dims(g, mean)))]
        }),
        ..ALL_NUMBERS
    },
    kernels: &[
        cpu(|p| {
            let count = reduced_count(p)?;
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => {
                    over_axes(p, FloatMean::<T> { count: count as T })
                }, else dispatch!(p.dtype(0), [I64 U64], T => {
                    over_axes(p, IntMean::<T> { count, dtype: PhantomData })
                }, else match p.dtype(0) {
                    DType::C128 => over_axes(p, ComplexMean { count: count as f64 }),
                    other => Err(KernelError::DType(other)),
                }))
            })
        }),
        gpu(on_gpu),
    ],
};

#[derive(Clone, Copy)]
struct FloatSum<T>(PhantomData<T>);

impl<T: Float> Fold for FloatSum<T> {
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn start(self) -> T::Wide {
        // Not 0, since 0 + -0 is 0: the sum of a single -0 would not be that element.
        T::Wide::from_f64(-0.0)
    }
    #[inline(always)]
    fn lift(self, x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a + b
    }
    #[inline(always)]
    fn finish(self, sum: T::Wide) -> T {
        T::narrow(sum)
    }
}

/// Sum of integers, modulo their range, and of complex numbers.
#[derive(Clone, Copy)]
struct PlainSum<T>(PhantomData<T>);

impl<T: Arithmetic> Fold for PlainSum<T> {
    type In = T;
    type Acc = T;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T {
        T::ZERO
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        x
    }
    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        a.add(b)
    }
    #[inline(always)]
    fn finish(self, sum: T) -> T {
        sum
    }
}

#[derive(Clone, Copy)]
struct FloatMean<T: Float> {
    count: T::Wide,
}

impl<T: Float> Fold for FloatMean<T> {
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn start(self) -> T::Wide {
        // Not 0, since 0 + -0 is 0: the sum of a single -0 would not be that element.
        T::Wide::from_f64(-0.0)
    }
    #[inline(always)]
    fn lift(self, x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a + b
    }
    #[inline(always)]
    fn finish(self, sum: T::Wide) -> T {
        T::narrow(sum / self.count)
    }
}

#[derive(Clone, Copy)]
struct ComplexMean {
    count: f64,
}

impl Fold for ComplexMean {
    type In = Complex<f64>;
    type Acc = Complex<f64>;
    type Out = Complex<f64>;
    #[inline(always)]
    fn empty(self) -> Complex<f64> {
        Complex::ZERO
    }
    #[inline(always)]
    fn lift(self, x: Complex<f64>) -> Complex<f64> {
        x
    }
    #[inline(always)]
    fn join(self, a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        a + b
    }
    #[inline(always)]
    fn finish(self, sum: Complex<f64>) -> Complex<f64> {
        sum / self.count
    }
}

/// An integer, summed in 64 bits so that only a sum of 64 bits can wrap.
trait MeanInt: Number {
    type Sum: Number;
    fn long(self) -> Self::Sum;
    /// The sum divided by the count, rounded towards zero; 0 for a count of 0.
    fn mean(sum: Self::Sum, count: usize) -> Self;
}

macro_rules! ints {
    ($($t:ty: $sum:ty),*) => {$(
        impl MeanInt for $t {
            type Sum = $sum;
            #[inline(always)]
            fn long(self) -> $sum { <$sum>::from(self) }
            #[inline(always)]
            fn mean(sum: $sum, count: usize) -> $t {
                // The mean is within the range of the elements.
                sum.checked_div(count as $sum).unwrap_or(0) as $t
            }
        }
    )*};
}

ints! { i8: i64, i16: i64, i32: i64, i64: i64, u8: u64, u16: u64, u32: u64, u64: u64 }

#[derive(Clone, Copy)]
struct IntMean<T> {
    count: usize,
    dtype: PhantomData<T>,
}

impl<T: MeanInt> Fold for IntMean<T> {
    type In = T;
    type Acc = T::Sum;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T::Sum {
        T::Sum::ZERO
    }
    #[inline(always)]
    fn lift(self, x: T) -> T::Sum {
        x.long()
    }
    #[inline(always)]
    fn join(self, a: T::Sum, b: T::Sum) -> T::Sum {
        a.add(b)
    }
    #[inline(always)]
    fn finish(self, sum: T::Sum) -> T {
        T::mean(sum, self.count)
    }
}
