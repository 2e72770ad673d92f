//! Kernels of functions that are called for one element after the other: they are too long for a
//! loop over them to be vectorised, so all of them share one loop for each type.

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
        DType::F64 => unary::<f64>(p, double),
        DType::F16 | DType::BF16 | DType::F32 => unary::<f32>(p, single),
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * CALL))
}

/// A function of one float that is computed in `f64`, whatever the dtype.
pub(super) fn called_wide(p: &Prepare<'_>, f: fn(f64) -> f64) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0).is_float() {
        true => unary::<f64>(p, f),
        false => return Err(KernelError::DType(p.dtype(0))),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL))
}

/// A function of two floats that is computed in `f64`, whatever the dtype.
pub(super) fn called_wide_2(
    p: &Prepare<'_>,
    f: fn(f64, f64) -> f64,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0).is_float() {
        true => binary::<f64>(p, f),
        false => return Err(KernelError::DType(p.dtype(0))),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL))
}
