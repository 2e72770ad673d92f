//! SegmentSum, SegmentMean, SegmentProd, SegmentMax, SegmentMin over sorted ids; UnsortedSegmentMax,
//! UnsortedSegmentMin, UnsortedSegmentProd over ids in any order.

use smallvec::smallvec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::number::{Arithmetic, Float, Number};
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::segment_gradient::{IdOrder, extreme_gradient, product_gradient};
use super::unsorted_segment_sum::{segments, shape as unsorted_shape};
use crate::support::elementwise::{CHUNK, rounding};
use crate::support::gradient_nodes::gather_rows;
use crate::support::number_bounds::NumberBounds;
use crate::support::shape_inputs::{checked_shape, invalid_value};
use crate::support::widened::{widened_ints, with_i64_indices};

/// Number of segments of sorted ids, which are input `input`; fails if they are not sorted.
pub(super) fn count_sorted(input: usize, ids: &[i64]) -> Result<usize, InferError> {
    if let Some(i) = ids.windows(2).position(|w| w[0] > w[1]) {
        let reason = format!(
            "id {} comes after {}: ids must not fall",
            ids[i + 1],
            ids[i]
        );
        return Err(invalid_value(input, reason));
    }
    match (ids.first(), ids.last()) {
        (Some(&first), _) if first < 0 => Err(invalid_value(
            input,
            format!("{first} is no id: they begin at 0"),
        )),
        (_, Some(&last)) => usize::try_from(last)
            .ok()
            .and_then(|n| n.checked_add(1))
            .ok_or_else(|| invalid_value(input, format!("{last} is too large"))),
        _ => Ok(0),
    }
}

/// Segments of sorted ids: each id with its range of rows.
pub(super) fn runs(ids: &[i64]) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut at = 0;
    ids.chunk_by(|a, b| a == b)
        .map(|run| {
            let rows = at..at + run.len();
            at = rows.end;
            (usize::try_from(run[0]).unwrap_or(0), rows)
        })
        .collect()
}

fn sorted_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let ids = cx.ranked(1, 1)?;
    let Some(dims) = cx.shape(0).dims() else {
        return Ok(());
    };
    let Some((&rows, inner)) = dims.split_first() else {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: Shape::scalar(),
        });
    };
    if let (Some(rows), Some(n)) = (rows, ids.dim(0))
        && rows != n
    {
        return Err(invalid_value(
            1,
            format!("{} for {}", counted(n, "id"), counted(rows, "slice")),
        ));
    }
    let count = match cx.ints(1) {
        Some(ids) => Some(count_sorted(1, &ids)?),
        None => None,
    };
    let shape = checked_shape(
        1,
        Shape::partial([count].into_iter().chain(inner.iter().copied())),
    )?;
    cx.set(0, shape);
    Ok(())
}

/// Reduces the rows of each segment of sorted ids; `none` for an empty segment.
fn sorted<T: Arithmetic>(
    p: &Prepare<'_>,
    dtype: DType,
    none: T,
    join: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
    finish: impl Fn(T, usize, DType) -> T + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    let (runs, (count, inner)) = (runs(&p.ints(1)?), segments(p)?);
    if runs.iter().any(|(segment, _)| *segment >= count) {
        return Err(KernelError::Argument("segments"));
    }
    Ok(Prepared::new(p.inputs[0].elements() * 2, move |cx| {
        let (data, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        if inner == 0 || count == 0 {
            return Ok(());
        }
        let isa = cx.cpu().isa();
        // Whole segments in a task, with about as many elements of the data as a chunk has.
        let each = (CHUNK * count / data.len().max(1)).clamp(1, count);
        for_chunks(cx.pool(), out, each * inner, &|task, out| {
            out.fill(none);
            let (from, to) = (task * each, (task + 1) * each);
            let start = runs.partition_point(|(segment, _)| *segment < from);
            for (segment, rows) in runs[start..].iter().take_while(|(s, _)| *s < to) {
                let out = &mut out[(segment - from) * inner..][..inner];
                let data = &data[rows.start * inner..rows.end * inner];
                isa.run_over::<T, _>(JoinRows { data, out, join });
                out.iter_mut()
                    .for_each(|out| *out = finish(*out, rows.len(), dtype));
            }
        });
        Ok(())
    }))
}

/// Joins a row to another one.
struct JoinRow<'a, T, F> {
    data: &'a [T],
    out: &'a mut [T],
    join: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Vectorize for JoinRow<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (out, &x) in self.out.iter_mut().zip(self.data) {
            *out = (self.join)(*out, x);
        }
    }
}

