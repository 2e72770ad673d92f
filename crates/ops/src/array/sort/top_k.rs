//! TopK, TopKV2, InTopK, InTopKV2.

use std::cmp::Ordering;

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::{Disjoint, for_chunks};
use thalweg_cpu::{Isa, Vectorize};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{
    Allowed, AttrDef, Gradient, InputGradients, arg, arg_of, attr, bool_attr, type_attr,
    type_attr_or,
};
use thalweg_graph::{AttrKind, GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use crate::support::elementwise::CHUNK;
use crate::support::gradient_nodes::{int_scalar, int_vector, shape_of};
use crate::support::shape_inputs::{invalid_value, scalar_int};
use crate::support::widened::widened;

fn shape(cx: &mut Infer<'_>, k: Option<i64>) -> Result<(), InferError> {
    let Some(dims) = cx.shape(0).dims() else {
        return Ok(());
    };
    let Some((&last, rows)) = dims.split_last() else {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: Shape::scalar(),
        });
    };
    let k = match k {
        None => None,
        Some(k) => match usize::try_from(k) {
            Ok(k) if last.is_none_or(|d| k <= d) => Some(k),
            _ => {
                let most = last.map_or("the length of a row".to_owned(), |d| d.to_string());
                return Err(invalid_value(1, format!("k is {k}: use 0..={most}")));
            }
        },
    };
    let shape = Shape::partial(rows.iter().copied().chain([k]));
    cx.set(0, shape.clone());
    cx.set(1, shape);
    Ok(())
}

/// Descending order; equal elements keep their order, and NaN comes last.
fn order<T: Number>(row: &[T], a: u32, b: u32) -> Ordering {
    let (x, y) = (row[a as usize], row[b as usize]);
    #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
    let nan = |x: T| x != x;
    let by_value = y.partial_cmp(&x).unwrap_or(nan(x).cmp(&nan(y)));
    by_value.then(a.cmp(&b))
}

/// Writes the places of the `k` largest elements to the start of `places`, which is as long as the row.
fn sort_largest<T: Number>(x: &[T], places: &mut [u32], k: usize) {
    for (i, place) in places.iter_mut().enumerate() {
        *place = i as u32;
    }
    if k < places.len() {
        places.select_nth_unstable_by(k - 1, |&a, &b| order(x, a, b));
    }
    places[..k].sort_unstable_by(|&a, &b| order(x, a, b));
}

/// The most elements that [`keep_largest`] keeps in order.
const MAX_KEPT: usize = 64;
/// Elements that are compared with the least kept one before any is looked at.
const REJECTED_BLOCK: usize = 256;

/// As [`sort_largest`], for few places of a long row: most blocks of a row have no element above the least kept one.
fn keep_largest<T: Number>(isa: Isa, x: &[T], places: &mut [u32]) {
    let k = places.len();
    sort_largest(&x[..k], places, k);
    for (number, block) in x.chunks(REJECTED_BLOCK).enumerate() {
        let least = x[places[k - 1] as usize];
        if !isa.run_over::<T, _>(AnyAbove(block, least)) {
            continue;
        }
        let start = (number * REJECTED_BLOCK).max(k);
        for i in start..number * REJECTED_BLOCK + block.len() {
            let i = i as u32;
            if order(x, i, places[k - 1]).is_lt() {
                let at = places.partition_point(|&place| order(x, place, i).is_lt());
                places[at..].rotate_right(1);
                places[at] = i;
            }
        }
    }
}

/// `true` if a number may come before another one: it is above it, or either is NaN.
struct AnyAbove<'a, T>(&'a [T], T);

impl<T: Number> Vectorize for AnyAbove<'_, T> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let least = self.1;
        self.0.iter().fold(false, |any, &x| {
            let stays_behind = x <= least;
            any | !stays_behind
        })
    }
}

