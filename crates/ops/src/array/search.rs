//! Where elements would stand in sorted rows, and how often numbers occur.

use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, bool_attr, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use crate::support::shape_inputs::{countable, single, wrong};
use crate::support::widened::widened;
use thalweg_cpu::number::Number;

/// The first place for each value where `before` does not hold of what stands there.
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

/// The first place that keeps a row sorted.
pub(crate) static LOWER_BOUND: Op = Op {
    def: OpDef {
        name: "LowerBound",
        summary: "For each value the first place in its sorted row where it could stand.",
        ..BOUNDS
    },
    kernels: bounds_kernel!(|x, value| x < value),
};

/// The last place that keeps a row sorted.
pub(crate) static UPPER_BOUND: Op = Op {
    def: OpDef {
        name: "UpperBound",
        summary: "For each value the last place in its sorted row where it could stand.",
        ..BOUNDS
    },
    kernels: bounds_kernel!(|x, value| x <= value),
};

/// The dtypes of weights.
const WEIGHTS: AttrDef = type_attr("T", &[DType::I32, DType::I64, DType::F32, DType::F64]);
const BINS: &[Arg] = &[arg("bins", "T")];

fn shape(cx: &mut Infer<'_>, rows: Option<Shape>) -> Result<(), InferError> {
    let size = match single(cx, 1)? {
        Some(n) => {
            let n = usize::try_from(n);
            Some(n.map_err(|_| wrong(1, "a negative number of bins".to_owned()))?)
        }
        None => None,
    };
    let (values, weights) = (cx.shape(0), cx.shape(2));
    if weights.elements().is_some_and(|n| n != 0) && values.merge(weights).is_none() {
        return Err(InferError::Mismatch {
            what: "there must be a weight for each value, or none at all".to_owned(),
            left: values.clone(),
            right: weights.clone(),
        });
    }
    let Some(rows) = rows else {
        return Ok(());
    };
    let all = rows
        .dims()
        .unwrap_or_default()
        .iter()
        .copied()
        .chain([size]);
    let shape = countable(1, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

/// Counts of whole numbers; `columns` values are of one row of bins.
fn count<T: Number, I: Element + Into<i64>>(p: &Prepare<'_>, columns: usize) -> Prepared {
    let bins = p.output_dims(0).last().copied().unwrap_or(0);
    let binary = p.node.attrs.bool("binary_output");
    Prepared::new(p.inputs[0].elements() * 4, move |cx| {
        let (values, weights, out) = (cx.input::<I>(0)?, cx.input::<T>(2)?, cx.output::<T>(0)?);
        out.fill(T::ZERO);
        for (element, &value) in values.iter().enumerate() {
            let value: i64 = value.into();
            let bin = usize::try_from(value).map_err(|_| KernelError::Element {
                input: 0,
                element,
                reason: format!("{value} has no bin: numbers must not be negative"),
            })?;
            // What is beyond the last bin is not counted.
            if bin < bins {
                let sum = &mut out[element / columns * bins + bin];
                *sum = match (binary, weights.get(element)) {
                    (true, _) => T::ONE,
                    (false, Some(&weight)) => sum.add(weight),
                    (false, None) => sum.add(T::ONE),
                };
            }
        }
        Ok(())
    })
}

/// How often numbers occur.
pub(crate) static BINCOUNT: Op = Op {
    def: OpDef {
        name: "Bincount",
        summary: "How often each number below size occurs, or the sum of its weights.",
        inputs: &[
            arg_of("arr", DType::I32),
            arg_of("size", DType::I32).host(),
            arg("weights", "T"),
        ],
        outputs: BINS,
        attrs: &[WEIGHTS],
        shape: |cx| shape(cx, Some(Shape::scalar())),
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let all = p.inputs[0].elements().max(1);
        dispatch!(p.dtype(2), [I32 I64 F32 F64], T => Ok(count::<T, i32>(p, all)), else
            Err(KernelError::DType(p.dtype(2))))
    })],
};

/// How often numbers occur, in each row.
pub(crate) static DENSE_BINCOUNT: Op = Op {
    def: OpDef {
        name: "DenseBincount",
        summary: "For each row how often each number below size occurs, whether it does, or the sum of its weights.",
        inputs: &[
            arg("input", "Tidx"),
            arg("size", "Tidx").host(),
            arg("weights", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("Tidx", DType::INDICES),
            WEIGHTS,
            bool_attr("binary_output", false),
        ],
        shape: |cx| {
            let rows = match cx.shape(0).dims() {
                None => None,
                Some([]) | Some([_]) => Some(Shape::scalar()),
                Some([rows, _]) => Some(Shape::partial([*rows])),
                Some(_) => {
                    return Err(InferError::Rank {
                        input: 0,
                        expected: "at most 2".to_owned(),
                        found: cx.shape(0).clone(),
                    });
                }
            };
            shape(cx, rows)
        },
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let columns = match p.dims(0) {
            [_, columns] => (*columns).max(1),
            _ => p.inputs[0].elements().max(1),
        };
        dispatch!(p.dtype(2), [I32 I64 F32 F64], T => match p.dtype(0) {
            DType::I32 => Ok(count::<T, i32>(p, columns)),
            DType::I64 => Ok(count::<T, i64>(p, columns)),
            other => Err(KernelError::DType(other)),
        }, else Err(KernelError::DType(p.dtype(2))))
    })],
};