/// Joins rows of the length of `out`, the first of which is the start.
struct JoinRows<'a, T, F> {
    data: &'a [T],
    out: &'a mut [T],
    join: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Vectorize for JoinRows<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let (first, rest) = self.data.split_at(self.out.len());
        self.out.copy_from_slice(first);
        for row in rest.chunks_exact(self.out.len()) {
            let row = JoinRow {
                data: row,
                out: &mut *self.out,
                join: &self.join,
            };
            row.run();
        }
    }
}

const SORTED: OpDef = OpDef {
    inputs: &[arg("data", "T"), arg("segment_ids", "Tindices").host()],
    outputs: OUTPUT,
    attrs: &[type_attr("T", DType::NUMBERS), INDICES],
    shape: sorted_shape,
    ..OpDef::EMPTY
};

const SORTED_ALL_NUMBERS: OpDef = OpDef {
    attrs: &[type_attr("T", DType::ALL_NUMBERS), INDICES],
    ..SORTED
};

const OUTPUT: &[Arg] = &[arg("output", "T")];
const INDICES: AttrDef = type_attr("Tindices", DType::INDICES);

/// A type in which integers of narrower dtypes are computed.
trait StoredInt: Arithmetic {
    /// The value after it is narrowed to `dtype` and widened again.
    fn stored_as(self, dtype: DType) -> Self;
}

macro_rules! stored {
    ($($t:ty, |$x:ident, $dtype:ident| $stored:expr;)*) => {$(impl StoredInt for $t {
        fn stored_as(self, $dtype: DType) -> $t {
            let $x = self;
            $stored
        }
    })*};
}

stored! {
    half::f16, |x, _dtype| x;
    half::bf16, |x, _dtype| x;
    f32, |x, _dtype| x;
    f64, |x, _dtype| x;
    Complex<f64>, |x, _dtype| x;
    i32, |x, _dtype| x;
    i64, |x, dtype| rounding(dtype)(x);
    u64, |x, dtype| rounding(dtype)(x);
}

/// Kernel of a reduction over sorted ids.
macro_rules! sorted_kernel {
    ($list:tt, $none:expr, $join:expr) => {
        sorted_kernel!($list, $none, $join, |x, _, _| x)
    };
    ($list:tt, $none:expr, $join:expr, $finish:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
            let dtype = p.dtype(0);
            if dtype == DType::I32 {
                type T = i32;
                return sorted::<T>(p, dtype, $none, $join, $finish);
            }
            widened_ints(p, &[0], &[0], &|p| {
            dispatch!(p.dtype(0), $list, T => sorted::<T>(p, dtype, $none, $join, $finish), else
                    Err(KernelError::DType(p.dtype(0))))
            })
        })];
        KERNELS
    }};
}

/// Sums over sorted ids.
pub(crate) static SEGMENT_SUM: Op = Op {
    def: OpDef {
        name: "SegmentSum",
        summary: "For each segment the sum of the slices with its id; ids are sorted.",
        gradient: Gradient::Rule(|g| smallvec![Some(gather_rows(g.grad(), g.input(1)))]),
        ..SORTED_ALL_NUMBERS
    },
    kernels: sorted_kernel!([F16 BF16 F32 F64 I64 U64 C128], T::ZERO, T::add),
};

