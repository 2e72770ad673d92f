//! Softmax, LogSoftmax, over the last axis.

use smallvec::smallvec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::number::{Arithmetic, Float, Wide};
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, type_attr};
use thalweg_graph::{Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, dispatch};

use crate::support::constants::ints;
use crate::support::elementwise::CHUNK;
use crate::support::widened::widened;

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
        cpu(|p| {
            widened(
                p,
                &[0],
                &[0],
                &|p| dispatch!(p.dtype(0), [F32 F64], T => Ok(softmax_kernel::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
            )
        }),
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
        cpu(|p| {
            widened(
                p,
                &[0],
                &[0],
                &|p| dispatch!(p.dtype(0), [F32 F64], T => Ok(log_softmax_kernel::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
            )
        }),
        gpu(crate::gpu::softmax),
    ],
};

/// Cost of an element, relative to an arithmetic kernel: two exponentials.
pub(super) const COST: usize = 16;

fn softmax_kernel<T: Float>(p: &Prepare<'_>) -> Prepared {
    rows_kernel(
        p,
        #[inline(always)]
        |x: &[T], out: &mut [T]| {
            softmax(x, out);
        },
    )
}

fn log_softmax_kernel<T: Float>(p: &Prepare<'_>) -> Prepared {
    rows_kernel(
        p,
        #[inline(always)]
        |x: &[T], out: &mut [T]| log_softmax(x, out),
    )
}

/// Kernel that maps rows to rows by `row`, which is compiled for each instruction set for `f32` and `f64`. It is a closure that is
/// always inlined: the call of a function that is passed would be compiled for the baseline.
fn rows_kernel<T: Float>(
    p: &Prepare<'_>,
    row: impl Fn(&[T], &mut [T]) + Copy + Send + Sync + 'static,
) -> Prepared {
    let classes = p.dims(0).last().copied().unwrap_or(1).max(1);
    let block = rows_per_task(classes) * classes;
    Prepared::new(p.inputs[0].elements() * COST, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let isa = cx.cpu().isa();
        for_chunks(cx.pool(), out, block, &|i, out| {
            let x = &x[i * block..][..out.len()];
            isa.run_over::<T, _>(MapRows {
                x,
                out,
                classes,
                row,
            });
        });
        Ok(())
    })
}

/// Number of rows of a task, for this number of classes.
pub(super) fn rows_per_task(classes: usize) -> usize {
    (CHUNK / 8 / classes.max(1)).max(1)
}

struct MapRows<'a, T, F> {
    x: &'a [T],
    out: &'a mut [T],
    classes: usize,
    row: F,
}

impl<T, F: Fn(&[T], &mut [T])> Vectorize for MapRows<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.x.chunks_exact(self.classes);
        for (x, out) in rows.zip(self.out.chunks_exact_mut(self.classes)) {
            (self.row)(x, out);
        }
    }
}

/// Writes the softmax of a row; returns the largest logit, and the sum of `exp(logit - largest)`.
#[inline(always)]
pub(super) fn softmax<T: Float>(x: &[T], out: &mut [T]) -> (T::Wide, T::Wide) {
    let logits = LogitRow::of(x);
    let largest = largest(logits);
    let mut sums = [T::Wide::ZERO; LANES];
    for at in (0..x.len()).step_by(LANES) {
        let lanes = exps_above(logits.lanes(at, T::Wide::NEG_INFINITY), largest);
        join_lanes(&mut sums, lanes, |a, b| a + b);
        store_lanes(&mut out[at..], lanes);
    }
    let sum = sums.into_iter().fold(T::Wide::ZERO, |a, b| a + b);
    for out in out {
        *out = T::narrow((out.widen() / sum).normal());
    }
    (largest, sum)
}

#[inline(always)]
fn log_softmax<T: Float>(x: &[T], out: &mut [T]) {
    let (largest, sum) = normalizer(LogitRow::of(x));
    let log = sum.ln();
    for (out, x) in out.iter_mut().zip(x) {
        *out = T::narrow(x.widen() - largest - log);
    }
}

/// Number of elements that are computed at a time, and of parallel partial sums: the order of a sum does not depend on the
/// machine's vectors.
pub(super) const LANES: usize = 16;

