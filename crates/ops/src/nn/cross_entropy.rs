//! SoftmaxCrossEntropyWithLogits, SparseSoftmaxCrossEntropyWithLogits: cross entropy between labels and the softmax of
//! logits, with its gradient with respect to the logits as a second output.

use smallvec::{SmallVec, smallvec};
use thalweg_cpu::Vectorize;
use thalweg_cpu::number::{Arithmetic, Float, Wide};
use thalweg_cpu::parallel::Disjoint;
use thalweg_device::{Cpu, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Shape, dispatch};

use super::softmax::{
    COST, LANES, LogitRow, join_lanes, normalizer, rows_per_task, softmax, store_lanes,
    sum_of_classes,
};
use crate::math::broadcast::sum_to;
use crate::support::constants::ints;
use crate::support::widened::{widened, with_i64_indices};

/// Sets the shape of the loss to one number for each row of `backprop`.
fn set_outputs(cx: &mut Infer<'_>, backprop: Shape) {
    cx.set(0, Shape::partial([backprop.dim(0)]));
    cx.set(1, backprop);
}

fn dense_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (logits, labels) = (cx.shape(0), cx.shape(1));
    let both = logits
        .broadcast(labels)
        .ok_or_else(|| InferError::Broadcast {
            left: logits.clone(),
            right: labels.clone(),
        })?;
    let rows = both
        .merge(&Shape::of_rank(2))
        .ok_or_else(|| InferError::Rank {
            input: 0,
            expected: "2, broadcast with the labels: rows and classes,".to_owned(),
            found: logits.clone(),
        })?;
    set_outputs(cx, rows);
    Ok(())
}

fn sparse_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (logits, labels) = (cx.ranked(0, 2)?, cx.ranked(1, 1)?);
    let rows = Shape::partial([logits.dim(0)]);
    let rows = rows.merge(&labels).ok_or_else(|| InferError::Mismatch {
        what: "there must be one label for each row of logits".to_owned(),
        left: logits.clone(),
        right: labels,
    })?;
    set_outputs(cx, Shape::partial([rows.dim(0), logits.dim(1)]));
    Ok(())
}

/// Gradient with respect to the logits, of the shape of the second output: the gradient of the losses times
/// the second output, plus the gradient of the second output propagated through its softmax.
fn logits_grad<'g>(g: &GradCx<'_, 'g>, softmax: impl Fn() -> Output<'g>) -> Option<Output<'g>> {
    let by_loss = g.dy(0).map(|d| as_column(d) * g.output(1));
    let by_backprop = g.dy(1).map(|d| {
        let softmax = softmax();
        (d - sum_of_classes(d * softmax)) * softmax
    });
    match (by_loss, by_backprop) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// One number for each row, as a column that broadcasts over the classes.
fn as_column(losses: Output<'_>) -> Output<'_> {
    let axis = ints(losses.graph(), &[-1]);
    losses
        .graph()
        .op("ExpandDims")
        .input(losses)
        .input(axis)
        .output()
}

fn dense_gradients<'g>(g: &GradCx<'_, 'g>) -> SmallVec<[Option<Output<'g>>; 4]> {
    let (logits, labels, backprop) = (g.input(0), g.input(1), g.output(1));
    let dx = logits_grad(g, || backprop + labels);
    let by_loss = g.dy(0).map(|d| {
        // Logits that broadcast are expanded to their full shape first, to get a gradient for each class.
        let alike = logits.shape().is_known() && logits.shape() == backprop.shape();
        let full = if alike {
            logits
        } else {
            logits + g.graph().op("ZerosLike").input(backprop).output()
        };
        -(as_column(d) * g.graph().op("LogSoftmax").input(full).output())
    });
    let by_backprop = g.dy(1).map(|d| -d);
    let dlabels = match (by_loss, by_backprop) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    smallvec![
        dx.map(|d| sum_to(d, logits, labels)),
        dlabels.map(|d| sum_to(d, labels, logits)),
    ]
}