/// Means over sorted ids.
pub(crate) static SEGMENT_MEAN: Op = Op {
    def: OpDef {
        name: "SegmentMean",
        summary: "For each segment the mean of the slices with its id; ids are sorted.",
        gradient: Gradient::Rule(|g| {
            // Each slice gets its share: the gradient divided by the number of slices.
            let ids = g.input(1);
            let ones = g.graph().op("OnesLike").input(g.input(0)).output();
            let node = g.graph().op("SegmentSum").input(ones).input(ids);
            smallvec![Some(gather_rows(g.grad() / node.output(), ids))]
        }),
        ..SORTED_ALL_NUMBERS
    },
    kernels: sorted_kernel!([F16 BF16 F32 F64 I64 U64 C128], T::ZERO, T::add, |x, n, dtype| x
        .stored_as(dtype)
        .divided(n)),
};

/// Products over sorted ids.
pub(crate) static SEGMENT_PROD: Op = Op {
    def: OpDef {
        name: "SegmentProd",
        summary: "For each segment the product of the slices with its id; ids are sorted.",
        gradient: Gradient::Rule(|g| product_gradient(g, &IdOrder::Sorted)),
        ..SORTED_ALL_NUMBERS
    },
    kernels: sorted_kernel!([F16 BF16 F32 F64 I64 U64 C128], T::ONE, T::mul),
};

/// Maxima over sorted ids.
pub(crate) static SEGMENT_MAX: Op = Op {
    def: OpDef {
        name: "SegmentMax",
        summary: "For each segment the largest elements of the slices with its id; ids are sorted.",
        gradient: Gradient::Rule(|g| extreme_gradient(g, &IdOrder::Sorted)),
        ..SORTED
    },
    kernels: sorted_kernel!([F16 BF16 F32 F64 I64 U64], T::ZERO, larger),
};

/// Minima over sorted ids.
pub(crate) static SEGMENT_MIN: Op = Op {
    def: OpDef {
        name: "SegmentMin",
        summary: "For each segment the smallest elements of the slices with its id; ids are sorted.",
        gradient: Gradient::Rule(|g| extreme_gradient(g, &IdOrder::Sorted)),
        ..SORTED
    },
    kernels: sorted_kernel!([F16 BF16 F32 F64 I64 U64], T::ZERO, smaller),
};

/// The larger of what is there and the next number. A NaN takes the place of a number, and the next number its place, as
/// in TensorFlow's `UnsortedSegmentMax`.
fn larger<T: Number>(there: T, next: T) -> T {
    if next < there { there } else { next }
}

/// The smaller one; for NaN see [`larger`].
fn smaller<T: Number>(there: T, next: T) -> T {
    if next > there { there } else { next }
}

const UNSORTED: OpDef = OpDef {
    inputs: &[
        arg("data", "T"),
        arg("segment_ids", "Tindices"),
        arg("num_segments", "Tnumsegments").host(),
    ],
    outputs: OUTPUT,
    attrs: &[
        type_attr("T", DType::NUMBERS),
        INDICES,
        type_attr_or("Tnumsegments", DType::INDICES, DType::I32),
    ],
    shape: unsorted_shape,
    ..OpDef::EMPTY
};

/// Reduces the slices of each id, from `start`.
fn unsorted<T: Arithmetic>(
    p: &Prepare<'_>,
    start: T,
    join: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(1) {
        DType::I32 => unsorted_by::<T, i32>(p, start, join),
        DType::I64 => unsorted_by::<T, i64>(p, start, join),
        other => Err(KernelError::DType(other)),
    }
}

fn unsorted_by<T: Arithmetic, I: Element + Into<i64>>(
    p: &Prepare<'_>,
    start: T,
    join: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    let (count, inner) = segments(p)?;
    Ok(Prepared::new(p.inputs[0].elements() * 2, move |cx| {
        let (data, ids, out) = (cx.input::<T>(0)?, cx.input::<I>(1)?, cx.output::<T>(0)?);
        out.fill(start);
        let isa = cx.cpu().isa();
        for (row, &id) in ids.iter().enumerate() {
            // A slice with a negative id is dropped.
            let Ok(segment) = usize::try_from(id.into()) else {
                continue;
            };
            if segment >= count {
                return Err(KernelError::Element {
                    input: 1,
                    element: row,
                    reason: format!("segment {segment} is not below {count}"),
                });
            }
            let data = &data[row * inner..][..inner];
            let out = &mut out[segment * inner..][..inner];
            isa.run_over::<T, _>(JoinRow { data, out, join });
        }
        Ok(())
    }))
}

