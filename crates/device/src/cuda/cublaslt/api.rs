//! The functions of cuBLASLt that are called. Each returns a number, which [`CublasCode`] reads.

use std::ffi::{c_int, c_void};
use std::fmt;

use crate::cuda::opened::OpenedLibrary;
use crate::gpu::GpuError;

/// One of the library's own pointers.
pub(super) type Raw = *mut c_void;

/// An algorithm, as the library lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Algorithm([u64; 8]);

/// A result of the library's heuristics, as it lays it out. The state is a number: newer libraries have codes that no list
/// has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct HeuristicResult {
    pub(super) algorithm: Algorithm,
    pub(super) workspace: usize,
    pub(super) state: u32,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

impl HeuristicResult {
    /// Room for a result.
    pub(super) const EMPTY: HeuristicResult = HeuristicResult {
        algorithm: Algorithm([0; 8]),
        workspace: 0,
        state: 0,
        waves: 0.0,
        reserved: [0; 4],
    };
}

/// A code of the library that is none of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CublasCode(u32);

impl CublasCode {
    /// From the return value of a function.
    ///
    /// # Errors
    /// The code, unless it is 0.
    pub(super) fn of(code: u32) -> Result<(), CublasCode> {
        match code {
            0 => Ok(()),
            code => Err(CublasCode(code)),
        }
    }
}

impl fmt::Display for CublasCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "CUBLAS_STATUS_NOT_INITIALIZED",
            3 => "CUBLAS_STATUS_ALLOC_FAILED",
            7 => "CUBLAS_STATUS_INVALID_VALUE",
            8 => "CUBLAS_STATUS_ARCH_MISMATCH",
            11 => "CUBLAS_STATUS_MAPPING_ERROR",
            13 => "CUBLAS_STATUS_EXECUTION_FAILED",
            14 => "CUBLAS_STATUS_INTERNAL_ERROR",
            15 => "CUBLAS_STATUS_NOT_SUPPORTED",
            16 => "CUBLAS_STATUS_LICENSE_ERROR",
            code => return write!(f, "cuBLAS's status {code}"),
        };
        f.write_str(name)
    }
}

type Create = unsafe extern "C" fn(*mut Raw) -> u32;
type Destroy = unsafe extern "C" fn(Raw) -> u32;
type SetAttribute = unsafe extern "C" fn(Raw, c_int, *const c_void, usize) -> u32;

/// cublasLtMatmulAlgoGetHeuristic: the handle, the operation, four layouts, the preference, room for so many results, and
/// their number.
type Heuristic = unsafe extern "C" fn(
    Raw,
    Raw,
    Raw,
    Raw,
    Raw,
    Raw,
    Raw,
    c_int,
    *mut HeuristicResult,
    *mut c_int,
) -> u32;

/// cublasLtMatmul: the handle, the operation, factor and two inputs with their layouts, factor, input and output with their
/// layouts, the algorithm, the workspace and its bytes, and the stream.
type Matmul = unsafe extern "C" fn(
    Raw,
    Raw,
    *const c_void,
    *const c_void,
    Raw,
    *const c_void,
    Raw,
    *const c_void,
    *const c_void,
    Raw,
    *mut c_void,
    Raw,
    *const Algorithm,
    *mut c_void,
    usize,
    *mut c_void,
) -> u32;

/// The library's functions, with the types of `cublasLt.h`; enums are numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct CublasLtApi {
    pub(super) create: Create,
    pub(super) destroy: Destroy,
    pub(super) create_layout: unsafe extern "C" fn(*mut Raw, c_int, u64, u64, i64) -> u32,
    pub(super) set_layout: SetAttribute,
    pub(super) destroy_layout: Destroy,
    pub(super) create_operation: unsafe extern "C" fn(*mut Raw, c_int, c_int) -> u32,
    pub(super) set_operation: SetAttribute,
    pub(super) destroy_operation: Destroy,
    pub(super) create_preference: Create,
    pub(super) set_preference: SetAttribute,
    pub(super) destroy_preference: Destroy,
    pub(super) heuristic: Heuristic,
    pub(super) matmul: Matmul,
}

impl CublasLtApi {
    /// The functions of the library.
    ///
    /// # Errors
    /// [`GpuError::Lacking`] where it does not have one.
    pub(in crate::cuda) fn of(library: &OpenedLibrary) -> Result<CublasLtApi, GpuError> {
        // SAFETY: the fields have the types of the functions in `cublasLt.h`, enums as numbers.
        unsafe {
            Ok(CublasLtApi {
                create: library.function("cublasLtCreate")?,
                destroy: library.function("cublasLtDestroy")?,
                create_layout: library.function("cublasLtMatrixLayoutCreate")?,
                set_layout: library.function("cublasLtMatrixLayoutSetAttribute")?,
                destroy_layout: library.function("cublasLtMatrixLayoutDestroy")?,
                create_operation: library.function("cublasLtMatmulDescCreate")?,
                set_operation: library.function("cublasLtMatmulDescSetAttribute")?,
                destroy_operation: library.function("cublasLtMatmulDescDestroy")?,
                create_preference: library.function("cublasLtMatmulPreferenceCreate")?,
                set_preference: library.function("cublasLtMatmulPreferenceSetAttribute")?,
                destroy_preference: library.function("cublasLtMatmulPreferenceDestroy")?,
                heuristic: library.function("cublasLtMatmulAlgoGetHeuristic")?,
                matmul: library.function("cublasLtMatmul")?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_laid_out_as_in_the_librarys_header() {
        assert_eq!(size_of::<HeuristicResult>(), 64 + 8 + 4 + 4 + 16);
        let text = |code| CublasCode::of(code).unwrap_err().to_string();
        assert_eq!(text(15), "CUBLAS_STATUS_NOT_SUPPORTED");
        assert_eq!(text(99), "cuBLAS's status 99");
    }
}
