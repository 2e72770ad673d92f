//! Traces of warmed-up steps.

use thalweg::session::Trace;

/// Steps before the traced one. The first steps compile the plan and allocate its memory, which takes several times as
/// long.
const WARMUP: u64 = 8;

/// Runs traced steps, and returns the trace of the last one, which is warmed up.
///
/// # Errors
/// The first of a step.
pub fn warmed_up<E>(mut step: impl FnMut() -> Result<Trace, E>) -> Result<Trace, E> {
    for _ in 0..WARMUP {
        step()?;
    }
    step()
}