/// The lowest and the highest number of a dtype. A number that an `f64` cannot hold is rounded up, and saturates to
/// the highest when it is converted back.
fn bounds(dtype: DType) -> (f64, f64) {
    dispatch!(dtype, NUMBERS, T => (T::LOWEST.to_f64(), T::HIGHEST.to_f64()), else (0.0, 0.0))
}

/// Kernel of a reduction over ids in any order.
macro_rules! unsorted_kernel {
    ($list:tt, |$least:ident, $most:ident| $start:expr, $join:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
            let ($least, $most) = bounds(p.dtype(0));
            if p.dtype(0) == DType::I32 {
                type T = i32;
                return with_i64_indices(p, &[1], &|p| unsorted::<T>(p, $start, $join));
            }
            widened_ints(p, &[0], &[0], &|p| {
                with_i64_indices(p, &[1], &|p| {
                dispatch!(p.dtype(0), $list, T => unsorted::<T>(p, $start, $join), else
                        Err(KernelError::DType(p.dtype(0))))
                })
            })
        })];
        KERNELS
    }};
}

/// Maximum of each segment.
pub(crate) static UNSORTED_SEGMENT_MAX: Op = Op {
    def: OpDef {
        name: "UnsortedSegmentMax",
        summary: "For each segment the largest elements of the slices with its id, the lowest number where there is none; slices with a negative id are left out.",
        gradient: Gradient::Rule(|g| extreme_gradient(g, &IdOrder::Unsorted)),
        ..UNSORTED
    },
    kernels: unsorted_kernel!([F16 BF16 F32 F64 I64 U64], |least, _most| T::from_f64(least), larger),
};

/// Minimum of each segment.
pub(crate) static UNSORTED_SEGMENT_MIN: Op = Op {
    def: OpDef {
        name: "UnsortedSegmentMin",
        summary: "For each segment the smallest elements of the slices with its id, the highest number where there is none; slices with a negative id are left out.",
        gradient: Gradient::Rule(|g| extreme_gradient(g, &IdOrder::Unsorted)),
        ..UNSORTED
    },
    kernels: unsorted_kernel!([F16 BF16 F32 F64 I64 U64], |_least, most| T::from_f64(most), smaller),
};

/// Product of each segment.
pub(crate) static UNSORTED_SEGMENT_PROD: Op = Op {
    def: OpDef {
        name: "UnsortedSegmentProd",
        summary: "For each segment the product of the slices with its id; slices with a negative id are left out.",
        gradient: Gradient::Rule(|g| product_gradient(g, &IdOrder::Unsorted)),
        attrs: &[
            type_attr("T", DType::ALL_NUMBERS),
            INDICES,
            type_attr_or("Tnumsegments", DType::INDICES, DType::I32),
        ],
        ..UNSORTED
    },
    kernels: unsorted_kernel!([F16 BF16 F32 F64 I64 U64 C128], |_least, _most| T::ONE, T::mul),
};

/// Scale of a sparse segment's sum: none, by the number of slices, or by its square root.
#[derive(Clone, Copy)]
pub(super) enum SegmentScale {
    Sum,
    Mean,
    SqrtN,
}

impl SegmentScale {
    /// Factor of the sum of `n` slices.
    pub(super) fn of<T: Float>(self, n: usize) -> T::Wide {
        T::Wide::from_f64(match self {
            SegmentScale::Sum => 1.0,
            SegmentScale::Mean => 1.0 / n as f64,
            SegmentScale::SqrtN => 1.0 / (n as f64).sqrt(),
        })
    }
}
