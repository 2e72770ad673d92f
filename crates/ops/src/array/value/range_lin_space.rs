//! Range, LinSpace.

use thalweg_cpu::number::{Float, Number};
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use crate::support::elementwise::CHUNK;
use crate::support::shape_inputs::{checked_shape, invalid_value};
use crate::support::shapes;

/// A number type of Range.
trait RangeNumber: Number {
    /// Count of the numbers from `start` to before `limit`, `delta` apart; `None` if it cannot be represented.
    fn count(start: Self, limit: Self, delta: Self) -> Option<usize>;
    /// Number `i` of the range.
    fn at(start: Self, delta: Self, i: usize) -> Self;
}

macro_rules! steps {
    ($($int:ty)*; $($float:ty)*) => {
        $(impl RangeNumber for $int {
            fn count(start: $int, limit: $int, delta: $int) -> Option<usize> {
                // An i128 holds the difference of any two.
                let (way, step) = (limit as i128 - start as i128, delta as i128);
                usize::try_from((way.abs() + step.abs() - 1) / step.abs()).ok()
            }
            #[inline(always)]
            fn at(start: $int, delta: $int, i: usize) -> $int {
                start.wrapping_add(delta.wrapping_mul(i as $int))
            }
        })*
        $(impl RangeNumber for $float {
            fn count(start: $float, limit: $float, delta: $float) -> Option<usize> {
                let n = ((limit - start) / delta).abs().ceil();
                // 2^53: an f64 counts exactly up to it.
                (n < 9_007_199_254_740_992.0).then_some(n as usize)
            }
            #[inline(always)]
            fn at(start: $float, delta: $float, i: usize) -> $float {
                start + i as $float * delta
            }
        })*
    };
}

steps! { i32 i64; f32 f64 }

/// The first number, the step and the count of a range.
fn resolve<T: RangeNumber + Element>(
    start: &Tensor,
    limit: &Tensor,
    delta: &Tensor,
) -> Result<(T, T, usize), InferError> {
    let read = |i: usize, t: &Tensor| {
        t.to_scalar::<T>()
            .map_err(|e| invalid_value(i, e.to_string()))
    };
    let (start, limit, delta) = (read(0, start)?, read(1, limit)?, read(2, delta)?);
    if delta == T::ZERO {
        return Err(invalid_value(2, "the distance is 0: it must lead on"));
    }
    let (up, ahead) = (delta > T::ZERO, limit >= start);
    if up != ahead && start != limit {
        let way = if up { "up" } else { "down" };
        let reason =
            format!("{limit:?} is not reached from {start:?} by counting {way} by {delta:?}");
        return Err(invalid_value(1, reason));
    }
    let count = T::count(start, limit, delta)
        .ok_or_else(|| invalid_value(1, format!("{start:?} to {limit:?} is too far")))?;
    Ok((start, delta, count))
}

/// As [`resolve`], for a node.
fn of_node<T: RangeNumber>(p: &Prepare<'_>) -> Result<(T, T, usize), KernelError> {
    resolve::<T>(p.value(0)?, p.value(1)?, p.value(2)?)
        .map_err(crate::support::shape_inputs::kernel_error)
}

fn prepare<T: RangeNumber>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (start, delta, n) = of_node::<T>(p)?;
    Ok(Prepared::new(n, move |cx| {
        for_chunks(cx.pool(), cx.output::<T>(0)?, CHUNK, &|task, out| {
            for (i, out) in out.iter_mut().enumerate() {
                *out = T::at(start, delta, task * CHUNK + i);
            }
        });
        Ok(())
    }))
}

/// Range, LinSpace.
pub(crate) static RANGE: Op = Op {
    def: OpDef {
        name: "Range",
        summary: "The numbers from start to before limit, delta apart.",
        inputs: &[
            arg("start", "Tidx").host(),
            arg("limit", "Tidx").host(),
            arg("delta", "Tidx").host(),
        ],
        outputs: &[arg("output", "Tidx")],
        attrs: &[type_attr_or(
            "Tidx",
            &[DType::F32, DType::F64, DType::I32, DType::I64],
            DType::I32,
        )],
        shape: |cx| {
            for i in 0..3 {
                shapes::expect_scalar(cx, i)?;
            }
            cx.set(0, Shape::of_rank(1));
            if let (Some(start), Some(limit), Some(delta)) = (cx.value(0), cx.value(1), cx.value(2))
            {
                let n = dispatch!(cx.dtype(0), [F32 F64 I32 I64], T => {
                    resolve::<T>(start, limit, delta)?.2
                }, else return Ok(()));
                let shape = checked_shape(1, Shape::known(&[n]))?;
                cx.set(0, shape);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            dispatch!(p.dtype(0), [F32 F64 I32 I64], T => prepare::<T>(p), else {
                Err(KernelError::DType(p.dtype(0)))
            })
        }),
        gpu(|p| {
            dispatch!(p.dtype(0), [F32 F64 I32 I64], T => {
                let (start, delta, _) = of_node::<T>(p)?;
                Ok(crate::gpu::range(p, start, delta))
            }, else Err(KernelError::DType(p.dtype(0))))
        }),
    ],
};

/// `num` evenly spaced numbers from `start` to `stop`.
pub(crate) static LIN_SPACE: Op = Op {
    def: OpDef {
        name: "LinSpace",
        summary: "So many numbers at equal distances, from start to stop.",
        inputs: &[
            arg("start", "T"),
            arg("stop", "T"),
            arg("num", "Tidx").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::FLOATS),
            type_attr_or("Tidx", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            for i in 0..3 {
                shapes::expect_scalar(cx, i)?;
            }
            let shape = match cx.ints(2).and_then(|n| n.first().copied()) {
                None => Shape::of_rank(1),
                Some(n) => match usize::try_from(n) {
                    Ok(n) if n > 0 => checked_shape(2, Shape::known(&[n]))?,
                    _ => return Err(invalid_value(2, format!("{n} numbers: use at least 1"))),
                },
            };
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(0), FLOATS, T => Ok(between::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
    )],
};

fn between<T: Float>(p: &Prepare<'_>) -> Prepared {
    let n = p.outputs[0].elements();
    Prepared::new(n, move |cx| {
        let (start, stop) = (cx.input::<T>(0)?[0].widen(), cx.input::<T>(1)?[0]);
        let out = cx.output::<T>(0)?;
        let parts = T::Wide::from_f64(n.saturating_sub(1).max(1) as f64);
        let step = (stop.widen() - start) / parts;
        for (i, out) in out.iter_mut().enumerate() {
            *out = T::narrow(start + step * T::Wide::from_f64(i as f64));
        }
        if let [_, .., last] = out {
            *last = stop;
        }
        Ok(())
    })
}
