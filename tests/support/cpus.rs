//! Sessions over several CPU devices.

use thalweg::prelude::*;
use thalweg::session::Parallel;

/// So many devices whose nodes run at the same time, however small.
pub fn cpus(count: usize) -> SessionOptions {
    let mut options = SessionOptions::new().cpus(count);
    options.parallel = Parallel::Always;
    options
}
