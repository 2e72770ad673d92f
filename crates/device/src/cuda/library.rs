//! CUDA's libraries: their names, their files, and the errors of missing ones.

use std::path::PathBuf;

use crate::gpu::GpuError;

/// A library of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// The names of its file, best first.
    pub(super) fn files(self) -> &'static [&'static str] {
        match self {
            Library::Driver => &["libcuda.so.1", "libcuda.so"],
            Library::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            Library::CublasLt => &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
            Library::Cudnn => &["libcudnn.so.9", "libcudnn.so"],
            Library::Nccl => &["libnccl.so.2", "libnccl.so"],
        }
    }

    /// Begins the names of files that it opens itself, by name: these are opened first, from its own folder.
    pub(super) fn parts(self) -> Option<&'static str> {
        match self {
            Library::Cudnn => Some("libcudnn_"),
            Library::Nvrtc => Some("libnvrtc-builtins.so"),
            Library::Driver | Library::CublasLt | Library::Nccl => None,
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
    pub(super) fn missing(self, folders: Vec<PathBuf>) -> GpuError {
        GpuError::Missing {
            name: self.name(),
            files: self.files().iter().map(|&f| f.to_owned()).collect(),
            folders,
            advice: self.advice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_looked_for_by_the_names_that_systems_give_it() {
        for library in Library::ALL {
            let text = library.missing(Vec::new()).to_string();
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
