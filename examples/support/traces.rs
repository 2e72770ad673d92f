//! Traces that say how a step usually runs.

use thalweg::session::Trace;

/// Steps that come before the traced one: the first ones of a plan make it and get its memory, which takes
/// several times as long.
const WARMUP: u64 = 8;

/// Runs traced steps, and gives the trace of the last one, which is warmed up.
///
/// # Errors
/// The first of a step.
pub fn warmed_up<E>(mut step: impl FnMut() -> Result<Trace, E>) -> Result<Trace, E> {
    for _ in 0..WARMUP {
        step()?;
    }
    step()
}
