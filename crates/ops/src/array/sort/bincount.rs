//! Bincount, DenseBincount.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use crate::support::shape_inputs::{checked_shape, invalid_value, scalar_int};

/// Dtypes of weights.
const WEIGHTS: AttrDef = type_attr("T", &[DType::I32, DType::I64, DType::F32, DType::F64]);

const BINS: &[Arg] = &[arg("bins", "T")];

fn shape(cx: &mut Infer<'_>, rows: Option<Shape>) -> Result<(), InferError> {
    let size = match scalar_int(cx, 1)? {
        Some(n) => {
            let n = usize::try_from(n);
            Some(n.map_err(|_| invalid_value(1, "a negative number of bins".to_owned()))?)
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
    let shape = checked_shape(1, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

/// Kernel that counts integers; `columns` values share a row of bins.
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
            // Values beyond the last bin are not counted.
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

/// Number of occurrences of each integer.
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

/// Number of occurrences of each integer, for each row.
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
