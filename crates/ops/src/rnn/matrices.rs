//! Matrices of single precision of a cell's kernel, and products of them.

use std::borrow::Cow;

use half::f16;
use thalweg_cpu::Epilogue;
use thalweg_cpu::gemm::{Gemm, gemm, gemm_scratch};
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Tensor};

use crate::support::tensors::AccountedVec;

/// The elements of input `i`, of which there must be `len`, in single precision.
pub(super) fn floats<'a>(
    cx: &TensorCx<'a>,
    i: usize,
    len: usize,
) -> Result<Cow<'a, [f32]>, KernelError> {
    let tensor = cx.tensor(i)?;
    if tensor.len() != len {
        return Err(KernelError::Invalid(format!(
            "input {i} of shape {} must have {len} elements",
            tensor.shape()
        )));
    }
    Ok(match tensor.dtype() {
        DType::F16 => {
            let halves = tensor.as_slice::<f16>()?;
            Cow::Owned(halves.iter().map(|x| x.to_f32()).collect())
        }
        _ => Cow::Borrowed(tensor.as_slice()?),
    })
}

/// Zeros that count against the memory of the kernel.
pub(super) fn zeros(cx: &TensorCx<'_>, len: usize) -> Result<AccountedVec<f32>, KernelError> {
    AccountedVec::filled(len, 0.0, cx.memory())
}

/// A tensor of `dtype`.
pub(super) fn tensor(
    cx: &TensorCx<'_>,
    dtype: DType,
    dims: &[usize],
    elements: &[f32],
) -> Result<Tensor, KernelError> {
    if dtype != DType::F16 {
        return cx.tensor_of(dims, elements);
    }
    let mut narrow = cx.zeros(dtype, dims)?;
    let halves = narrow.as_mut_slice::<f16>()?;
    halves
        .iter_mut()
        .zip(elements)
        .for_each(|(to, &x)| *to = f16::from_f32(x));
    Ok(narrow)
}

/// `c = a b`, of `m` rows and `n` columns, with sums of `k` products.
pub(super) fn multiply(
    cx: &TensorCx<'_>,
    [m, n, k]: [usize; 3],
    (a, transpose_a): (&[f32], bool),
    (b, transpose_b): (&[f32], bool),
    c: &mut [f32],
) -> Result<(), KernelError> {
    let product = Gemm {
        m,
        n,
        k,
        transpose_a,
        transpose_b,
    };
    let cpu = thalweg_cpu::Cpu {
        pool: cx.cpu().pool(),
        isa: cx.cpu().isa(),
    };
    let bytes = gemm_scratch::<f32>(cpu.isa, cpu.pool.threads(), &product);
    let mut scratch = AccountedVec::filled(bytes, 0u8, cx.memory())?;
    gemm(cpu, &product, [a, b], None, Epilogue::NONE, c, &mut scratch);
    Ok(())
}

/// Rows of `left` columns of one matrix and `right` columns of another.
pub(super) fn beside(a: &[f32], left: usize, b: &[f32], right: usize, to: &mut [f32]) {
    let width = left + right;
    for (i, row) in to.chunks_exact_mut(width.max(1)).enumerate() {
        row[..left].copy_from_slice(&a[i * left..][..left]);
        row[left..].copy_from_slice(&b[i * right..][..right]);
    }
}

pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
