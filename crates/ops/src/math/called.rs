//! Kernels of functions that are called for one element after the other: they are too long for a
//! loop over them to be vectorised, so all of them share one loop for each dtype.

use half::{bf16, f16};
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;

use crate::elementwise::{binary, unary};

/// About how many nanoseconds a call takes.
const CALL: u64 = 10;

/// A function of one float, in `f32` (of halves as well) and in `f64`.
pub(super) fn called(
    p: &Prepare<'_>,
    single: fn(f32) -> f32,
    double: fn(f64) -> f64,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0) {
        DType::F16 => unary::<f16>(p, move |x| f16::from_f32(single(x.to_f32()))),
        DType::BF16 => unary::<bf16>(p, move |x| bf16::from_f32(single(x.to_f32()))),
        DType::F32 => unary::<f32>(p, single),
        DType::F64 => unary::<f64>(p, double),
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * CALL))
}

/// A function of one float that is computed in `f64`, whatever the dtype.
pub(super) fn called_wide(p: &Prepare<'_>, f: fn(f64) -> f64) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0) {
        DType::F16 => unary::<f16>(p, move |x| f16::from_f64(f(x.to_f64()))),
        DType::BF16 => unary::<bf16>(p, move |x| bf16::from_f64(f(x.to_f64()))),
        DType::F32 => unary::<f32>(p, move |x| f(x.into()) as f32),
        DType::F64 => unary::<f64>(p, f),
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL))
}

/// A function of two floats that is computed in `f64`, whatever the dtype.
pub(super) fn called_wide_2(
    p: &Prepare<'_>,
    f: fn(f64, f64) -> f64,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0) {
        DType::F16 => binary::<f16>(p, move |x, y| f16::from_f64(f(x.to_f64(), y.to_f64()))),
        DType::BF16 => binary::<bf16>(p, move |x, y| bf16::from_f64(f(x.to_f64(), y.to_f64()))),
        DType::F32 => binary::<f32>(p, move |x, y| f(x.into(), y.into()) as f32),
        DType::F64 => binary::<f64>(p, f),
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL))
}
