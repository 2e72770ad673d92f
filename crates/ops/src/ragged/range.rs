//! RaggedRange.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, type_attr_or};
use thalweg_tensor::{DType, Shape, Tensor};

use super::row_splits::{SPLITS, invalid};
use crate::support::tensors::integers;

/// A range in each row.
pub(crate) static RANGE: Op = Op {
    def: OpDef {
        name: "RaggedRange",
        summary: "A ragged tensor whose rows are ranges from starts to limits in steps of deltas.",
        inputs: &[arg("starts", "T"), arg("limits", "T"), arg("deltas", "T")],
        outputs: &[
            arg("rt_nested_splits", "Tsplits"),
            arg("rt_dense_values", "T"),
        ],
        attrs: &[
            type_attr_or(
                "T",
                &[DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64],
                DType::I32,
            ),
            SPLITS,
        ],
        shape: |cx| {
            let rows = (0..3).find_map(|i| match cx.shape(i).dims() {
                Some([rows]) => *rows,
                _ => None,
            });
            let scalars = (0..3).all(|i| cx.shape(i).rank() == Some(0));
            let rows = if scalars { Some(1) } else { rows };
            cx.set(0, Shape::partial([rows.map(|rows| rows + 1)]));
            cx.set(1, Shape::partial([None]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| match cx.tensor(0)?.dtype() {
        DType::F32 => ranges::<f32>(cx, |length| length.ceil()),
        DType::F64 => ranges::<f64>(cx, |length| length.ceil()),
        DType::I32 => integer_ranges::<i32>(cx),
        DType::I64 => integer_ranges::<i64>(cx),
        other => Err(KernelError::DType(other)),
    })],
};

/// Inputs as vectors of one length, scalars repeated.
struct Bounds<'a, T> {
    all: [&'a [T]; 3],
    rows: usize,
}

impl<'a, T: Number> Bounds<'a, T> {
    fn of(cx: &TensorCx<'a>) -> Result<Bounds<'a, T>, KernelError> {
        let mut rows = None;
        for (i, name) in ["starts", "limits", "deltas"].into_iter().enumerate() {
            match cx.tensor(i)?.dims() {
                [] => {}
                [length] if rows.is_none_or(|rows| rows == *length) => rows = Some(*length),
                [_] => {
                    return Err(invalid(
                        "starts, limits, and deltas must have the same shape",
                    ));
                }
                _ => return Err(invalid(format!("{name} must be a scalar or vector"))),
            }
        }
        Ok(Bounds {
            all: [cx.slice(0)?, cx.slice(1)?, cx.slice(2)?],
            rows: rows.unwrap_or(1),
        })
    }

    fn row(&self, row: usize) -> [T; 3] {
        self.all
            .map(|all| if all.len() == 1 { all[0] } else { all[row] })
    }
}

/// The ranges, given the number of elements of each.
fn filled<T: Number>(
    cx: &TensorCx<'_>,
    bounds: &Bounds<'_, T>,
    length: impl Fn([T; 3]) -> Result<u64, KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    let mut ends = Vec::with_capacity(bounds.rows + 1);
    let mut total = 0i64;
    ends.push(total);
    for row in 0..bounds.rows {
        let length = i64::try_from(length(bounds.row(row))?).ok();
        let end = length.and_then(|length| total.checked_add(length));
        total = end.ok_or_else(|| invalid("the ranges have more elements than can be counted"))?;
        ends.push(total);
    }
    let mut values = cx.zeros(T::DTYPE, &[total as usize])?;
    let mut rest = values.as_mut_slice::<T>()?;
    let mut stop = cx.stop_check();
    for row in 0..bounds.rows {
        let [mut value, _, delta] = bounds.row(row);
        let (own, after) = rest.split_at_mut((ends[row + 1] - ends[row]) as usize);
        for to in own {
            stop.tick()?;
            *to = value;
            value = value.add(delta);
        }
        rest = after;
    }
    let splits = integers(cx, "Tsplits", ends.into_iter())?;
    Ok(vec![splits, values])
}

/// `true` if the step leads away from the limit.
fn is_empty<T: Number>([start, limit, delta]: [T; 3]) -> Result<bool, KernelError> {
    match delta == T::ZERO {
        true => Err(invalid("Requires delta != 0")),
        false => Ok((delta > T::ZERO && limit < start) || (delta < T::ZERO && limit > start)),
    }
}

fn ranges<T: Number>(
    cx: &TensorCx<'_>,
    ceil: impl Fn(f64) -> f64,
) -> Result<Vec<Tensor>, KernelError> {
    let bounds = Bounds::<T>::of(cx)?;
    filled(cx, &bounds, |row| {
        if is_empty(row)? {
            return Ok(0);
        }
        let [start, limit, delta] = row;
        let steps = T::from_f64(limit.sub(start).to_f64() / delta.to_f64());
        let count = ceil(steps.to_f64().abs());
        match count < i64::MAX as f64 {
            true => Ok(count as u64),
            false => Err(invalid(format!(
                "Requires ((limit - start) / delta) <= {}",
                i64::MAX
            ))),
        }
    })
}

fn integer_ranges<T: Number + Into<i64>>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let bounds = Bounds::<T>::of(cx)?;
    filled(cx, &bounds, |row| {
        let [start, limit, delta]: [i64; 3] = row.map(Into::into);
        Ok(match is_empty(row)? {
            true => 0,
            false => limit.abs_diff(start).div_ceil(delta.unsigned_abs()),
        })
    })
}
