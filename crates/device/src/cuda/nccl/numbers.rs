//! NCCL's numbers for dtypes and reductions.

use std::ffi::c_int;

use thalweg_tensor::DType;

use crate::gpu::GpuError;
use crate::reduction::ReduceOp;

/// NCCL's number for a dtype.
pub(super) fn code(dtype: DType) -> Option<c_int> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        _ => return None,
    })
}

/// NCCL's number for a reduction.
pub(super) fn number(op: ReduceOp) -> Result<c_int, GpuError> {
    Ok(match op {
        ReduceOp::Sum => 0,
        ReduceOp::Product => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
        ReduceOp::Average => 4,
        ReduceOp::Adasum => {
            return Err(GpuError::Driver {
                what: "begin a collective",
                reason: "NCCL has no Adasum".to_owned(),
            });
        }
    })
}

/// A factor as an element of a dtype.
pub(super) fn scalar(factor: f64, dtype: DType) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    match dtype {
        DType::F64 => bytes.copy_from_slice(&factor.to_ne_bytes()),
        DType::F32 => bytes[..4].copy_from_slice(&(factor as f32).to_ne_bytes()),
        DType::F16 => bytes[..2].copy_from_slice(&half::f16::from_f64(factor).to_ne_bytes()),
        DType::BF16 => bytes[..2].copy_from_slice(&half::bf16::from_f64(factor).to_ne_bytes()),
        _ => return None,
    }
    Some(bytes)
}
