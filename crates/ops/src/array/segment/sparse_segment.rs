//! SparseSegmentSum, SparseSegmentMean, SparseSegmentSqrtN, with their gradients and variants with a number of
//! segments: gathered slices, reduced by sorted ids (lookups of several embeddings at a time).

use smallvec::smallvec;
use thalweg_cpu::number::{Float, Number};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, InputGradients, arg, arg_of, bool_attr, type_attr, type_attr_or,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::segment_reductions::{SegmentScale, count_sorted, runs};
use crate::support::gradient_nodes::first_size;
use crate::support::shape_inputs::{checked_shape, invalid_value, kernel_error, scalar_int};
use crate::support::widened::{widened_ints, with_i64_indices};

const INDEX: AttrDef = type_attr_or("Tidx", DType::INDICES, DType::I32);
const ID: AttrDef = type_attr_or("Tsegmentids", DType::INDICES, DType::I32);
const COUNT: AttrDef = type_attr_or("Tnumsegments", DType::INDICES, DType::I32);
const SPARSE: AttrDef = bool_attr("sparse_gradient", false);
const NUMBERS: AttrDef = type_attr("T", DType::NUMBERS);
const FLOATS: AttrDef = type_attr("T", DType::FLOATS);
const OUTPUT: &[Arg] = &[arg("output", "T")];

const INPUTS: &[Arg] = &[
    arg("data", "T"),
    arg("indices", "Tidx"),
    arg("segment_ids", "Tsegmentids").host(),
];
const COUNTED: &[Arg] = &[
    arg("data", "T"),
    arg("indices", "Tidx"),
    arg("segment_ids", "Tsegmentids").host(),
    arg("num_segments", "Tnumsegments").host(),
];
const GRAD: &[Arg] = &[
    arg("grad", "T"),
    arg("indices", "Tidx"),
    arg("segment_ids", "Tsegmentids").host(),
    arg_of("output_dim0", DType::I32).host(),
];

/// Dimensions of a slice of input 0, if its rank is known; indices and ids must be vectors of one length.
fn slice<'a>(cx: &Infer<'a>) -> Result<Option<&'a [Option<usize>]>, InferError> {
    cx.ranked(1, 1)?;
    cx.ranked(2, 1)?;
    cx.same(1, 2)?;
    match cx.shape(0).dims() {
        Some([]) => Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: Shape::scalar(),
        }),
        Some([_, inner @ ..]) => Ok(Some(inner)),
        None => Ok(None),
    }
}

/// A number of slices, from input `input`.
fn count(cx: &Infer<'_>, input: usize) -> Result<Option<usize>, InferError> {
    let Some(n) = scalar_int(cx, input)? else {
        return Ok(None);
    };
    let n = usize::try_from(n)
        .map_err(|_| invalid_value(input, format!("{n} slices: use at least 0")))?;
    Ok(Some(n))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let inner = slice(cx)?;
    let mut rows = match cx.ints(2) {
        Some(ids) => Some(count_sorted(2, &ids)?),
        None => None,
    };
    if cx.inputs() > 3 {
        let given = count(cx, 3)?;
        if let (Some(rows), Some(given)) = (rows, given)
            && rows > given
        {
            return Err(invalid_value(
                2,
                format!("id {} is not below {given}", rows - 1),
            ));
        }
        rows = given;
    }
    if let Some(inner) = inner {
        let all = [rows].into_iter().chain(inner.iter().copied());
        let shape = checked_shape(2, Shape::partial(all))?;
        cx.set(0, shape);
    }
    Ok(())
}

fn grad_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let inner = slice(cx)?;
    if let Some(ids) = cx.ints(2) {
        let segments = count_sorted(2, &ids)?;
        if cx.shape(0).dim(0).is_some_and(|d| segments > d) {
            return Err(invalid_value(
                2,
                format!("id {} is of no slice of {}", segments - 1, cx.shape(0)),
            ));
        }
    }
    let rows = count(cx, 3)?;
    if let Some(inner) = inner {
        let all = [rows].into_iter().chain(inner.iter().copied());
        let shape = checked_shape(3, Shape::partial(all))?;
        cx.set(0, shape);
    }
    Ok(())
}

/// Number of elements of a slice.
fn inner(p: &Prepare<'_>) -> usize {
    thalweg_tensor::shape::elements(p.output_dims(0).get(1..).unwrap_or_default())
}