/// Cross entropy with labels that are distributions.
pub(crate) static SOFTMAX_CROSS_ENTROPY: Op = Op {
    def: OpDef {
        name: "SoftmaxCrossEntropyWithLogits",
        summary: "The cross entropy between rows of labels and the softmax of rows of logits, and its gradient with respect to the logits.",
        inputs: &[arg("features", "T"), arg("labels", "T")],
        outputs: &[arg("loss", "T"), arg("backprop", "T")],
        attrs: &[type_attr("T", DType::FLOATS)],
        shape: dense_shape,
        gradient: Gradient::Rule(dense_gradients),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            widened(
                p,
                &[0, 1],
                &[0, 1],
                &|p| dispatch!(p.dtype(0), [F32 F64], T => Ok(dense::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
            )
        }),
        gpu(|p| {
            let ([x_row, x_class], [y_row, y_class]) = (
                row_and_class_steps(p.dims(0)),
                row_and_class_steps(p.dims(1)),
            );
            crate::gpu::cross_entropy(p, Some([x_row, x_class, y_row, y_class]))
        }),
    ],
};

/// Cross entropy with one class for each row.
pub(crate) static SPARSE_SOFTMAX_CROSS_ENTROPY: Op = Op {
    def: OpDef {
        name: "SparseSoftmaxCrossEntropyWithLogits",
        summary: "The cross entropy between one class for each row and the softmax of rows of logits, and its gradient with respect to the logits.",
        inputs: &[arg("features", "T"), arg("labels", "Tlabels")],
        outputs: &[arg("loss", "T"), arg("backprop", "T")],
        attrs: &[
            type_attr("T", DType::FLOATS),
            type_attr_or("Tlabels", DType::INDICES, DType::I64),
        ],
        shape: sparse_shape,
        gradient: Gradient::Rule(|g| {
            let softmax = || g.graph().op("Softmax").input(g.input(0)).output();
            smallvec![logits_grad(g, softmax), None]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            widened(p, &[0], &[0, 1], &|p| {
                with_i64_indices(p, &[1], &|p| {
                    dispatch!(p.dtype(0), [F32 F64], T => Ok(sparse::<T>(p)), else
                    Err(KernelError::DType(p.dtype(0))))
                })
            })
        }),
        gpu(|p| crate::gpu::cross_entropy(p, None)),
    ],
};

/// Runs `row(i, loss, backprop)` for each row, in parallel over blocks of a fixed size; for `f32`
/// and `f64`, `row` is compiled for each instruction set.
fn for_rows<T: Float>(
    cpu: &Cpu,
    loss: &mut [T],
    backprop: &mut [T],
    row: impl Fn(usize, &mut T, &mut [T]) + Copy + Sync,
) {
    let rows = loss.len();
    let classes = backprop.len().checked_div(rows).unwrap_or(0);
    let block = rows_per_task(classes);
    let (loss, backprop) = (Disjoint::new(loss), Disjoint::new(backprop));
    cpu.pool().parallel_for(rows.div_ceil(block), &|task| {
        let start = task * block;
        let rows = block.min(rows - start);
        // SAFETY: each row belongs to one task, and each task runs once.
        let (loss, backprop) = unsafe {
            (
                loss.slice(start, rows),
                backprop.slice(start * classes, rows * classes),
            )
        };
        cpu.isa().run_over::<T, _>(LossRows {
            start,
            loss,
            backprop,
            classes,
            row,
        });
    });
}

struct LossRows<'a, T, F> {
    start: usize,
    loss: &'a mut [T],
    backprop: &'a mut [T],
    classes: usize,
    row: F,
}

impl<T, F: Fn(usize, &mut T, &mut [T])> Vectorize for LossRows<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (i, loss) in self.loss.iter_mut().enumerate() {
            let backprop = &mut self.backprop[i * self.classes..][..self.classes];
            (self.row)(self.start + i, loss, backprop);
        }
    }
}

/// Steps to the next row and to the next class, for an input that broadcasts to rows and
/// classes.
fn row_and_class_steps(dims: &[usize]) -> [usize; 2] {
    let classes = dims.last().copied().unwrap_or(1);
    let rows = dims.len().checked_sub(2).map_or(1, |i| dims[i]);
    [
        if rows == 1 { 0 } else { classes },
        usize::from(classes != 1),
    ]
}

