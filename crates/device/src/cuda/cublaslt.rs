//! GEMMs by cuBLASLt. It takes matrices that lie column by column; one that lies row by row is,
//! to it, its own transpose, so that the GEMM's transpose is asked for: the right input first.

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cudaDataType,
};
use cudarc::driver::sys::CUstream;
use thalweg_tensor::DType;

use crate::gpu::{ALIGNMENT, Address, Gemm, GpuError};

/// The most bytes that a GEMM may work with.
const MAX_WORKSPACE: usize = 32 << 20;

/// cuBLASLt, opened.
#[derive(Debug)]
pub(super) struct Gemms(cublasLtHandle_t);

// SAFETY: a handle of cuBLASLt may be used by several threads at once.
unsafe impl Send for Gemms {}
// SAFETY: as above.
unsafe impl Sync for Gemms {}

impl Drop for Gemms {
    fn drop(&mut self) {
        // SAFETY: made by `open`, and not used any more.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

/// A GEMM that is ready: descriptors, and the algorithm that the library has chosen.
#[derive(Debug)]
pub(super) struct MatmulPlan {
    operation: Operation,
    left: Layout,
    right: Layout,
    output: Layout,
    algorithm: cublasLtMatmulAlgo_t,
    pub(super) workspace: usize,
    /// Factors come as `f64` where elements do, and as `f32` otherwise.
    double: bool,
}

// SAFETY: descriptors belong to no thread, and are only read once they are made.
unsafe impl Send for MatmulPlan {}
// SAFETY: as above.
unsafe impl Sync for MatmulPlan {}

#[derive(Debug)]
struct Operation(cublasLtMatmulDesc_t);

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: made by `create_matmul_desc`, and not used any more.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

#[derive(Debug)]
struct Layout(cublasLtMatrixLayout_t);

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made by `create_matrix_layout`, and not used any more.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made by `create_matmul_pref`, and not used any more.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

fn error(e: CublasError) -> GpuError {
    GpuError::Driver {
        what: "multiply matrices by cuBLASLt",
        reason: format!("{:?}", e.0),
    }
}

/// Types of elements and of their arithmetic: halves are computed as `f32`, and `f32` as itself.
fn types(dtype: DType) -> Option<(cudaDataType, cublasComputeType_t, cudaDataType)> {
    let single = cublasComputeType_t::CUBLAS_COMPUTE_32F;
    let double = cublasComputeType_t::CUBLAS_COMPUTE_64F;
    use cudaDataType::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_64F};
    Some(match dtype {
        DType::F16 => (CUDA_R_16F, single, CUDA_R_32F),
        DType::BF16 => (CUDA_R_16BF, single, CUDA_R_32F),
        DType::F32 => (CUDA_R_32F, single, CUDA_R_32F),
        DType::F64 => (CUDA_R_64F, double, CUDA_R_64F),
        _ => return None,
    })
}

impl Layout {
    /// Of matrices that lie row by row, `[rows, columns]`, with so many elements from one to the
    /// next.
    fn new(
        dtype: cudaDataType,
        [rows, columns]: [usize; 2],
        (batches, step): (usize, usize),
    ) -> Result<Layout, CublasError> {
        let ld = columns as i64;
        let layout = Layout(result::create_matrix_layout(
            dtype,
            columns as u64,
            rows as u64,
            ld,
        )?);
        let (count, step) = (batches as i32, step as i64);
        // SAFETY: the layout was just made; both values live through the calls, which copy them.
        unsafe {
            let set = result::set_matrix_layout_attribute;
            let attribute = LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
            set(
                layout.0,
                attribute,
                (&raw const count).cast(),
                size_of_val(&count),
            )?;
            let attribute = LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
            set(
                layout.0,
                attribute,
                (&raw const step).cast(),
                size_of_val(&step),
            )?;
        }
        Ok(layout)
    }
}

impl Operation {
    fn new(
        compute: cublasComputeType_t,
        scale: cudaDataType,
        [first, second]: [bool; 2],
    ) -> Result<Operation, CublasError> {
        let operation = Operation(result::create_matmul_desc(compute, scale)?);
        for (attribute, transpose) in [
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, first),
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, second),
        ] {
            // CUBLAS_OP_T and CUBLAS_OP_N.
            let value = i32::from(transpose);
            let bytes = size_of_val(&value);
            // SAFETY: the descriptor was just made; the value lives through the call, which copies
            // it.
            unsafe {
                let value = (&raw const value).cast();
                result::set_matmul_desc_attribute(operation.0, attribute, value, bytes)?;
            }
        }
        Ok(operation)
    }
}