/// Slice number that element `element` of the indices, input 1, selects; it must be below `rows`.
fn row(indices: &[i64], element: usize, rows: usize) -> Result<usize, KernelError> {
    let index = indices[element];
    let found = usize::try_from(index).ok().filter(|&i| i < rows);
    found.ok_or_else(|| KernelError::Element {
        input: 1,
        element,
        reason: format!("index {index} is not within 0..{rows}"),
    })
}

/// Kernel that sums the slices of each segment, and applies `finish` to a sum with their number.
fn forward<T: Number>(
    p: &Prepare<'_>,
    finish: impl Fn(&mut [T], usize) + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    let ids = p.ints(2)?;
    let segments = count_sorted(2, &ids).map_err(kernel_error)?;
    if p.output_dims(0).first().is_none_or(|&d| segments > d) {
        return Err(KernelError::Argument("segments"));
    }
    let (runs, inner, rows) = (
        runs(&ids),
        inner(p),
        p.dims(0).first().copied().unwrap_or(0),
    );
    let work = ids.len().saturating_mul(inner);
    Ok(Prepared::new(work * 2, move |cx| {
        let (data, indices, out) = (cx.input::<T>(0)?, cx.input::<i64>(1)?, cx.output::<T>(0)?);
        out.fill(T::ZERO);
        for (segment, elements) in &runs {
            let out = &mut out[segment * inner..][..inner];
            for element in elements.clone() {
                let at = row(indices, element, rows)? * inner;
                for (out, &x) in out.iter_mut().zip(&data[at..][..inner]) {
                    *out = out.add(x);
                }
            }
            finish(out, elements.len());
        }
        Ok(())
    }))
}

fn scaled(p: &Prepare<'_>, scale: SegmentScale) -> Result<Prepared, KernelError> {
    dispatch!(p.dtype(0), FLOATS, T => {
        with_i64_indices(p, &[1], &|p| forward::<T>(p, move |sums, n| {
            let scale = scale.of::<T>(n);
            sums.iter_mut().for_each(|x| *x = T::narrow(x.widen() * scale));
        }))
    }, else Err(KernelError::DType(p.dtype(0))))
}

fn summed(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    widened_ints(p, &[0], &[0], &|p| {
        with_i64_indices(p, &[1], &|p| {
            dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64], T => forward::<T>(p, |_, _| {}), else
            Err(KernelError::DType(p.dtype(0))))
        })
    })
}

/// Kernel of the gradient: adds the gradient of each segment to those of its slices.
fn backward(p: &Prepare<'_>, scale: SegmentScale) -> Result<Prepared, KernelError> {
    with_i64_indices(p, &[1], &|p| {
        dispatch!(p.dtype(0), FLOATS, T => backward_by::<T>(p, scale), else
            Err(KernelError::DType(p.dtype(0))))
    })
}

fn backward_by<T: Float>(p: &Prepare<'_>, scale: SegmentScale) -> Result<Prepared, KernelError> {
    let ids = p.ints(2)?;
    let segments = count_sorted(2, &ids).map_err(kernel_error)?;
    if p.dims(0).first().is_none_or(|&d| segments > d) {
        return Err(KernelError::Argument("segments"));
    }
    let rows = p.output_dims(0).first().copied().unwrap_or(0);
    let (runs, inner) = (runs(&ids), inner(p));
    let work = ids.len().saturating_mul(inner);
    Ok(Prepared::new(work * 2, move |cx| {
        let (grad, indices, out) = (cx.input::<T>(0)?, cx.input::<i64>(1)?, cx.output::<T>(0)?);
        out.fill(T::ZERO);
        for (segment, elements) in &runs {
            let (grad, scale) = (
                &grad[segment * inner..][..inner],
                scale.of::<T>(elements.len()),
            );
            for element in elements.clone() {
                let at = row(indices, element, rows)? * inner;
                for (out, &dy) in out[at..][..inner].iter_mut().zip(grad) {
                    *out = out.add(T::narrow(dy.widen() * scale));
                }
            }
        }
        Ok(())
    }))
}

/// Gradient by op `op`, with as many slices as the data.
fn gradient<'g>(g: &GradCx<'_, 'g>, op: &str) -> InputGradients<'g> {
    let graph = g.graph();
    let rows = first_size(g.input(0), DType::I32);
    let node = graph.op(op).input(g.grad()).input(g.input(1));
    smallvec![Some(node.input(g.input(2)).input(rows).output())]
}

const SUM_KERNELS: &[Kernel] = &[cpu(summed)];
const MEAN_KERNELS: &[Kernel] = &[cpu(|p| scaled(p, SegmentScale::Mean))];
const SQRT_N_KERNELS: &[Kernel] = &[cpu(|p| scaled(p, SegmentScale::SqrtN))];

