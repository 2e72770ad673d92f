//! Bucketize, HistogramFixedWidth.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, attr, type_attr, type_attr_or};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape};

use crate::support::shape_inputs::{checked_shape, invalid_value, scalar_int};
use crate::support::tensors::{AccountedVec, integers};

const VALUES: AttrDef = type_attr("T", &[DType::I32, DType::I64, DType::F32, DType::F64]);

/// Fails unless the boundaries ascend, as binary search needs.
fn check_boundaries(boundaries: &[f32]) -> Result<(), InferError> {
    match boundaries.is_sorted() {
        true => Ok(()),
        false => Err(InferError::Attr {
            attr: "boundaries",
            reason: "they must rise".to_owned(),
        }),
    }
}

/// Index of the interval between boundaries for each value.
pub(crate) static BUCKETIZE: Op = Op {
    def: OpDef {
        name: "Bucketize",
        summary: "How many of the boundaries are at or below each element.",
        inputs: &[arg("input", "T")],
        outputs: &[arg_of("output", DType::I32)],
        attrs: &[VALUES, attr("boundaries", AttrKind::Floats)],
        shape: |cx| {
            check_boundaries(cx.attrs().floats("boundaries"))?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (x, boundaries) = (cx.tensor(0)?, cx.attrs().floats("boundaries"));
        // A boundary is an f32, and an integer is compared with it as an f32. NaN is beyond all boundaries.
        let single = |x: f32| boundaries.partition_point(|&b| b <= x || x.is_nan()) as i32;
        let double =
            |x: f64| boundaries.partition_point(|&b| f64::from(b) <= x || x.is_nan()) as i32;
        let buckets: Vec<i32> = match x.dtype() {
            DType::I32 => x
                .as_slice::<i32>()?
                .iter()
                .map(|&x| single(x as f32))
                .collect(),
            DType::I64 => x
                .as_slice::<i64>()?
                .iter()
                .map(|&x| single(x as f32))
                .collect(),
            DType::F32 => x.as_slice::<f32>()?.iter().map(|&x| single(x)).collect(),
            DType::F64 => x.as_slice::<f64>()?.iter().map(|&x| double(x)).collect(),
            other => return Err(KernelError::DType(other)),
        };
        Ok(vec![cx.tensor_of(x.dims(), &buckets)?])
    })],
};

/// Counts of values in `bins` bins of equal width.
fn histogram<T: Number + Element>(
    cx: &TensorCx<'_>,
    bins: usize,
    to_f64: fn(T) -> f64,
) -> Result<AccountedVec<i64>, KernelError> {
    let (values, range) = (cx.slice::<T>(0)?, cx.slice::<T>(1)?);
    let &[low, high] = range else {
        return Err(KernelError::Argument("a range"));
    };
    #[allow(
        clippy::neg_cmp_op_on_partial_ord,
        reason = "what is no number is no end"
    )]
    if !(low < high) {
        return Err(KernelError::Invalid(
            "the range's end must lie above its beginning".to_owned(),
        ));
    }
    // The range may be larger than the largest number.
    let (begin, end, parts) = (to_f64(low), to_f64(high), bins as f64);
    let width = match end - begin {
        range if range.is_finite() => range / parts,
        _ => end / parts - begin / parts,
    };
    let mut counts = AccountedVec::filled(bins, 0, cx.memory())?;
    for (element, &value) in values.iter().enumerate() {
        let value = if value < low { low } else { value };
        let at = match to_f64(value) - begin {
            beyond if beyond.is_finite() => beyond / width,
            _ => to_f64(value) / width - begin / width,
        };
        if at.is_nan() {
            return Err(KernelError::Element {
                input: 0,
                element,
                reason: "it is not a number, and has no bin".to_owned(),
            });
        }
        counts[(at as usize).min(bins - 1)] += 1;
    }
    Ok(counts)
}

/// Maximum number of bins; the number may come from an untrusted file.
const MAX_BINS: usize = 1 << 28;

/// Number of values in each bin of equal width.
pub(crate) static HISTOGRAM: Op = Op {
    def: OpDef {
        name: "HistogramFixedWidth",
        summary: "How many values lie in each of nbins equal parts of a range; those outside of it belong to the first or the last.",
        inputs: &[
            arg("values", "T"),
            arg("value_range", "T"),
            arg_of("nbins", DType::I32).host(),
        ],
        outputs: &[arg("out", "dtype")],
        attrs: &[VALUES, type_attr_or("dtype", DType::INDICES, DType::I32)],
        shape: |cx| {
            if let Some(d) = cx.ranked(1, 1)?.dim(0)
                && d != 2
            {
                return Err(invalid_value(
                    1,
                    format!("a range of {}: give two", counted(d, "number")),
                ));
            }
            let bins = match scalar_int(cx, 2)? {
                None => None,
                Some(n) if n > 0 => Some(n as usize),
                Some(n) => return Err(invalid_value(2, format!("{n} bins: use at least 1"))),
            };
            let shape = checked_shape(2, Shape::partial([bins]))?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let bins = usize::try_from(cx.int(2)?).unwrap_or(0);
        if bins > MAX_BINS {
            return Err(KernelError::Invalid(format!(
                "{bins} bins are too many: there may be {MAX_BINS}"
            )));
        }
        let counts = match cx.tensor(0)?.dtype() {
            DType::I32 => histogram::<i32>(cx, bins, f64::from)?,
            DType::I64 => histogram::<i64>(cx, bins, |v| v as f64)?,
            DType::F32 => histogram::<f32>(cx, bins, f64::from)?,
            DType::F64 => histogram::<f64>(cx, bins, |v| v)?,
            other => return Err(KernelError::DType(other)),
        };
        Ok(vec![integers(cx, "dtype", counts.iter().copied())?])
    })],
};
