//! Errors of GPUs and of CUDA's libraries.

use std::path::PathBuf;

use thiserror::Error;

/// Errors of GPUs and of CUDA's libraries.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A library of CUDA is not there.
    #[error(
        "{name} is missing: looked for {} {}; {advice}",
        .files.join(", "),
        places(.folders)
    )]
    Missing {
        /// Its name: `the NVIDIA driver`.
        name: &'static str,
        /// The names of files that were searched for.
        files: Vec<String>,
        /// The folders that the loader searches beside its own.
        folders: Vec<PathBuf>,
        /// Advice on how to get it.
        advice: &'static str,
    },
    /// A library of CUDA is there, and is too old or none of CUDA's.
    #[error("{name} has no function {function}: {advice}")]
    Lacking {
        /// Its name: `the NVIDIA driver`.
        name: &'static str,
        /// The missing function.
        function: &'static str,
        /// Advice on how to get one that has it.
        advice: &'static str,
    },
    /// A build without the feature `cuda`.
    #[error("the program is built without GPUs: add the feature `cuda` of the package `thalweg`")]
    WithoutCuda,
    /// The driver is there, and no GPU.
    #[error("the driver finds no GPU: see what `nvidia-smi` and CUDA_VISIBLE_DEVICES say")]
    NoCard,
    /// There is no card of this number.
    #[error("there is no GPU number {number}: the driver finds {count}, counted from 0")]
    NoSuchCard {
        /// The request.
        number: usize,
        /// Number of cards.
        count: usize,
    },
    /// The driver is older than the code that it is to load.
    #[error(
        "the driver is one for CUDA {}.{}, and CUDA {needed}.0 is the least for this compiler of kernels: update the NVIDIA driver",
        .found / 1000, .found % 1000 / 10
    )]
    OldDriver {
        /// The version of CUDA that the driver is for: 1000 times the major one and 10 times the
        /// minor.
        found: i32,
        /// The least major version.
        needed: i32,
    },
    /// A call of the driver failed.
    #[error("the driver could not {what}: {reason}")]
    Driver {
        /// The purpose of the call.
        what: &'static str,
        /// The driver's name of the error.
        reason: String,
    },
    /// The driver has no communicators between processes.
    #[error("this GPU does nothing together with those of other processes")]
    NoCommunicators,
    /// There is not enough memory.
    #[error("the GPU has no {bytes} bytes of memory free: make the batch or the model smaller")]
    OutOfMemory {
        /// The request.
        bytes: usize,
    },
    /// Kernels do not compile.
    #[error("kernels/{file}.cu does not compile for {architecture} with {options:?}:\n{log}")]
    Compile {
        /// The file.
        file: &'static str,
        /// The architecture that it was compiled for.
        architecture: String,
        /// The compiler's options.
        options: Vec<String>,
        /// The compiler's log.
        log: String,
    },
}

fn places(folders: &[PathBuf]) -> String {
    match folders {
        [] => "where the system's loader looks (LD_LIBRARY_PATH is not set)".to_owned(),
        all => {
            let all: Vec<String> = all.iter().map(|f| f.display().to_string()).collect();
            format!("in {} and where the system's loader looks", all.join(", "))
        }
    }
}
