//! Adds up the partial gradients of a filter.

use super::Real;
use crate::Cpu;
use crate::scratch::for_chunks;

/// Number of elements of the gradient that a task adds up.
const TASK_ELEMENTS: usize = 4096;

/// Adds up gradients that lie one after the other.
pub(super) fn add_parts<T: Real>(cpu: Cpu<'_>, partials: &[T], filter_grad: &mut [T]) {
    let all = filter_grad.len();
    for_chunks(cpu.pool, filter_grad, TASK_ELEMENTS, &|chunk, to| {
        let len = to.len();
        let mut parts = partials
            .chunks_exact(all)
            .map(|p| &p[chunk * TASK_ELEMENTS..][..len]);
        if let Some(first) = parts.next() {
            to.copy_from_slice(first);
        }
        for part in parts {
            for (sum, x) in to.iter_mut().zip(part) {
                *sum += *x;
            }
        }
    });
}
