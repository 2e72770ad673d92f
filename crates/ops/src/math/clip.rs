//! Select (TensorFlow 1), ClipByValue.

use smallvec::smallvec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use crate::support::elementwise::CHUNK;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::widened::{as_uints, widened};
use thalweg_cpu::number::Number;

fn select_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let values = cx.same(1, 2)?;
    let condition = cx.shape(0);
    let Some(rank) = condition.rank() else {
        cx.set(0, values);
        return Ok(());
    };
    let all = match (rank, values.rank()) {
        (0, _) => values,
        (1, Some(n)) if n != 1 => {
            let first = Shape::partial(values.dims().unwrap_or_default().iter().copied().take(1));
            first.merge(condition).ok_or_else(|| InferError::Mismatch {
                what: "a condition that is a vector must have an element for each slice of t".to_owned(),
                left: condition.clone(),
                right: values.clone(),
            })?;
            values
        }
        // A vector selects slices of a tensor of unknown rank.
        (1, None) => values,
        _ => values.merge(condition).ok_or_else(|| InferError::Mismatch {
            what: "the condition must be a scalar, a vector or of the shape of t: use SelectV2 to broadcast it".to_owned(),
            left: condition.clone(),
            right: values.clone(),
        })?,
    };
    cx.set(0, all);
    Ok(())
}

/// `condition ? t : e`; a condition may select whole slices.
pub(crate) static SELECT_V1: Op = Op {
    def: OpDef {
        name: "Select",
        summary: "t where the condition is true, otherwise e: element by element, slice by slice or whole.",
        inputs: &[
            arg_of("condition", DType::Bool),
            arg("t", "T"),
            arg("e", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: select_shape,
        gradient: Gradient::Rule(|g| {
            let (graph, condition, dz) = (g.graph(), g.input(0), g.grad());
            let zeros = graph.op("ZerosLike").input(dz).output();
            let choose = |t, e| {
                let node = graph.op("Select").input(condition).input(t).input(e);
                Some(node.output())
            };
            smallvec![None, choose(dz, zeros), choose(zeros, dz)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(SELECT_V1, "T"),
        cpu(|p| {
            as_uints(
                p,
                &[1, 2],
                &[0],
                &|p| dispatch!(p.dtype(1), SIZES, T => Ok(select::<T>(p)), else Err(KernelError::DType(p.dtype(1)))),
            )
        }),
        gpu(crate::gpu::select_slices),
    ],
};

fn select<T: Element>(p: &Prepare<'_>) -> Prepared {
    // Number of elements that each bool decides on.
    let n = p.outputs[0].elements();
    let each = n / p.inputs[0].elements().max(1);
    Prepared::new(n * 2, move |cx| {
        let (c, t, e) = (cx.input::<bool>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?);
        for_chunks(cx.pool(), cx.output::<T>(0)?, CHUNK, &|task, part| {
            let (at, end) = (task * CHUNK, task * CHUNK + part.len());
            if each == 1 {
                let values = c[at..end].iter().zip(t[at..end].iter().zip(&e[at..end]));
                for (out, (&c, (&t, &e))) in part.iter_mut().zip(values) {
                    *out = if c { t } else { e };
                }
                return;
            }
            // The elements that one bool decides on lie side by side.
            let mut from = at;
            while from < end {
                let decides = from / each;
                let to = end.min((decides + 1) * each);
                let chosen = if c[decides] { t } else { e };
                part[from - at..to - at].copy_from_slice(&chosen[from..to]);
                from = to;
            }
        });
        Ok(())
    })
}

/// `value` where `when` is true, zeros elsewhere.
fn where_true<'g>(g: &GradCx<'_, 'g>, when: Output<'g>, value: Output<'g>) -> Output<'g> {
    let zeros = g.graph().op("ZerosLike").input(value).output();
    let node = g.graph().op("SelectV2").input(when).input(value);
    node.input(zeros).output()
}

/// Sums `value`, of the shape of t, to the shape of a limit.
fn to_limit<'g>(value: Output<'g>, limit: Output<'g>, t: Output<'g>) -> Output<'g> {
    super::broadcast::sum_to(value, limit, t)
}

/// Values clipped to the range between two limits.
pub(crate) static CLIP_BY_VALUE: Op = Op {
    def: OpDef {
        name: "ClipByValue",
        summary: "Each element, clipped to the range between a lower and an upper limit.",
        inputs: &[
            arg("t", "T"),
            arg("clip_value_min", "T"),
            arg("clip_value_max", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::NUMBERS)],
        shape: |cx| {
            let mut shape = cx.shape(0).clone();
            for i in 1..3 {
                let limit = cx.shape(i);
                if limit.rank() == Some(0) || limit.rank().is_none() {
                    continue;
                }
                shape = shape.merge(limit).ok_or_else(|| InferError::Mismatch {
                    what: format!("input {i} must be a scalar or of the shape of t"),
                    left: limit.clone(),
                    right: shape.clone(),
                })?;
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (graph, t, low, high, dz) =
                (g.graph(), g.input(0), g.input(1), g.input(2), g.grad());
            let compare = |op: &str, a, b| graph.op(op).input(a).input(b).output();
            let (below, above) = (compare("Less", t, low), compare("Greater", t, high));
            let inside = compare("LogicalOr", below, above);
            let inside = graph.op("LogicalNot").input(inside).output();
            smallvec![
                Some(where_true(g, inside, dz)),
                Some(to_limit(where_true(g, below, dz), low, t)),
                Some(to_limit(where_true(g, above, dz), high, t))
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            widened(
                p,
                &[0, 1, 2],
                &[0],
                &|p| dispatch!(p.dtype(0), [F32 F64 I64 U64], T => Ok(clip::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
            )
        }),
        gpu(crate::gpu::clip),
    ],
};

/// Elements between limits: one limit for all of them, or one each.
struct Clip<'a, T> {
    t: &'a [T],
    low: &'a [T],
    high: &'a [T],
    out: &'a mut [T],
}

impl<T: Number> Vectorize for Clip<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let clipped = |x: T, low: T, high: T| {
            let x = if x > high { high } else { x };
            if x < low { low } else { x }
        };
        if let (&[low], &[high]) = (self.low, self.high) {
            let items = self.out.iter_mut().zip(self.t);
            return items.for_each(|(out, &x)| *out = clipped(x, low, high));
        }
        let limit = |limits: &[T], i: usize| limits[if limits.len() == 1 { 0 } else { i }];
        for (i, (out, &x)) in self.out.iter_mut().zip(self.t).enumerate() {
            *out = clipped(x, limit(self.low, i), limit(self.high, i));
        }
    }
}

fn clip<T: Number>(p: &Prepare<'_>) -> Prepared {
    let n = p.outputs[0].elements();
    let (low_each, high_each) = (!p.dims(1).is_empty(), !p.dims(2).is_empty());
    Prepared::new(n, move |cx| {
        let (t, low, high) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?);
        let isa = cx.cpu().isa();
        for_chunks(cx.pool(), cx.output::<T>(0)?, CHUNK, &|task, out| {
            let part = task * CHUNK..task * CHUNK + out.len();
            let limits = |each: bool| if each { part.clone() } else { 0..1 };
            isa.run_over::<T, _>(Clip {
                t: &t[part.clone()],
                low: &low[limits(low_each)],
                high: &high[limits(high_each)],
                out,
            });
        });
        Ok(())
    })
}
