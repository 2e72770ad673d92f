//! GEMMs by cuBLASLt. It takes matrices that lie column by column; one that lies row by row is,
//! to it, its own transpose, so that the GEMM's transpose is asked for: the right input first.

mod api;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cudaDataType,
};
use thalweg_tensor::DType;

pub(super) use api::CublasLtApi;
use api::{Algorithm, CublasCode, HeuristicResult, Raw};

use super::driver_api::Stream;
use super::opened::OpenedLibrary;
use super::{Library, MAX_CANDIDATES};
use crate::gpu::{ALIGNMENT, Address, Gemm, GpuError};

/// The most bytes that a GEMM may work with.
const MAX_WORKSPACE: usize = 32 << 20;

/// CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of a sum are added up in the dtype of the arithmetic, in a fixed order.
/// Other schemes add them up in the dtype of the output, or in place.
const REDUCTION_SCHEMES: u32 = 2;

/// cuBLASLt, opened.
#[derive(Debug)]
pub(super) struct Gemms {
    api: CublasLtApi,
    handle: Raw,
    /// The library's file.
    pub(super) path: PathBuf,
    /// Its version, where it reports one.
    pub(super) version: Option<u64>,
}

// SAFETY: a handle of cuBLASLt may be used by several threads at once.
unsafe impl Send for Gemms {}
// SAFETY: as above.
unsafe impl Sync for Gemms {}

impl Drop for Gemms {
    fn drop(&mut self) {
        // SAFETY: made by `open`, and not used any more.
        let _ = unsafe { (self.api.destroy)(self.handle) };
    }
}

/// A GEMM that is ready: descriptors, and one of the library's algorithms for them.
#[derive(Debug)]
pub(super) struct MatmulPlan {
    described: Arc<Described>,
    algorithm: Algorithm,
    pub(super) workspace: usize,
}

/// The descriptors of a GEMM.
#[derive(Debug)]
struct Described {
    operation: Descriptor,
    left: Descriptor,
    right: Descriptor,
    output: Descriptor,
    /// Factors come as `f64` where elements do, and as `f32` otherwise.
    double: bool,
}

/// A descriptor of the library, given back when it is dropped.
#[derive(Debug)]
struct Descriptor {
    at: Raw,
    destroy: unsafe extern "C" fn(Raw) -> u32,
}

// SAFETY: descriptors belong to no thread, and are only read once they are made.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to `destroy`, and not used any more.
        let _ = unsafe { (self.destroy)(self.at) };
    }
}

