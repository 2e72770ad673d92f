//! Sessions over several CPU devices.

use thalweg::prelude::*;
use thalweg::session::Parallel;

/// Options with `count` CPU devices that run nodes in parallel, however small.
pub fn cpus(count: usize) -> SessionOptions {
    let mut options = SessionOptions::new().cpus(count);
    options.parallel = Parallel::Always;
    options
}