impl Preference {
    fn new() -> Result<Preference, CublasError> {
        let preference = Preference(result::create_matmul_pref()?);
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: the preference was just made; the value lives through the call, which copies
            // it.
            unsafe { result::set_matmul_pref_attribute(preference.0, attribute, value, bytes) }
        };
        let most = MAX_WORKSPACE;
        let attribute = PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        set(attribute, (&raw const most).cast(), size_of_val(&most))?;
        let alignment = ALIGNMENT as u32;
        for attribute in [
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            set(
                attribute,
                (&raw const alignment).cast(),
                size_of_val(&alignment),
            )?;
        }
        Ok(preference)
    }
}

impl Gemms {
    /// Opens the library for the context that the thread is in.
    pub(super) fn open() -> Result<Gemms, GpuError> {
        result::create_handle().map(Gemms).map_err(error)
    }

    /// Prepares a GEMM.
    ///
    /// # Errors
    /// The reason that the library does not compute it. It is no error of the program: kernels of our own compute then.
    pub(super) fn plan(&self, p: &Gemm, tf32: bool) -> Result<MatmulPlan, String> {
        match self.planned(p, tf32) {
            Ok(Some(plan)) => Ok(plan),
            Ok(None) => Err(format!("cuBLASLt does not multiply {}", p.dtype)),
            Err(e) => Err(format!("cuBLASLt: {:?}", e.0)),
        }
    }

    fn planned(&self, p: &Gemm, tf32: bool) -> Result<Option<MatmulPlan>, CublasError> {
        let Some((dtype, mut compute, scale)) = types(p.dtype) else {
            return Ok(None);
        };
        if tf32 && p.dtype == DType::F32 {
            compute = cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32;
        }
        let swap = |rows, columns, transposed| match transposed {
            true => [columns, rows],
            false => [rows, columns],
        };
        let left = swap(p.rows, p.depth, p.transpose_left);
        let right = swap(p.depth, p.columns, p.transpose_right);
        let left = Layout::new(dtype, left, (p.batches, p.left_step))?;
        let right = Layout::new(dtype, right, (p.batches, p.right_step))?;
        let output = [p.rows, p.columns];
        let output = Layout::new(dtype, output, (p.batches, p.rows * p.columns))?;
        let transposed = [p.transpose_right, p.transpose_left];
        let operation = Operation::new(compute, scale, transposed)?;
        let preference = Preference::new()?;
        // SAFETY: all descriptors live through the call.
        let found = unsafe {
            result::get_matmul_algo_heuristic(
                self.0,
                operation.0,
                right.0,
                left.0,
                output.0,
                output.0,
                preference.0,
            )?
        };
        Ok(Some(MatmulPlan {
            operation,
            left,
            right,
            output,
            algorithm: found.algo,
            workspace: found.workspaceSize,
            double: p.dtype == DType::F64,
        }))
    }

    /// Submits a GEMM to a stream.
    ///
    /// # Safety
    /// The addresses are those of two inputs and an output as large as the GEMM's, and of a workspace of its length;
    /// nothing else uses the output and the workspace until the stream has run it.
    pub(super) unsafe fn submit(
        &self,
        plan: &MatmulPlan,
        [left, right, output]: [Address; 3],
        workspace: Address,
        stream: CUstream,
    ) -> Result<(), GpuError> {
        let (single, double) = ([1.0f32, 0.0], [1.0f64, 0.0]);
        let factors: [*const c_void; 2] = match plan.double {
            true => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            false => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        let output = output as usize as *mut c_void;
        // SAFETY: by the caller's promise; the factors are read before the call returns.
        let submitted = unsafe {
            result::matmul(
                self.0,
                plan.operation.0,
                factors[0],
                factors[1],
                right as usize as *const c_void,
                plan.right.0,
                left as usize as *const c_void,
                plan.left.0,
                output,
                plan.output.0,
                output,
                plan.output.0,
                &plan.algorithm,
                workspace as usize as *mut c_void,
                plan.workspace,
                stream.cast(),
            )
        };
        submitted.map_err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_added_up_in_at_least_single_precision() {
        let single = cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let double = cublasComputeType_t::CUBLAS_COMPUTE_64F;
        use cudaDataType::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_64F};
        for (dtype, expected) in [
            (DType::F16, Some((CUDA_R_16F, single, CUDA_R_32F))),
            (DType::BF16, Some((CUDA_R_16BF, single, CUDA_R_32F))),
            (DType::F32, Some((CUDA_R_32F, single, CUDA_R_32F))),
            (DType::F64, Some((CUDA_R_64F, double, CUDA_R_64F))),
            (DType::I32, None),
        ] {
            assert_eq!(types(dtype), expected, "{dtype}");
        }
    }
}
