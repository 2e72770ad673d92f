//! Sessions over several CPU devices.

use thalweg::prelude::*;
use thalweg::session::Parallel;

/// Options with `count` CPU devices that run nodes in parallel, however small.
pub fn cpus(count: usize) -> SessionOptions {
    SessionOptions::new().cpus(count).parallel(Parallel::Always)
}
