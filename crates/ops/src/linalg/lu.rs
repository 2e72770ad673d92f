//! Lu: LU decompositions.

use thalweg_cpu::linalg::lu;
use thalweg_cpu::number::{Field, Number};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, dispatch};

use super::each_matrix::product;
use super::matrices::{DTYPE, joined, square};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (batch, n) = square(cx, 0)?;
    cx.set(0, joined(&batch, &[n, n]));
    cx.set(1, joined(&batch, &[n]));
    Ok(())
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    dispatch!(p.dtype(0), [F32 F64 C64 C128], T => match p.outputs[1].dtype {
        DType::I32 => kernel::<T, i32>(p),
        DType::I64 => kernel::<T, i64>(p),
        dtype => Err(KernelError::DType(dtype)),
    }, else Err(KernelError::DType(p.dtype(0))))
}

fn kernel<T: Field, I: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let &[ref batch @ .., n, _] = p.dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    // A matrix without elements has no pivots.
    let count = if n == 0 { 0 } else { elements(batch) };
    let work = product(&[n, n, n]).saturating_mul(count) / 3;
    Ok(Prepared::new(work, move |cx| {
        let (a, factors, rows) = (cx.input::<T>(0)?, cx.output::<T>(0)?, cx.output::<I>(1)?);
        if count == 0 {
            return Ok(());
        }
        factors.copy_from_slice(a);
        let all = factors
            .chunks_exact_mut(n * n)
            .zip(rows.chunks_exact_mut(n));
        for (factors, rows) in all {
            for (i, row) in rows.iter_mut().enumerate() {
                *row = I::from_f64(i as f64);
            }
            lu(cx.cpu().isa(), n, factors, &mut |i, j| rows.swap(i, j));
            if factors.iter().step_by(n + 1).any(|&pivot| pivot == T::ZERO) {
                return Err(KernelError::Invalid("Input is not invertible.".to_owned()));
            }
        }
        Ok(())
    }))
}

/// LU decompositions with partial pivoting.
pub(crate) static LU: Op = Op {
    def: OpDef {
        name: "Lu",
        summary: "The LU decompositions of square matrices, both factors in one matrix, and the rows in the order of the factors.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("lu", "T"), arg("p", "output_idx_type")],
        attrs: &[
            type_attr_or("output_idx_type", DType::INDICES, DType::I32),
            DTYPE,
        ],
        shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare)],
};
