//! Library of the tests: golden tables and graphs, runtimes for op cases, reference implementations, random graphs, an
//! emulated GPU, emulated networks, servers and processes.

pub mod addresses;
pub mod chrome_trace;
pub mod cpus;
pub mod emulated;
pub mod emulated_gpu;
pub mod endless_training;
pub mod folders;
pub mod golden;
pub mod golden_graphs;
pub mod gpu_branches;
pub mod gpu_lists;
pub mod gpu_loops;
pub mod gpu_steps;
pub mod gpu_training;
pub mod gpu_updates;
pub mod gradients;
pub mod interpreter;
pub mod large_cases;
pub mod launched_functions;
pub mod line;
pub mod naive_libraries;
#[cfg(target_os = "linux")]
pub mod network;
pub mod processes;
pub mod random_graph;
pub mod recording_terminal;
pub mod runtime;
pub mod scattered_graphs;
pub mod servers;
pub mod session;
pub mod synchronous_training;
pub mod tasks;
pub mod test_gpu;
pub mod without_libraries;

use std::path::PathBuf;

/// Root folder of the tests' data, laid out as in the repository. `THALWEG_ROOT` names it where the programs run
/// without the repository that they were compiled in.
pub fn root() -> PathBuf {
    let named = std::env::var_os("THALWEG_ROOT");
    named.map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/..").into(),
        PathBuf::from,
    )
}
