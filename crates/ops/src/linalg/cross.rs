//! Cross.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, type_attr};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, dispatch};

/// Cross product of vectors of three elements.
pub(crate) static CROSS: Op = Op {
    def: OpDef {
        name: "Cross",
        summary: "The cross product of each pair of vectors of three elements.",
        inputs: &[arg("a", "T"), arg("b", "T")],
        outputs: &[arg("product", "T")],
        attrs: &[type_attr("T", DType::NUMBERS)],
        shape: |cx| {
            let shape = cx.same(0, 1)?;
            let last = shape
                .dims()
                .map(|dims| dims.last().copied().unwrap_or(Some(0)));
            if let Some(Some(d)) = last
                && d != 3
            {
                return Err(InferError::Rank {
                    input: 0,
                    expected: "at least one, and three elements along the last of its".to_owned(),
                    found: shape,
                });
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (a, b, dy) = (g.input(0), g.input(1), g.grad());
            let cross = |a, b| Some(g.graph().op("Cross").input(a).input(b).output());
            smallvec![cross(b, dy), cross(dy, a)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let n = p.outputs[0].elements();
        dispatch!(p.dtype(0), NUMBERS, T => Ok(Prepared::new(n * 4, |cx| {
            let (a, b, out) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.output::<T>(0)?);
            let (a, b) = (a.as_chunks::<3>().0, b.as_chunks::<3>().0);
            for ((out, a), b) in out.as_chunks_mut::<3>().0.iter_mut().zip(a).zip(b) {
                let of = |i: usize, j: usize| a[i].mul(b[j]).sub(a[j].mul(b[i]));
                *out = [of(1, 2), of(2, 0), of(0, 1)];
            }
            Ok(())
        })), else Err(KernelError::DType(p.dtype(0))))
    })],
};