/// Kernel for elements `T` and indices `I`.
fn top<T: Number, I: Element>(
    p: &Prepare<'_>,
    index: fn(u32) -> I,
) -> Result<Prepared, KernelError> {
    let columns = p.dims(0).last().copied().unwrap_or(0);
    let k = p.output_dims(0).last().copied().unwrap_or(0);
    let n = p.inputs[0].elements();
    if u32::try_from(columns).is_err() {
        return Err(KernelError::Invalid(format!(
            "rows of {columns} elements are too long"
        )));
    }
    if n == 0 || k == 0 {
        return Ok(crate::support::trivial_kernels::nothing());
    }
    let rows = n / columns;
    let prepared = Prepared::new(n * 32, move |cx| {
        let x = cx.input::<T>(0)?;
        let (values, indices) = (cx.output::<T>(0)?, cx.output::<I>(1)?);
        let (values, indices) = (Disjoint::new(values), Disjoint::new(indices));
        let scratch = Disjoint::new(cx.scratch::<u32>(n)?);
        let (each, isa) = ((CHUNK / columns).max(1), cx.cpu().isa());
        cx.pool().parallel_for(rows.div_ceil(each), &|task| {
            for row in task * each..rows.min((task + 1) * each) {
                let x = &x[row * columns..][..columns];
                // SAFETY: each row belongs to one task.
                let (places, values, indices) = unsafe {
                    (
                        scratch.slice(row * columns, columns),
                        values.slice(row * k, k),
                        indices.slice(row * k, k),
                    )
                };
                if k <= MAX_KEPT && k < columns / 8 {
                    keep_largest(isa, x, &mut places[..k]);
                } else {
                    sort_largest(x, places, k);
                }
                let places = &mut places[..k];
                let found = values.iter_mut().zip(indices).zip(places);
                for ((value, at), &mut place) in found {
                    *value = x[place as usize];
                    *at = index(place);
                }
            }
        });
        Ok(())
    });
    Ok(prepared.with_scratch(n.saturating_mul(4)))
}

const KERNELS: &[Kernel] = &[
    cpu(|p| {
        let to = p.outputs.get(1).map_or(DType::I32, |o| o.dtype);
        widened(p, &[0], &[0], &|p| {
            dispatch!(p.dtype(0), [F32 F64 I64 U64], T => match to {
        DType::I32 => top::<T, i32>(p, |i| i as i32),
        DType::I64 => top::<T, i64>(p, i64::from),
        DType::I16 => top::<T, i16>(p, |i| i as i16),
        other => Err(KernelError::DType(other)),
    }, else Err(KernelError::DType(p.dtype(0))))
        })
    }),
    gpu(|p| Ok(crate::gpu::top_k(p))),
];

/// Scatters the gradient of each value to its source.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, indices, dy) = (g.graph(), g.input(0), g.output(1), g.grad());
    let dtype = DType::I64;
    let indices = graph.op("Cast").input(indices).attr("DstT", dtype).output();
    let last = |of| {
        let at = |v: i64| int_vector(graph, DType::I32, &[v]);
        let node = graph.op("StridedSlice").input(shape_of(of, dtype));
        let node = node
            .input(at(-1))
            .input(at(i64::from(i32::MAX)))
            .input(at(1));
        node.output()
    };
    let reshape = |x, to| graph.op("Reshape").input(x).input(to).output();
    let flat = int_vector(graph, dtype, &[-1]);
    let zero = int_scalar(graph, DType::I32, 0);
    // Indices into all rows together, in rows of `k`.
    let to = graph
        .op("ConcatV2")
        .input(flat)
        .input(last(indices))
        .input(zero);
    let rows = reshape(indices, to.output());
    let size = graph.op("Size").input(x).attr("out_type", dtype).output();
    let columns = reshape(
        last(x),
        graph
            .op("Const")
            .attr("value", thalweg_tensor::Tensor::vector::<i32>(&[]))
            .attr("dtype", DType::I32)
            .output(),
    );
    let starts = graph.op("Range").input(int_scalar(graph, dtype, 0));
    let starts = starts.input(size).input(columns).output();
    let starts = reshape(starts, int_vector(graph, dtype, &[-1, 1]));
    let all = reshape(rows + starts, flat);
    let node = graph.op("UnsortedSegmentSum").input(reshape(dy, flat));
    let dx = node.input(all).input(size).output();
    smallvec![Some(reshape(dx, shape_of(x, dtype)))]
}

