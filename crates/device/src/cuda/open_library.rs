//! Opening of CUDA's libraries, with a check of the functions that are called, and their versions.

use super::Library;
use super::cublaslt::CublasLtApi;
use super::cudnn::{self, CudnnApi};
use super::driver_api::DriverApi;
use super::nccl::NcclApi;
use super::nvrtc::NvrtcApi;
use super::opened::OpenedLibrary;
use crate::gpu::GpuError;

impl Library {
    /// Opens it, and checks that it has the functions that are called.
    ///
    /// # Errors
    /// [`GpuError::Missing`], with the places that were searched and how to get it; [`GpuError::Lacking`] where it is
    /// another than it should be.
    pub fn open(self) -> Result<OpenedLibrary, GpuError> {
        let opened = match self {
            Library::Cudnn => cudnn::open_library()?,
            _ => OpenedLibrary::open(self)?,
        };
        match self {
            Library::Driver => DriverApi::of(&opened).map(drop),
            Library::Nvrtc => NvrtcApi::of(&opened).map(drop),
            Library::CublasLt => CublasLtApi::of(&opened).map(drop),
            Library::Cudnn => CudnnApi::of(&opened).map(drop),
            Library::Nccl => NcclApi::of(&opened).map(drop),
        }?;
        Ok(opened)
    }

    /// Returns its version number: `cuDNN 9.26.0` is 92600. `None` for one that is not there or does not report it.
    pub fn version(self) -> Option<u64> {
        self.version_of(&self.open().ok()?)
    }

    /// The version number of one that is open.
    pub(super) fn version_of(self, opened: &OpenedLibrary) -> Option<u64> {
        match self {
            Library::Driver => {
                let version = DriverApi::of(opened).ok()?.version().ok()?;
                u64::try_from(version).ok()
            }
            Library::Nvrtc => {
                let (major, minor) = NvrtcApi::of(opened).ok()?.version().ok()?;
                u64::try_from(major * 1000 + minor * 10).ok()
            }
            Library::CublasLt => returned(opened, "cublasLtGetVersion"),
            Library::Cudnn => returned(opened, "cudnnGetVersion"),
            Library::Nccl => None,
        }
    }
}

/// The version that a library's function of this name returns, which takes nothing and gives a `size_t`.
fn returned(library: &OpenedLibrary, name: &'static str) -> Option<u64> {
    // SAFETY: the two functions of this kind that are called have this type.
    let version = unsafe {
        library
            .function::<unsafe extern "C" fn() -> usize>(name)
            .ok()?
    };
    // SAFETY: as above.
    Some(unsafe { version() } as u64)
}
