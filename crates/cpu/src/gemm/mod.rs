//! GEMMs: one (`gemm`), or many of one shape (`gemm_many`). Those of a few rows are read as they lie (`few_rows`),
//! others are cut (`task_grid`) into tasks (`task`) that copy most of their operands (`copy`, `packed`).
//!
//! ```
//! use thalweg_cpu::gemm::{Gemm, gemm, gemm_scratch};
//! use thalweg_cpu::{Cpu, Epilogue, Isa, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // C, of 2 x 2, is A, of 2 x 3, times B, of 3 x 2.
//! let shape = Gemm { m: 2, n: 2, k: 3, transpose_a: false, transpose_b: false };
//! let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let b = [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0];
//! let mut c = [0.0; 4];
//! let mut scratch = vec![0; gemm_scratch::<f32>(cpu.isa, pool.threads(), &shape)];
//! gemm(cpu, &shape, [&a, &b], None, Epilogue::NONE, &mut c, &mut scratch);
//! assert_eq!(c, [4.0, 5.0, 10.0, 11.0]);
//! ```

use bytemuck::Zeroable;

use super::scratch::{for_chunks, lanes_scratch};
use super::{Cpu, Epilogue};
use crate::Isa;
use outer::outer_products;
use run::run_tasks;
use task::GemmPlan;
use thalweg_tensor::Notes;

mod block;
mod copy;
mod element;
mod few_rows;
mod fused;
mod outer;
mod packed;
mod prepacked;
mod run;
mod shape;
mod task;
mod task_grid;
#[cfg(test)]
mod tests;

pub use element::Element;
pub use prepacked::{gemm_pack, gemm_packed_len, gemm_prepacked};
pub use shape::{Gemm, GemmBatch};

/// The scratch that [`gemm`] needs on this many threads, in bytes.
pub fn gemm_scratch<T: Element>(isa: Isa, threads: usize, gemm: &Gemm) -> usize {
    if let Some(plan) = few_rows::FewRowsPlan::new::<T>(isa, gemm) {
        return plan.scratch::<T>(gemm);
    }
    gemm_many_scratch::<T>(isa, threads, gemm, GemmBatch::ONE)
}

/// `c = a b`, and the epilogue. Sums are taken in [`Element::Sum`], in the order of the inner dimension, fused where the
/// machine does. The notes are those on all of `b`, where there are any.
///
/// # Panics
/// If a slice is not as long as the shape says, or the scratch is too small.
pub fn gemm<T: Element>(
    cpu: Cpu<'_>,
    p: &Gemm,
    [a, b]: [&[T]; 2],
    notes: Option<&Notes>,
    epilogue: Epilogue<'_, T::Sum>,
    c: &mut [T],
    scratch: &mut [u8],
) {
    if let Some(plan) = few_rows::FewRowsPlan::new::<T>(cpu.isa, p)
        && let (Some(a), Some(b)) = (T::as_sums(a), T::as_sums(b))
        && let Some(c) = T::as_sums_mut(c)
    {
        assert!(
            GemmBatch::ONE.fits(p, [a.len(), b.len(), c.len()]),
            "operands do not fit {p:?}"
        );
        assert!(epilogue.fits(p.n, c), "an epilogue of {} columns", p.n);
        plan.run(cpu, p, (a, b, notes), c, scratch);
        return epilogue.apply(cpu, p.n, 1, c);
    }
    gemm_many(cpu, p, GemmBatch::ONE, [a, b], epilogue, c, scratch);
}

/// The scratch that [`gemm_many`] needs on this many threads, in bytes.
pub fn gemm_many_scratch<T: Element>(isa: Isa, threads: usize, p: &Gemm, many: GemmBatch) -> usize {
    let plan = GemmPlan::of::<T>(isa, threads, p, many);
    lanes_scratch(plan.tasks(), threads, plan.lane(p.transpose_a))
}

/// `c = a b`, many times: see [`GemmBatch`], and [`gemm`] for a single one. The epilogue follows the whole of a sum.
///
/// # Panics
/// If a slice is not as long as the shapes say, results overlap, or the scratch is too small.
pub fn gemm_many<T: Element>(
    cpu: Cpu<'_>,
    p: &Gemm,
    many: GemmBatch,
    [a, b]: [&[T]; 2],
    epilogue: Epilogue<'_, T::Sum>,
    c: &mut [T],
    scratch: &mut [u8],
) {
    assert!(
        many.fits(p, [a.len(), b.len(), c.len()]),
        "operands do not fit {p:?}, {many:?}"
    );
    assert!(
        epilogue.fits(p.n, c),
        "one scale and one bias for each column of {p:?}, and its residual"
    );
    if p.m * p.n == 0 {
        return;
    }
    if p.k == 0 {
        // Every sum is of nothing.
        return for_chunks(cpu.pool, c, p.n, &|_, row| {
            for (i, y) in row.iter_mut().enumerate() {
                let sum = epilogue.of(i, T::Sum::zeroed());
                T::narrow(&[sum], std::slice::from_mut(y));
            }
        });
    }
    if p.k == 1
        && (many.gemms == 1 || many.steps[2] > 0)
        && epilogue.is_nothing()
        && let (Some(a), Some(b)) = (T::as_sums(a), T::as_sums(b))
        && let Some(c) = T::as_sums_mut(c)
    {
        return outer_products(cpu, p, many, [a, b], c);
    }
    let plan = GemmPlan::of::<T>(cpu.isa, cpu.pool.threads(), p, many);
    run_tasks(cpu, p, &plan, [a, b], epilogue, c, scratch);
}
