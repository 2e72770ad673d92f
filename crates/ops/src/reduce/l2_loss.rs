//! L2Loss.

use std::marker::PhantomData;

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, type_attr};
use thalweg_tensor::{DType, dispatch};

use super::axes::Reduced;
use super::fold::{Fold, over};
use crate::support::shapes;
use crate::support::widened::widened;
use thalweg_cpu::number::{Arithmetic, Float, Number};

/// Half the sum of the squares of all elements.
pub(crate) static L2_LOSS: Op = Op {
    def: OpDef {
        name: "L2Loss",
        summary: "Half the sum of the squares of all elements.",
        inputs: &[arg("t", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::FLOATS)],
        shape: shapes::scalar,
        gradient: Gradient::Rule(|g| smallvec![Some(g.input(0) * g.grad())]),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let all = Reduced::from_elem(true, p.dims(0).len());
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => Ok(over(p.dims(0), &all, HalfSquares::<T>(PhantomData))), else
                    Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(|p| {
            let all = Reduced::from_elem(true, p.dims(0).len());
            crate::gpu::reduce(p, "L2Loss", p.dims(0), &all)
        }),
    ],
};

#[derive(Clone, Copy)]
struct HalfSquares<T>(PhantomData<T>);

impl<T: Float> Fold for HalfSquares<T> {
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
        T::narrow(sum * T::Wide::from_f64(0.5))
    }
}
