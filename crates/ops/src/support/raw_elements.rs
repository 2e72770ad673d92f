//! Inputs and outputs of kernels that only copy elements: as unsigned integers of the elements' size.

use bytemuck::Pod;
use thalweg_device::{KernelCx, KernelError};
use thalweg_tensor::DType;

/// Input `i` as elements that are only copied: any type of the same size.
pub(crate) fn input_as<'a, T: Pod + Send + Sync>(
    cx: &KernelCx<'a>,
    i: usize,
) -> Result<&'a [T], KernelError> {
    let bytes = cx.input_bytes(i)?;
    if bytes.is_empty() {
        // An empty slice may be unaligned, which a cast would refuse.
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| KernelError::Argument("elements of this size"))
}

/// Output `i`, of `dtype`, as elements that are only copied.
///
/// # Safety
/// Only valid elements of `dtype` may be written: not all bytes are bools.
pub(crate) unsafe fn output_as<'a, T: Pod + Send + Sync>(
    cx: &KernelCx<'a>,
    i: usize,
    dtype: DType,
) -> Result<&'a mut [T], KernelError> {
    let bytes = match dtype {
        DType::Bool => {
            let bools = cx.output::<bool>(i)?;
            // SAFETY: a bool is one byte, and the caller promises to write only bools.
            unsafe { std::slice::from_raw_parts_mut(bools.as_mut_ptr().cast(), bools.len()) }
        }
        _ => cx.output_bytes(i)?,
    };
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| KernelError::Argument("elements of this size"))
}

/// Expands `$body` with `$T` as the unsigned integer of the size of `$dtype`, for kernels that only copy elements.
macro_rules! by_size {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            16 => {
                type $T = [u64; 2];
                $body
            }
            _ => Err(thalweg_device::KernelError::DType($dtype)),
        }
    };
}

pub(crate) use by_size;
