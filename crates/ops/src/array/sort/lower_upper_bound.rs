//! LowerBound, UpperBound.

use thalweg_cpu::number::Number;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Element, dispatch};

use crate::support::widened::widened;

/// Kernel: for each value, the first position in its sorted row whose element is not `before` it.
fn bounds<T: Number, I: Element>(
    p: &Prepare<'_>,
    before: fn(&T, &T) -> bool,
    index: fn(usize) -> I,
) -> Prepared {
    let (columns, wanted) = (p.dims(0)[1], p.dims(1)[1]);
    Prepared::new(p.outputs[0].elements() * 32, move |cx| {
        let (sorted, values) = (cx.input::<T>(0)?, cx.input::<T>(1)?);
        for (i, (out, value)) in cx.output::<I>(0)?.iter_mut().zip(values).enumerate() {
            let row = &sorted[i / wanted * columns..][..columns];
            *out = index(row.partition_point(|x| before(x, value)));
        }
        Ok(())
    })
}

macro_rules! bounds_kernel {
    ($before:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
            let to = p.outputs.first().map_or(DType::I32, |o| o.dtype);
            widened(p, &[0, 1], &[], &|p| {
            dispatch!(p.dtype(0), [F32 F64 I64 U64], T => match to {
                DType::I32 => Ok(bounds::<T, i32>(p, $before, |i| i as i32)),
                _ => Ok(bounds::<T, i64>(p, $before, |i| i as i64)),
                }, else Err(KernelError::DType(p.dtype(0))))
            })
        })];
        KERNELS
    }};
}

const BOUNDS: OpDef = OpDef {
    inputs: &[arg("sorted_inputs", "T"), arg("values", "T")],
    outputs: &[arg("output", "out_type")],
    attrs: &[
        type_attr("T", DType::NUMBERS),
        type_attr_or("out_type", DType::INDICES, DType::I32),
    ],
    shape: |cx| {
        let (sorted, values) = (cx.ranked(0, 2)?, cx.ranked(1, 2)?);
        if let (Some(a), Some(b)) = (sorted.dim(0), values.dim(0))
            && a != b
        {
            return Err(InferError::Mismatch {
                what: "there must be a row of values for each sorted one".to_owned(),
                left: sorted,
                right: values,
            });
        }
        cx.set(0, values);
        Ok(())
    },
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// First insertion position that keeps a row sorted.
pub(crate) static LOWER_BOUND: Op = Op {
    def: OpDef {
        name: "LowerBound",
        summary: "For each value the first place in its sorted row where it could stand.",
        ..BOUNDS
    },
    kernels: bounds_kernel!(|x, value| x < value),
};

/// Last insertion position that keeps a row sorted.
pub(crate) static UPPER_BOUND: Op = Op {
    def: OpDef {
        name: "UpperBound",
        summary: "For each value the last place in its sorted row where it could stand.",
        ..BOUNDS
    },
    kernels: bounds_kernel!(|x, value| x <= value),
};
