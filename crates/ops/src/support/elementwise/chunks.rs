//! Outputs of elementwise ops, in chunks for threads and in blocks on the stack.

use std::ops::Range;

use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{Cpu, Prepare, Prepared};
use thalweg_tensor::Element;

use super::block::BLOCK;
use super::walk::Walk;

/// Number of elements of a task: large enough to be worth a thread, small enough to balance.
pub(crate) const CHUNK: usize = 16 * 1024;

/// Runs `body(start, chunk)` over `out` in chunks.
pub(super) fn over_chunks<T: Send>(
    cpu: &Cpu,
    out: &mut [T],
    body: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    for_chunks(cpu.pool(), out, CHUNK, &|i, part| body(i * CHUNK, part));
}

/// Splits an output, whose elements are `width` items of `out` each, into runs of the inner loop and calls
/// `body(starts of the inputs, run)`.
pub(super) fn over_rows<T: Send>(
    cpu: &Cpu,
    walk: &Walk,
    out: &mut [T],
    width: usize,
    body: &(dyn Fn([usize; 2], &mut [T]) + Sync),
) {
    let (inner, steps) = walk.inner();
    if walk.rank() == 1 {
        return for_chunks(cpu.pool(), out, CHUNK * width, &|task, part| {
            body([task * CHUNK * steps[0], task * CHUNK * steps[1]], part);
        });
    }
    // Whole rows in a task, so that tasks depend on the shape only.
    let rows = (CHUNK / inner.max(1)).max(1);
    for_chunks(cpu.pool(), out, rows * inner * width, &|task, part| {
        for (i, row) in part.chunks_mut(inner * width).enumerate() {
            body(walk.start(task * rows + i), row);
        }
    });
}

/// Splits an output, whose elements are `width` items of `out` each, into blocks of whole rows, which are short, and calls
/// `body(rows, block)`.
pub(super) fn over_short_rows<T: Send>(
    cpu: &Cpu,
    walk: &Walk,
    out: &mut [T],
    width: usize,
    body: &(dyn Fn(Range<usize>, &mut [T]) + Sync),
) {
    let row = walk.inner().0 * width;
    let (rows, block) = (CHUNK * width / row, BLOCK * width / row);
    for_chunks(cpu.pool(), out, rows * row, &|task, part| {
        for (i, out) in part.chunks_mut(block * row).enumerate() {
            let first = task * rows + i * block;
            body(first..first + out.len() / row, out);
        }
    });
}

/// The elements from `at` on that a run of `len` reads with `step` 0 or 1.
pub(super) fn run_of<T>(input: &[T], at: usize, step: usize, len: usize) -> &[T] {
    &input[at..at + if step == 0 { 1 } else { len }]
}

/// `out = in`, broadcast to the output's shape.
pub(crate) fn copy_broadcast<T: Element>(p: &Prepare<'_>) -> Prepared {
    let out = p.output_dims(0);
    let walk = Walk::new(p.dims(0), out, out);
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let (a, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let (_, [step, _]) = walk.inner();
        over_rows(cx.cpu(), &walk, out, 1, &|[at, _], out| match step {
            0 => out.fill(a[at]),
            _ => out.copy_from_slice(run_of(a, at, step, out.len())),
        });
        Ok(())
    })
}