/// The largest elements of each row; `k` is an attribute.
pub(crate) static TOP_K: Op = Op {
    def: OpDef {
        name: "TopK",
        summary: "The k largest elements of each row, from the largest on, and their indices.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("values", "T"), arg_of("indices", DType::I32)],
        attrs: &[
            AttrDef {
                allowed: Allowed::AtLeast(0),
                ..attr("k", AttrKind::Int)
            },
            bool_attr("sorted", true),
            type_attr("T", DType::NUMBERS),
        ],
        shape: |cx| {
            let k = cx.attrs().int("k");
            shape(cx, Some(k))
        },
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};

const COUNTS: &[DType] = &[DType::I16, DType::I32, DType::I64];

/// The largest elements of each row; `k` is an input.
pub(crate) static TOP_K_V2: Op = Op {
    def: OpDef {
        name: "TopKV2",
        summary: "The k largest elements of each row, from the largest on, and their indices.",
        inputs: &[arg("input", "T"), arg("k", "Tk").host()],
        outputs: &[arg("values", "T"), arg("indices", "index_type")],
        attrs: &[
            bool_attr("sorted", true),
            type_attr("T", DType::NUMBERS),
            type_attr_or("Tk", COUNTS, DType::I32),
            type_attr_or("index_type", COUNTS, DType::I32),
        ],
        shape: |cx| {
            let k = scalar_int(cx, 1)?;
            shape(cx, k)
        },
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};

fn in_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let rows = cx.ranked(0, 2)?.dim(0);
    let targets = cx.ranked(1, 1)?;
    let shape = targets.merge(&Shape::partial([rows]));
    let shape = shape.ok_or_else(|| InferError::Mismatch {
        what: "there must be a target for each row of predictions".to_owned(),
        left: cx.shape(0).clone(),
        right: targets,
    })?;
    if cx.inputs() > 2 {
        cx.ranked(2, 0)?;
    }
    cx.set(0, shape);
    Ok(())
}

/// `k`: input 2, or an attribute.
fn top_of(p: &Prepare<'_>) -> Result<i64, KernelError> {
    match p.inputs.len() > 2 {
        true => Ok(p.ints(2)?.first().copied().unwrap_or(0)),
        false => Ok(p.node.attrs.int("k")),
    }
}

fn in_top(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match p.dtype(1) {
        DType::I32 => in_top_by::<i32>(p),
        DType::I64 => in_top_by::<i64>(p),
        other => Err(KernelError::DType(other)),
    }
}

fn in_top_by<I: Element + Into<i64>>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let columns = p.dims(0).last().copied().unwrap_or(0);
    let k = top_of(p)?;
    Ok(Prepared::new(p.inputs[0].elements() * 2, move |cx| {
        let (x, targets) = (cx.input::<f32>(0)?, cx.input::<I>(1)?);
        let (out, isa) = (cx.output::<bool>(0)?, cx.cpu().isa());
        let rows = (CHUNK / columns.max(1)).max(1);
        for_chunks(cx.pool(), out, rows, &|task, out| {
            for (i, out) in out.iter_mut().enumerate() {
                let number = task * rows + i;
                let row = &x[number * columns..][..columns];
                let target: i64 = targets[number].into();
                let target = usize::try_from(target).ok().and_then(|t| row.get(t));
                *out = target.is_some_and(|&target| is_in_top(isa, row, target, k));
            }
        });
        Ok(())
    }))
}

/// Numbers that are compared before the search may stop.
const IN_TOP_BLOCK: usize = 512;

/// `true` if fewer than `k` numbers of a row are above one of them. With infinities or NaN in the row, it is `false`.
fn is_in_top(isa: Isa, row: &[f32], target: f32, k: i64) -> bool {
    let mut above = 0;
    for block in row.chunks(IN_TOP_BLOCK) {
        let (finite, count) = isa.run(CountAbove(block, target));
        above += count as i64;
        if !finite || above >= k {
            return false;
        }
    }
    above < k
}

/// `true` if all numbers are finite, and the number of those above one.
struct CountAbove<'a>(&'a [f32], f32);

impl Vectorize for CountAbove<'_> {
    type Out = (bool, u32);
    #[inline(always)]
    fn run(self) -> (bool, u32) {
        self.0.iter().fold((true, 0), |(finite, above), &x| {
            (finite & x.is_finite(), above + u32::from(x > self.1))
        })
    }
}

/// `true` for each target that is among the top `k`; `k` is an attribute.
pub(crate) static IN_TOP_K: Op = Op {
    def: OpDef {
        name: "InTopK",
        summary: "For each row whether the target is among its k largest elements.",
        inputs: &[arg_of("predictions", DType::F32), arg("targets", "T")],
        outputs: &[arg_of("precision", DType::Bool)],
        attrs: &[
            attr("k", AttrKind::Int),
            type_attr_or("T", DType::INDICES, DType::I32),
        ],
        shape: in_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(in_top),
        gpu(|p| Ok(crate::gpu::in_top_k(p, top_of(p)?))),
    ],
};

/// `true` for each target that is among the top `k`; `k` is an input.
pub(crate) static IN_TOP_K_V2: Op = Op {
    def: OpDef {
        name: "InTopKV2",
        summary: "For each row whether the target is among its k largest elements.",
        inputs: &[
            arg_of("predictions", DType::F32),
            arg("targets", "T"),
            arg("k", "T").host(),
        ],
        outputs: &[arg_of("precision", DType::Bool)],
        attrs: &[type_attr_or("T", DType::INDICES, DType::I32)],
        shape: in_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(in_top),
        gpu(|p| Ok(crate::gpu::in_top_k(p, top_of(p)?))),
    ],
};