/// A row of numbers, or one number that stands for a whole row.
#[derive(Clone, Copy)]
pub(super) struct LogitRow<'a, T> {
    values: &'a [T],
    len: usize,
    is_repeated: bool,
}

impl<'a, T: Float> LogitRow<'a, T> {
    #[inline(always)]
    pub(super) fn of(values: &'a [T]) -> Self {
        LogitRow {
            values,
            len: values.len(),
            is_repeated: false,
        }
    }

    /// A row of `len` numbers that are all `value`.
    #[inline(always)]
    pub(super) fn repeated(value: &'a T, len: usize) -> Self {
        LogitRow {
            values: std::slice::from_ref(value),
            len,
            is_repeated: true,
        }
    }

    /// The numbers from `at` on; `beyond` stands for those behind the last. A loop over whole lanes has no elements that are left
    /// over, which would be computed one by one.
    #[inline(always)]
    pub(super) fn lanes(self, at: usize, beyond: T::Wide) -> [T::Wide; LANES] {
        let left = self.len - at;
        if !self.is_repeated
            && let Some(whole) = self.values[at..].first_chunk::<LANES>()
        {
            let mut lanes = [T::Wide::ZERO; LANES];
            for (lane, x) in lanes.iter_mut().zip(whole) {
                *lane = x.widen();
            }
            return lanes;
        }
        std::array::from_fn(|i| match (i < left, self.is_repeated) {
            (false, _) => beyond,
            (true, true) => self.values[0].widen(),
            (true, false) => self.values[at + i].widen(),
        })
    }
}

#[inline(always)]
fn largest<T: Float>(logits: LogitRow<'_, T>) -> T::Wide {
    let larger = |a: T::Wide, b: T::Wide| if b > a { b } else { a };
    let mut most = [T::Wide::NEG_INFINITY; LANES];
    for at in (0..logits.len).step_by(LANES) {
        let lanes = logits.lanes(at, T::Wide::NEG_INFINITY);
        join_lanes(&mut most, lanes, larger);
    }
    most.into_iter().fold(T::Wide::NEG_INFINITY, larger)
}

/// The largest logit, and the sum of `exp(logit - largest)`.
#[inline(always)]
pub(super) fn normalizer<T: Float>(logits: LogitRow<'_, T>) -> (T::Wide, T::Wide) {
    let largest = largest(logits);
    let mut sums = [T::Wide::ZERO; LANES];
    for at in (0..logits.len).step_by(LANES) {
        let lanes = exps_above(logits.lanes(at, T::Wide::NEG_INFINITY), largest);
        join_lanes(&mut sums, lanes, |a, b| a + b);
    }
    let sum = sums.into_iter().fold(T::Wide::ZERO, |a, b| a + b);
    (largest, sum)
}

/// `exp(lane - largest)`. A loop of constant length is computed as vectors, without elements that are left over.
#[inline(always)]
fn exps_above<W: Wide>(mut lanes: [W; LANES], largest: W) -> [W; LANES] {
    for x in &mut lanes {
        *x = (*x - largest).exp();
    }
    lanes
}

/// Joins each number to its lane.
#[inline(always)]
pub(super) fn join_lanes<W: Wide>(
    lanes: &mut [W; LANES],
    numbers: [W; LANES],
    join: impl Fn(W, W) -> W,
) {
    for (lane, x) in lanes.iter_mut().zip(numbers) {
        *lane = join(*lane, x);
    }
}

/// Writes lanes to the first elements of `out`, as many as it has; whole lanes in a loop of constant length.
#[inline(always)]
pub(super) fn store_lanes<T: Float>(out: &mut [T], lanes: [T::Wide; LANES]) {
    match out.first_chunk_mut::<LANES>() {
        Some(out) => {
            for (out, x) in out.iter_mut().zip(lanes) {
                *out = T::narrow(x);
            }
        }
        None => {
            for (out, x) in out.iter_mut().zip(lanes) {
                *out = T::narrow(x);
            }
        }
    }
}

/// Sum over the last axis, which is kept with length 1.
pub(super) fn sum_of_classes(x: Output<'_>) -> Output<'_> {
    let sum = x.graph().op("Sum").input(x).input(ints(x.graph(), &[-1]));
    sum.attr("keep_dims", true).output()
}
