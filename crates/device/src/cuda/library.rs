//! CUDA's libraries: the names of their files, the functions that are called, and their versions.

use std::path::PathBuf;

use cudarc::get_lib_name_candidates;

use crate::gpu::GpuError;

/// Functions of the driver that are called.
const DRIVER_FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxGetCurrent",
    "cuCtxEnablePeerAccess",
    "cuDeviceCanAccessPeer",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyAsync",
    "cuMemsetD8Async",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventDestroy_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphLaunch",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
];

/// Functions of the compiler that are called.
const NVRTC_FUNCTIONS: &[&str] = &[
    "nvrtcVersion",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcCompileProgram",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
];

/// Functions of cuBLASLt that are called.
const CUBLASLT_FUNCTIONS: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmul",
];

/// The names of NCCL: the first is that in NVIDIA's wheels and packages.
const NCCL_NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

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

    fn stem(self) -> &'static str {
        match self {
            Library::Driver => "cuda",
            Library::Nvrtc => "nvrtc",
            Library::CublasLt => "cublasLt",
            Library::Cudnn => "cudnn",
            Library::Nccl => "nccl",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Library::Driver => {
                "install NVIDIA's driver for this machine's card; without a card, ask for /cpu:0"
            }
            Library::Nvrtc => {
                "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and put its `lib` \
                 folder into LD_LIBRARY_PATH"
            }
            Library::CublasLt => {
                "install the CUDA toolkit, or `pip install nvidia-cublas` and put its `lib` folder \
                 into LD_LIBRARY_PATH"
            }
            Library::Cudnn => {
                "install cuDNN 9, or `pip install nvidia-cudnn-cu13` and put its `lib` folder into \
                 LD_LIBRARY_PATH"
            }
            Library::Nccl => {
                "install NCCL, or `pip install nvidia-nccl-cu13` and put its `lib` folder into \
                 LD_LIBRARY_PATH"
            }
        }
    }

    /// Checks that it can be opened. It is opened for this, which takes a while: call it once.
    ///
    /// # Errors
    /// [`GpuError::Missing`], with the places that were searched and how to get it; [`GpuError::Lacking`] where it is
    /// another than it should be.
    pub fn open(self) -> Result<(), GpuError> {
        if self == Library::Cudnn {
            // Engines of cuDNN call cuBLASLt; where that is missing, they end the process.
            Library::CublasLt.open()?;
        }
        // SAFETY: opening one of NVIDIA's libraries runs its initialization, and nothing else.
        let present = unsafe {
            match self {
                Library::Driver => cudarc::driver::sys::is_culib_present(),
                Library::Nvrtc => cudarc::nvrtc::sys::is_culib_present(),
                Library::CublasLt => cudarc::cublaslt::sys::is_culib_present(),
                Library::Cudnn => cudarc::cudnn::sys::is_culib_present(),
                Library::Nccl => return Library::nccl().map(drop),
            }
        };
        match present {
            true => self.has_functions(),
            false => Err(self.missing()),
        }
    }

    /// NCCL, opened.
    ///
    /// # Errors
    /// [`GpuError::Missing`].
    pub(super) fn nccl() -> Result<libloading::Library, GpuError> {
        // SAFETY: as in `open`.
        let open = |name: &&str| unsafe { libloading::Library::new(*name).ok() };
        let opened = NCCL_NAMES.iter().find_map(open);
        opened.ok_or_else(|| Library::Nccl.missing())
    }

    /// Returns its version number: `cuDNN 9.26.0` is 92600. `None` for one that is not there or does not report it.
    pub fn version(self) -> Option<u64> {
        self.open().ok()?;
        // SAFETY: the library is there, and each function is of the type that its header gives it.
        unsafe {
            match self {
                Library::Driver => {
                    let mut version = 0;
                    cudarc::driver::sys::cuDriverGetVersion(&mut version);
                    u64::try_from(version).ok()
                }
                Library::Nvrtc => {
                    let (mut major, mut minor) = (0, 0);
                    cudarc::nvrtc::sys::nvrtcVersion(&mut major, &mut minor);
                    u64::try_from(major * 1000 + minor * 10).ok()
                }
                Library::CublasLt => told(cudarc::cublaslt::sys::culib(), "cublasLtGetVersion"),
                Library::Cudnn => told(cudarc::cudnn::sys::culib(), "cudnnGetVersion"),
                Library::Nccl => None,
            }
        }
    }

    /// Checks that the library, which is there, has the functions that are called.
    fn has_functions(self) -> Result<(), GpuError> {
        // SAFETY: the library is there; the function that is looked up is not called.
        let library = unsafe {
            match self {
                Library::Driver => cudarc::driver::sys::culib(),
                Library::Nvrtc => cudarc::nvrtc::sys::culib(),
                Library::CublasLt => cudarc::cublaslt::sys::culib(),
                // These report missing functions when they are used.
                Library::Cudnn | Library::Nccl => return Ok(()),
            }
        };
        let names = match self {
            Library::Driver => DRIVER_FUNCTIONS,
            Library::Nvrtc => NVRTC_FUNCTIONS,
            Library::CublasLt => CUBLASLT_FUNCTIONS,
            Library::Cudnn | Library::Nccl => &[],
        };
        // SAFETY: as above.
        let has = |name: &str| unsafe { library.get::<*const ()>(name.as_bytes()).is_ok() };
        match names.iter().find(|name| !has(name)) {
            None => Ok(()),
            Some(function) => Err(self.lacking(function)),
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

    fn missing(self) -> GpuError {
        let paths = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        // The names with a version are what systems have; the others are variations.
        let plain = format!("lib{}.so", self.stem());
        let names = match self {
            Library::Nccl => NCCL_NAMES.map(str::to_owned).to_vec(),
            other => get_lib_name_candidates(other.stem()),
        };
        GpuError::Missing {
            name: self.name(),
            files: names
                .into_iter()
                .filter(|n| n.starts_with(&plain))
                .collect(),
            folders: std::env::split_paths(&paths)
                .filter(|p| p.components().next().is_some())
                .collect::<Vec<PathBuf>>(),
            advice: self.advice(),
        }
    }
}

/// Reads the version that a library's function returns.
///
/// # Safety
/// A function of this name takes nothing and gives a `size_t`.
unsafe fn told(library: &libloading::Library, name: &str) -> Option<u64> {
    // SAFETY: by the caller's promise.
    unsafe {
        let version = library.get::<unsafe extern "C" fn() -> usize>(name.as_bytes());
        version.ok().map(|version| version() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(library: Library) -> Vec<String> {
        match library.missing() {
            GpuError::Missing { files, .. } => files,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_missing_library_is_looked_for_by_the_names_that_systems_give_it() {
        for (library, stem, name) in [
            (Library::Driver, "libcuda.so", "the NVIDIA driver"),
            (
                Library::Nvrtc,
                "libnvrtc.so",
                "NVRTC, the compiler of CUDA kernels,",
            ),
            (Library::CublasLt, "libcublasLt.so", "cuBLASLt"),
            (Library::Cudnn, "libcudnn.so", "cuDNN"),
            (Library::Nccl, "libnccl.so", "NCCL"),
        ] {
            let files = files(library);
            assert!(
                !files.is_empty() && files.iter().all(|f| f.starts_with(stem)),
                "{files:?}"
            );
            let text = library.missing().to_string();
            assert!(
                text.starts_with(&format!("{name} is missing: looked for {stem}")),
                "{text}"
            );
            assert!(text.ends_with(library.advice()), "{text}");
        }
        assert_eq!(files(Library::Nccl), NCCL_NAMES);
    }

    #[test]
    fn a_library_that_is_too_old_is_told_from_a_missing_one() {
        assert_eq!(
            Library::Nccl.lacking("ncclCommFinalize").to_string(),
            "NCCL has no function ncclCommFinalize: install NCCL, or `pip install nvidia-nccl-cu13` and put its `lib` \
             folder into LD_LIBRARY_PATH"
        );
    }

    #[test]
    fn every_library_has_a_name_and_advice_of_its_own() {
        let distinct = |of: fn(Library) -> &'static str| {
            let all: std::collections::BTreeSet<&str> = Library::ALL.into_iter().map(of).collect();
            all.len()
        };
        let counts = [Library::name, Library::stem, Library::advice].map(distinct);
        assert_eq!(counts, [Library::ALL.len(); 3]);
    }
}
