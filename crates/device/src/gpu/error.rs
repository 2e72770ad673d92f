//! What can go wrong with a GPU and what it needs.

use std::path::PathBuf;

use thiserror::Error;

/// What can go wrong with a GPU and what it needs.
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
        /// What it is: `the NVIDIA driver`.
        name: &'static str,
        /// The names of files under which it was looked for.
        files: Vec<String>,
        /// The folders that the loader was told to look into, beside its own.
        folders: Vec<PathBuf>,
        /// How to get it.
        advice: &'static str,
    },
    /// A library of CUDA is there, and is too old or none of CUDA's.
    #[error("{name} has no function {function}: {advice}")]
    Lacking {
        /// What it is: `the NVIDIA driver`.
        name: &'static str,
        /// What it does not have.
        function: &'static str,
        /// How to get one that has.
        advice: &'static str,
    },
    /// The driver is there, and no GPU.
    #[error("the driver finds no GPU: see what `nvidia-smi` and CUDA_VISIBLE_DEVICES say")]
    NoCard,
    /// There is no card of this number.
    #[error("there is no GPU number {number}: the driver finds {count}, counted from 0")]
    NoSuchCard {
        /// What was asked for.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// The driver is older than what it is asked to load.
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
        /// What was to be done.
        what: &'static str,
        /// The driver's name of the error.
        reason: String,
    },
    /// The driver is none that GPUs of several processes meet by.
    #[error("this GPU does nothing together with those of other processes")]
    NoCommunicators,
    /// There is no memory for what is asked for.
    #[error("the GPU has no {bytes} bytes of memory free: make the batch or the model smaller")]
    OutOfMemory {
        /// What was asked for.
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
        /// What the compiler says.
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
