//! Collectives, on ranks that are threads of this process, each with a session of its own on the same graph.

mod order;
mod values;
mod world;

use thalweg_session::{Parallel, SessionOptions};

/// The ways to run a step: in sequence, in parallel, over two devices.
pub fn modes() -> [SessionOptions; 3] {
    let options = || SessionOptions::new().threads(2);
    [
        options().parallel(Parallel::Never),
        options().parallel(Parallel::Always),
        options().cpus(2).parallel(Parallel::Always),
    ]
}