const SUM: OpDef = OpDef {
    name: "SparseSegmentSum",
    summary: "For each segment the sum of the slices that indices name; ids are sorted.",
    inputs: INPUTS,
    outputs: OUTPUT,
    attrs: &[NUMBERS, INDEX, ID, SPARSE],
    shape,
    gradient: Gradient::Rule(|g| gradient(g, "SparseSegmentSumGrad")),
    ..OpDef::EMPTY
};

const MEAN: OpDef = OpDef {
    name: "SparseSegmentMean",
    summary: "For each segment the mean of the slices that indices name; ids are sorted.",
    attrs: &[FLOATS, INDEX, ID, SPARSE],
    gradient: Gradient::Rule(|g| gradient(g, "SparseSegmentMeanGrad")),
    ..SUM
};

const SQRT_N: OpDef = OpDef {
    name: "SparseSegmentSqrtN",
    summary: "For each segment the sum of the slices that indices name, divided by the root of their number; ids are sorted.",
    attrs: &[FLOATS, INDEX, ID, SPARSE],
    gradient: Gradient::Rule(|g| gradient(g, "SparseSegmentSqrtNGrad")),
    ..SUM
};

/// Sums of gathered slices.
pub(crate) static SPARSE_SEGMENT_SUM: Op = Op {
    def: SUM,
    kernels: SUM_KERNELS,
};

/// Sums of gathered slices, with a number of segments.
pub(crate) static SPARSE_SEGMENT_SUM_COUNTED: Op = Op {
    def: OpDef {
        name: "SparseSegmentSumWithNumSegments",
        inputs: COUNTED,
        attrs: &[NUMBERS, INDEX, COUNT, ID, SPARSE],
        ..SUM
    },
    kernels: SUM_KERNELS,
};

/// Means of gathered slices.
pub(crate) static SPARSE_SEGMENT_MEAN: Op = Op {
    def: MEAN,
    kernels: MEAN_KERNELS,
};

/// Means of gathered slices, with a number of segments.
pub(crate) static SPARSE_SEGMENT_MEAN_COUNTED: Op = Op {
    def: OpDef {
        name: "SparseSegmentMeanWithNumSegments",
        inputs: COUNTED,
        attrs: &[FLOATS, INDEX, COUNT, ID, SPARSE],
        ..MEAN
    },
    kernels: MEAN_KERNELS,
};

/// Sums of gathered slices, divided by the square root of their number.
pub(crate) static SPARSE_SEGMENT_SQRT_N: Op = Op {
    def: SQRT_N,
    kernels: SQRT_N_KERNELS,
};

/// Sums of gathered slices, divided by the square root of their number, with a number of segments.
pub(crate) static SPARSE_SEGMENT_SQRT_N_COUNTED: Op = Op {
    def: OpDef {
        name: "SparseSegmentSqrtNWithNumSegments",
        inputs: COUNTED,
        attrs: &[FLOATS, INDEX, COUNT, ID, SPARSE],
        ..SQRT_N
    },
    kernels: SQRT_N_KERNELS,
};

const BACK: OpDef = OpDef {
    name: "SparseSegmentSumGrad",
    summary: "The gradient of SparseSegmentSum.",
    inputs: GRAD,
    outputs: OUTPUT,
    attrs: &[FLOATS, INDEX, ID],
    shape: grad_shape,
    ..OpDef::EMPTY
};

/// Gradient of SparseSegmentSum.
pub(crate) static SPARSE_SEGMENT_SUM_GRAD: Op = Op {
    def: BACK,
    kernels: &[cpu(|p| backward(p, SegmentScale::Sum))],
};

/// Gradient of SparseSegmentMean.
pub(crate) static SPARSE_SEGMENT_MEAN_GRAD: Op = Op {
    def: OpDef {
        name: "SparseSegmentMeanGrad",
        summary: "The gradient of SparseSegmentMean.",
        ..BACK
    },
    kernels: &[cpu(|p| backward(p, SegmentScale::Mean))],
};

/// Gradient of SparseSegmentSqrtN.
pub(crate) static SPARSE_SEGMENT_SQRT_N_GRAD: Op = Op {
    def: OpDef {
        name: "SparseSegmentSqrtNGrad",
        summary: "The gradient of SparseSegmentSqrtN.",
        ..BACK
    },
    kernels: &[cpu(|p| backward(p, SegmentScale::SqrtN))],
};
