//! Softmax over the last axis, and its logarithm.

use smallvec::smallvec;
use thalweg_device::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, type_attr};
use thalweg_graph::{DType, Infer, InferError, OpDef, dispatch};

use super::sum_of_classes;
use crate::elementwise::CHUNK;
use crate::number::{Float, Wide};

const ATTRS: &[AttrDef] = &[type_attr("T", DType::FLOATS)];

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if cx.shape(0).rank() == Some(0) {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: cx.shape(0).clone(),
        });
    }
    cx.set(0, cx.shape(0).clone());
    Ok(())
}

/// `exp(x) / sum(exp(x))`.
pub(crate) static SOFTMAX: Op = Op {
    def: OpDef {
        name: "Softmax",
        summary: "e to the power of each element, divided by their sum over the last axis.",
        inputs: &[arg("logits", "T")],
        outputs: &[arg("softmax", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(|g| {
            let (y, dy) = (g.output(0), g.grad());
            smallvec![Some((dy - sum_of_classes(dy * y)) * y)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(0), FLOATS, T => Ok(rows(p, softmax::<T>)), else Err(KernelError::DType(p.dtype(0)))),
        ),
        gpu(crate::gpu::softmax),
    ],
};

/// `x - log(sum(exp(x)))`.
pub(crate) static LOG_SOFTMAX: Op = Op {
    def: OpDef {
        name: "LogSoftmax",
        summary: "The logarithm of Softmax.",
        inputs: &[arg("logits", "T")],
        outputs: &[arg("logsoftmax", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(|g| {
            let dy = g.grad();
            let softmax = g.graph().op("Exp").input(g.output(0)).output();
            smallvec![Some(dy - sum_of_classes(dy) * softmax)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(0), FLOATS, T => Ok(rows(p, log_softmax::<T>)), else Err(KernelError::DType(p.dtype(0)))),
        ),
        gpu(crate::gpu::softmax),
    ],
};

/// About how many nanoseconds an exponential takes.
const EXP: u64 = 5;

fn rows<T: Float>(p: &Prepare<'_>, row: fn(&[T], &mut [T])) -> Prepared {
    let classes = p.dims(0).last().copied().unwrap_or(1).max(1);
    let block = (CHUNK / 8 / classes).max(1) * classes;
    Prepared::new(0, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        for_chunks(cx.pool(), out, block, &|i, out| {
            let x = x[i * block..].chunks_exact(classes);
            for (out, x) in out.chunks_exact_mut(classes).zip(x) {
                row(x, out);
            }
        });
        Ok(())
    })
    .with_cost(50 + p.inputs[0].elements() as u64 * EXP)
}

/// The largest logit, and the sum of e to the powers of what each lies above it.
pub(super) fn normalizer<W: Wide>(logits: impl Iterator<Item = W> + Clone) -> (W, W) {
    let largest = logits
        .clone()
        .fold(W::NEG_INFINITY, |a, b| if b > a { b } else { a });
    let sum = logits.fold(W::ZERO, |sum, x| sum + (x - largest).exp());
    (largest, sum)
}

fn softmax<T: Float>(x: &[T], out: &mut [T]) {
    let (largest, sum) = normalizer(x.iter().map(|x| x.widen()));
    for (out, x) in out.iter_mut().zip(x) {
        *out = T::narrow((x.widen() - largest).exp() / sum);
    }
}

fn log_softmax<T: Float>(x: &[T], out: &mut [T]) {
    let (largest, sum) = normalizer(x.iter().map(|x| x.widen()));
    let log = sum.ln();
    for (out, x) in out.iter_mut().zip(x) {
        *out = T::narrow(x.widen() - largest - log);
    }
}
