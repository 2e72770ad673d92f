//! Kernels of functions of one or two floats: loops over straight lines of arithmetic, which are vectorised, and loops
//! that call a function for each element, for functions too long for that. All functions of a type share the latter.

use thalweg_cpu::number::double::MAX_ANGLE;
use thalweg_device::{KernelError, Prepare, Prepared};
use thalweg_tensor::DType;
use thalweg_tensor::num_complex::Complex;

use crate::support::elementwise::{
    Function, InF64, binary, unary, unary_of, unary_with_exceptions,
};

/// Estimated nanoseconds of a call.
const CALL_COST: u64 = 10;

/// Kernel of a function that is a straight line of arithmetic, computed in `f64`.
pub(super) fn straight_line(
    p: &Prepare<'_>,
    f: impl Function<f64, f64> + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F64 => Ok(unary_of::<f64>(p, f)),
        DType::F16 | DType::BF16 | DType::F32 => Ok(unary_of::<f32>(p, InF64(f))),
        other => Err(KernelError::DType(other)),
    }
}

/// As [`straight_line`], with a function of fewer terms for the floats of less precision than `f64`.
pub(super) fn by_precision(
    p: &Prepare<'_>,
    f: impl Function<f64, f64> + 'static,
    single: impl Function<f64, f64> + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F64 => straight_line(p, f),
        _ => straight_line(p, single),
    }
}

/// Kernel of a function that is a straight line of arithmetic, computed in `f32`.
pub(super) fn straight_line_single(
    p: &Prepare<'_>,
    f: impl Function<f32, f32> + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F16 | DType::BF16 | DType::F32 => Ok(unary_of::<f32>(p, f)),
        other => Err(KernelError::DType(other)),
    }
}

/// As [`straight_line`], also for complex numbers, in `Complex<f64>`.
pub(super) fn straight_line_or_complex(
    p: &Prepare<'_>,
    f: impl Function<f64, f64> + 'static,
    complex: fn(Complex<f64>) -> Complex<f64>,
) -> Result<Prepared, KernelError> {
    match p.dtype(0).is_complex() {
        true => Ok(complex_per_element(p, complex)),
        false => straight_line(p, f),
    }
}

/// Kernel of a function of angles: a straight line up to [`MAX_ANGLE`], and beyond it `exact`.
pub(super) fn of_angle(
    p: &Prepare<'_>,
    f: impl Function<f64, f64> + 'static,
    exact: fn(f64) -> f64,
    complex: fn(Complex<f64>) -> Complex<f64>,
) -> Result<Prepared, KernelError> {
    // NaN is not beyond it.
    let is_beyond = |x: f64| x.abs() > MAX_ANGLE;
    match p.dtype(0) {
        DType::F64 => Ok(unary_with_exceptions::<f64>(p, f, is_beyond, exact)),
        DType::F16 | DType::BF16 | DType::F32 => {
            let is_beyond = move |x: f32| is_beyond(f64::from(x));
            let exact = move |x: f32| exact(f64::from(x)) as f32;
            Ok(unary_with_exceptions::<f32>(p, InF64(f), is_beyond, exact))
        }
        other if other.is_complex() => Ok(complex_per_element(p, complex)),
        other => Err(KernelError::DType(other)),
    }
}

fn complex_per_element(p: &Prepare<'_>, f: fn(Complex<f64>) -> Complex<f64>) -> Prepared {
    let prepared = unary::<Complex<f64>>(p, f);
    prepared.with_cost(20 + p.outputs[0].elements() as u64 * 4 * CALL_COST)
}

/// Kernel of a function of two floats that is a straight line of arithmetic, computed in `f64`.
pub(super) fn straight_line_2(
    p: &Prepare<'_>,
    f: impl Fn(f64, f64) -> f64 + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F64 => Ok(binary::<f64>(p, f)),
        DType::F16 | DType::BF16 | DType::F32 => Ok(binary::<f32>(p, move |x, y| {
            f(f64::from(x), f64::from(y)) as f32
        })),
        other => Err(KernelError::DType(other)),
    }
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

/// As [`per_element_in_f64_2`], with a function of fewer terms for the floats of less precision than `f64`.
pub(super) fn per_element_2_by_precision(
    p: &Prepare<'_>,
    f: fn(f64, f64) -> f64,
    single: fn(f64, f64) -> f64,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F64 => per_element_in_f64_2(p, f),
        _ => per_element_in_f64_2(p, single),
    }
}
