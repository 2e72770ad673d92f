//! Kernels that call a function for each element: for functions too long to be vectorised. All functions of a type
//! share one loop.

use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;
use thalweg_tensor::num_complex::Complex;

use crate::support::elementwise::{binary, unary};

/// Estimated nanoseconds of a call.
const CALL_COST: u64 = 10;

/// Kernel of a function of one float, in `f32` (also for halves) and in `f64`.
pub(super) fn per_element(
    p: &Prepare<'_>,
    single: fn(f32) -> f32,
    double: fn(f64) -> f64,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0) {
        DType::F64 => unary::<f64>(p, double),
        DType::F16 | DType::BF16 | DType::F32 => unary::<f32>(p, single),
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * CALL_COST))
}

/// As [`per_element`], also for complex numbers, in `Complex<f64>`.
pub(super) fn per_element_or_complex(
    p: &Prepare<'_>,
    single: fn(f32) -> f32,
    double: fn(f64) -> f64,
    complex: fn(Complex<f64>) -> Complex<f64>,
) -> Result<Prepared, KernelError> {
    if !p.dtype(0).is_complex() {
        return per_element(p, single, double);
    }
    let prepared = unary::<Complex<f64>>(p, complex);
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL_COST))
}

/// Kernel of a function of one float that is always computed in `f64`.
pub(super) fn per_element_in_f64(
    p: &Prepare<'_>,
    f: fn(f64) -> f64,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0).is_float() {
        true => unary::<f64>(p, f),
        false => return Err(KernelError::DType(p.dtype(0))),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL_COST))
}

/// Kernel of a function of two floats that is always computed in `f64`.
pub(crate) fn per_element_in_f64_2(
    p: &Prepare<'_>,
    f: fn(f64, f64) -> f64,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0).is_float() {
        true => binary::<f64>(p, f),
        false => return Err(KernelError::DType(p.dtype(0))),
    };
    Ok(prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL_COST))
}