impl Descriptor {
    /// Sets an attribute, which the library copies.
    ///
    /// # Safety
    /// `set` belongs to this kind of descriptor, and the attribute is of type `T`.
    unsafe fn set<T: Copy>(
        &self,
        set: unsafe extern "C" fn(Raw, c_int, *const c_void, usize) -> u32,
        attribute: c_int,
        value: T,
    ) -> Result<(), CublasCode> {
        // SAFETY: the descriptor lives; the value lives through the call.
        CublasCode::of(unsafe {
            set(
                self.at,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }
}

fn error(e: CublasCode) -> GpuError {
    GpuError::Driver {
        what: "multiply matrices by cuBLASLt",
        reason: e.to_string(),
    }
}

/// Types of elements and of their arithmetic: halves are computed as `f32`, and `f32` as itself or as TF32.
fn types(dtype: DType, tf32: bool) -> Option<(cudaDataType, cublasComputeType_t, cudaDataType)> {
    let single = match tf32 && dtype == DType::F32 {
        true => cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        false => cublasComputeType_t::CUBLAS_COMPUTE_32F,
    };
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

impl CublasLtApi {
    /// The layout of matrices that lie row by row, `[rows, columns]`, with so many elements from one to the next.
    fn layout(
        &self,
        dtype: cudaDataType,
        [rows, columns]: [usize; 2],
        (batches, step): (usize, usize),
    ) -> Result<Descriptor, CublasCode> {
        let mut at = std::ptr::null_mut();
        let (width, height) = (columns as u64, rows as u64);
        // SAFETY: the library writes a layout there.
        CublasCode::of(unsafe {
            (self.create_layout)(&mut at, dtype as c_int, width, height, columns as i64)
        })?;
        let layout = Descriptor {
            at,
            destroy: self.destroy_layout,
        };
        let count = LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as c_int;
        let offset = LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as c_int;
        // SAFETY: the attributes are of these types.
        unsafe {
            layout.set(self.set_layout, count, batches as i32)?;
            layout.set(self.set_layout, offset, step as i64)?;
        }
        Ok(layout)
    }

    fn operation(
        &self,
        compute: cublasComputeType_t,
        scale: cudaDataType,
        [first, second]: [bool; 2],
    ) -> Result<Descriptor, CublasCode> {
        let mut at = std::ptr::null_mut();
        // SAFETY: the library writes an operation there.
        CublasCode::of(unsafe {
            (self.create_operation)(&mut at, compute as c_int, scale as c_int)
        })?;
        let operation = Descriptor {
            at,
            destroy: self.destroy_operation,
        };
        for (attribute, transpose) in [
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, first),
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, second),
        ] {
            // CUBLAS_OP_T and CUBLAS_OP_N. SAFETY: the attribute is of this type.
            unsafe {
                operation.set(self.set_operation, attribute as c_int, i32::from(transpose))?;
            }
        }
        Ok(operation)
    }

    fn preference(&self) -> Result<Descriptor, CublasCode> {
        let mut at = std::ptr::null_mut();
        // SAFETY: the library writes a preference there.
        CublasCode::of(unsafe { (self.create_preference)(&mut at) })?;
        let preference = Descriptor {
            at,
            destroy: self.destroy_preference,
        };
        let bytes = PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as c_int;
        let schemes = PreferenceAttribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK as c_int;
        // SAFETY: the attributes are of these types.
        unsafe {
            preference.set(self.set_preference, bytes, MAX_WORKSPACE)?;
            preference.set(self.set_preference, schemes, REDUCTION_SCHEMES)?;
        }
        for attribute in [
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            // SAFETY: as above.
            unsafe { preference.set(self.set_preference, attribute as c_int, ALIGNMENT as u32)? };
        }
        Ok(preference)
    }
}

impl Gemms {
    /// Opens the library for the context that the thread is in.
    ///
    /// # Errors
    /// [`GpuError::Missing`], [`GpuError::Lacking`], [`GpuError::Driver`].
    pub(super) fn open() -> Result<Gemms, GpuError> {
        let library = OpenedLibrary::open(Library::CublasLt)?;
        let api = CublasLtApi::of(&library)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library writes a handle there.
        CublasCode::of(unsafe { (api.create)(&mut handle) }).map_err(error)?;
        Ok(Gemms {
            api,
            handle,
            path: library.path().to_owned(),
            version: Library::CublasLt.version_of(&library),
        })
    }

    /// Plans for a GEMM, the best by the library's heuristics first; at least one.
    ///
    /// # Errors
    /// The reason that the library does not compute it. It is no error of the program: kernels of our own compute then.
    pub(super) fn plans(&self, p: &Gemm, tf32: bool) -> Result<Vec<MatmulPlan>, String> {
        let Some((dtype, compute, scale)) = types(p.dtype, tf32) else {
            return Err(format!("cuBLASLt does not multiply {}", p.dtype));
        };
        let plans = self.planned(p, dtype, compute, scale);
        let plans = plans.map_err(|e| format!("cuBLASLt: {e}"))?;
        match plans.is_empty() {
            true => Err("cuBLASLt knows no algorithm for it".to_owned()),
            false => Ok(plans),
        }
    }

    fn planned(
        &self,
        p: &Gemm,
        dtype: cudaDataType,
        compute: cublasComputeType_t,
        scale: cudaDataType,
    ) -> Result<Vec<MatmulPlan>, CublasCode> {
        let swap = |rows, columns, transposed| match transposed {
            true => [columns, rows],
            false => [rows, columns],
        };
        let left = swap(p.rows, p.depth, p.transpose_left);
        let right = swap(p.depth, p.columns, p.transpose_right);
        let output = (p.batches, p.rows * p.columns);
        let transposed = [p.transpose_right, p.transpose_left];
        let described = Arc::new(Described {
            operation: self.api.operation(compute, scale, transposed)?,
            left: self.api.layout(dtype, left, (p.batches, p.left_step))?,
            right: self.api.layout(dtype, right, (p.batches, p.right_step))?,
            output: self.api.layout(dtype, [p.rows, p.columns], output)?,
            double: p.dtype == DType::F64,
        });
        let preference = self.api.preference()?;
        let mut found = [HeuristicResult::EMPTY; MAX_CANDIDATES];
        let mut count = 0;
        // SAFETY: all descriptors live through the call, and there is room for so many results.
        CublasCode::of(unsafe {
            (self.api.heuristic)(
                self.handle,
                described.operation.at,
                described.right.at,
                described.left.at,
                described.output.at,
                described.output.at,
                preference.at,
                found.len() as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        })?;
        let count = usize::try_from(count).unwrap_or(0).min(found.len());
        let usable = found[..count].iter().filter(|f| f.state == 0);
        let usable = usable.filter(|f| f.workspace <= MAX_WORKSPACE);
        let plans = usable.map(|f| MatmulPlan {
            described: described.clone(),
            algorithm: f.algorithm,
            workspace: f.workspace,
        });
        Ok(plans.collect())
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
        stream: Stream,
    ) -> Result<(), GpuError> {
        let (single, double) = ([1.0f32, 0.0], [1.0f64, 0.0]);
        let described = &*plan.described;
        let factors: [*const c_void; 2] = match described.double {
            true => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            false => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        let output = output as usize as *mut c_void;
        // SAFETY: by the caller's promise; the factors are read before the call returns.
        let submitted = unsafe {
            (self.api.matmul)(
                self.handle,
                described.operation.at,
                factors[0],
                right as usize as *const c_void,
                described.right.at,
                left as usize as *const c_void,
                described.left.at,
                factors[1],
                output,
                described.output.at,
                output,
                described.output.at,
                &plan.algorithm,
                workspace as usize as *mut c_void,
                plan.workspace,
                stream,
            )
        };
        CublasCode::of(submitted).map_err(error)
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
            assert_eq!(types(dtype, false), expected, "{dtype}");
            let fast = types(dtype, true).map(|(_, compute, _)| compute);
            let may = fast == Some(cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32);
            assert_eq!(may, dtype == DType::F32, "{dtype}");
        }
    }
}
