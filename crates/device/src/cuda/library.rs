//! CUDA's libraries: their names, versions, and the errors of missing ones.

use super::cublaslt::CublasLtApi;
use super::cudnn::CudnnApi;
use super::driver_api::DriverApi;
use super::nccl::NcclApi;
use super::nvrtc::NvrtcApi;
use super::opened::OpenedLibrary;
use super::search::SearchFolders;
use crate::gpu::GpuError;

/// A library of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The driver, which comes with the graphics card's own.
    Driver,
    /// The compiler of kernels.
    Nvrtc,
    /// GEMMs.
    CublasLt,
    /// Convolutions.
    Cudnn,
    /// Sums over several GPUs.
    Nccl,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 5] = [
        Library::Driver,
        Library::Nvrtc,
        Library::CublasLt,
        Library::Cudnn,
        Library::Nccl,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Library::Driver => "the NVIDIA driver",
            Library::Nvrtc => "NVRTC, the compiler of CUDA kernels,",
            Library::CublasLt => "cuBLASLt",
            Library::Cudnn => "cuDNN",
            Library::Nccl => "NCCL",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Library::Driver => {
                "install NVIDIA's driver for this machine's card; without a card, ask for /cpu:0"
            }
            Library::Nvrtc => {
                "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and name its `lib` \
                 folder in THALWEG_CUDA_LIBRARIES"
            }
            Library::CublasLt => {
                "install the CUDA toolkit, or `pip install nvidia-cublas` and name its `lib` folder \
                 in THALWEG_CUDA_LIBRARIES"
            }
            Library::Cudnn => {
                "install cuDNN 9, or `pip install nvidia-cudnn-cu13` and name its `lib` folder in \
                 THALWEG_CUDA_LIBRARIES"
            }
            Library::Nccl => {
                "install NCCL, or `pip install nvidia-nccl-cu13` and name its `lib` folder in \
                 THALWEG_CUDA_LIBRARIES"
            }
        }
    }

    /// Opens it, and checks that it has the functions that are called.
    ///
    /// # Errors
    /// [`GpuError::Missing`], with the places that were searched and how to get it; [`GpuError::Lacking`] where it is
    /// another than it should be.
    pub fn open(self) -> Result<OpenedLibrary, GpuError> {
        if self == Library::Cudnn {
            // Engines of cuDNN call cuBLASLt; where that is missing, they end the process.
            Library::CublasLt.open()?;
        }
        let opened = OpenedLibrary::open(self)?;
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
        let opened = self.open().ok()?;
        match self {
            Library::Driver => {
                let version = DriverApi::of(&opened).ok()?.version().ok()?;
                u64::try_from(version).ok()
            }
            Library::Nvrtc => {
                let (major, minor) = NvrtcApi::of(&opened).ok()?.version().ok()?;
                u64::try_from(major * 1000 + minor * 10).ok()
            }
            Library::CublasLt => returned(&opened, "cublasLtGetVersion"),
            Library::Cudnn => returned(&opened, "cudnnGetVersion"),
            Library::Nccl => None,
        }
    }

    /// The error of a library that does not have a function.
    pub(super) fn lacking(self, function: &'static str) -> GpuError {
        GpuError::Lacking {
            name: self.name(),
            function,
            advice: self.advice(),
        }
    }

    /// The error of a library that is in none of these folders, nor where the system's loader looks.
    pub(super) fn missing(self, folders: SearchFolders) -> GpuError {
        GpuError::Missing {
            name: self.name(),
            files: self.files().iter().map(|&f| f.to_owned()).collect(),
            folders: [folders.before, folders.after].concat(),
            advice: self.advice(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_looked_for_by_the_names_that_systems_give_it() {
        for library in Library::ALL {
            let text = library.missing(SearchFolders::default()).to_string();
            let [first, ..] = library.files() else {
                panic!("{library:?} has no file");
            };
            let start = format!("{} is missing: looked for {first}, ", library.name());
            assert!(text.starts_with(&start), "{text}");
            assert!(text.ends_with(library.advice()), "{text}");
        }
    }

    #[test]
    fn a_library_that_is_too_old_is_told_from_a_missing_one() {
        assert_eq!(
            Library::Nccl.lacking("ncclCommFinalize").to_string(),
            "NCCL has no function ncclCommFinalize: install NCCL, or `pip install nvidia-nccl-cu13` and name its `lib` \
             folder in THALWEG_CUDA_LIBRARIES"
        );
    }

    #[test]
    fn every_library_has_a_name_and_advice_of_its_own() {
        let distinct = |of: fn(Library) -> &'static str| {
            let all: std::collections::BTreeSet<&str> = Library::ALL.into_iter().map(of).collect();
            all.len()
        };
        let counts = [Library::name, Library::advice].map(distinct);
        assert_eq!(counts, [Library::ALL.len(); 2]);
    }
}