/// Row `i` of an input with these steps, broadcast to `classes`.
#[inline(always)]
fn row_of<T: Float>(
    input: &[T],
    [row, class]: [usize; 2],
    i: usize,
    classes: usize,
) -> LogitRow<'_, T> {
    match class {
        0 => LogitRow::repeated(&input[i * row], classes),
        _ => LogitRow::of(&input[i * row..][..classes]),
    }
}

fn dense<T: Float>(p: &Prepare<'_>) -> Prepared {
    let (x_steps, y_steps) = (
        row_and_class_steps(p.dims(0)),
        row_and_class_steps(p.dims(1)),
    );
    Prepared::new(p.outputs[1].elements() * COST, move |cx| {
        let (x, y) = (cx.input::<T>(0)?, cx.input::<T>(1)?);
        let (loss, backprop) = (cx.output::<T>(0)?, cx.output::<T>(1)?);
        for_rows(
            cx.cpu(),
            loss,
            backprop,
            #[inline(always)]
            |i, loss, backprop| {
                let classes = backprop.len();
                let (x, y) = (
                    row_of(x, x_steps, i, classes),
                    row_of(y, y_steps, i, classes),
                );
                *loss = dense_row(x, y, backprop);
            },
        );
        Ok(())
    })
}

/// Loss of a row of logits `x` and labels `y`.
#[inline(always)]
fn dense_row<T: Float>(x: LogitRow<'_, T>, y: LogitRow<'_, T>, backprop: &mut [T]) -> T {
    let zero = T::Wide::ZERO;
    let (largest, sum) = normalizer(x);
    let log = sum.ln();
    let mut losses = [zero; LANES];
    for at in (0..backprop.len()).step_by(LANES) {
        let (mut above, y) = (x.lanes(at, zero), y.lanes(at, zero));
        let (mut lanes, mut parts) = ([zero; LANES], [zero; LANES]);
        for (above, lane) in above.iter_mut().zip(&mut lanes) {
            *above = *above - largest;
            *lane = above.exp();
        }
        for i in 0..LANES {
            lanes[i] = (lanes[i] / sum).normal() - y[i];
            // A class of probability 0 contributes nothing, however unlikely the logits make it.
            let part = y[i] * (log - above[i]);
            parts[i] = if y[i] != zero { part } else { zero };
        }
        store_lanes(&mut backprop[at..], lanes);
        join_lanes(&mut losses, parts, |a, b| a + b);
    }
    T::narrow(losses.into_iter().fold(zero, |a, b| a + b))
}

fn sparse<T: Float>(p: &Prepare<'_>) -> Prepared {
    let classes = p.dims(0).last().copied().unwrap_or(0);
    Prepared::new(p.outputs[1].elements() * COST, move |cx| {
        let (x, labels) = (cx.input::<T>(0)?, cx.input::<i64>(1)?);
        let class = |label: i64| usize::try_from(label).ok().filter(|&c| c < classes);
        if let Some(element) = labels.iter().position(|&label| class(label).is_none()) {
            return Err(KernelError::Element {
                input: 1,
                element,
                reason: format!(
                    "label {} is not one of the {classes} classes of the logits: use 0 to {}",
                    labels[element],
                    classes.saturating_sub(1)
                ),
            });
        }
        let (loss, backprop) = (cx.output::<T>(0)?, cx.output::<T>(1)?);
        for_rows(
            cx.cpu(),
            loss,
            backprop,
            #[inline(always)]
            |i, loss, backprop| {
                let x = &x[i * classes..][..classes];
                let own = class(labels[i]).unwrap_or(0);
                let (largest, sum) = softmax(x, backprop);
                *loss = T::narrow(sum.ln() - (x[own].widen() - largest));
                backprop[own] = T::narrow(backprop[own].widen() - T::Wide::ONE);
            },
        );
        Ok(())
    })
}
