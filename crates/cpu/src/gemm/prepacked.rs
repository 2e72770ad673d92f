//! GEMMs whose `B` lies in panels before: for one that several products take.

use super::run::run_tasks;
use super::task::{GemmPlan, GemmTask};
use super::{Element, Gemm, GemmBatch, few_rows};
use crate::{Cpu, Epilogue, Isa};

/// The number of elements of `B` in panels; `None` for a GEMM that reads `B` where it lies, or widens it.
pub fn gemm_packed_len<T: Element>(isa: Isa, p: &Gemm) -> Option<usize> {
    let few_rows = few_rows::FewRowsPlan::new::<T>(isa, p).is_some();
    let own = T::as_sums(&[]).is_some();
    if few_rows || !own || p.m * p.n * p.k == 0 {
        return None;
    }
    let plan = GemmPlan::of::<T>(isa, 1, p, GemmBatch::ONE);
    p.k.checked_mul(plan.padded_cols())
}

/// Copies `B` into panels. They serve a GEMM of any number of rows.
///
/// # Panics
/// If a slice is not as long as the shape and [`gemm_packed_len`] say.
pub fn gemm_pack<T: Element>(cpu: Cpu<'_>, p: &Gemm, b: &[T], to: &mut [T]) {
    assert_eq!(Some(to.len()), gemm_packed_len::<T>(cpu.isa, p));
    assert_eq!(b.len(), p.n * p.k, "the operand does not fit {p:?}");
    let plan = GemmPlan::of::<T>(cpu.isa, 1, p, GemmBatch::ONE);
    let task = GemmTask::whole(cpu.isa, p, &plan);
    let Some(to) = T::as_sums_mut(to) else {
        return;
    };
    for number in 0.. {
        let Some(block) = task.block([&[], b], number) else {
            break;
        };
        let panels = &mut to[block.at * plan.padded_cols()..][..block.inner * plan.padded_cols()];
        task.copy_b(block, panels);
    }
}

/// As [`gemm`](super::gemm), of a `B` in panels.
///
/// # Panics
/// If a slice is not as long as the shape says, or the scratch is too small.
pub fn gemm_prepacked<T: Element>(
    cpu: Cpu<'_>,
    p: &Gemm,
    [a, panels]: [&[T]; 2],
    epilogue: Epilogue<'_, T::Sum>,
    c: &mut [T],
    scratch: &mut [u8],
) {
    assert_eq!(Some(panels.len()), gemm_packed_len::<T>(cpu.isa, p));
    assert_eq!(
        [a.len(), c.len()],
        [p.m * p.k, p.m * p.n],
        "operands do not fit {p:?}"
    );
    assert!(
        epilogue.fits(p.n, c),
        "one scale and one bias for each column of {p:?}, and its residual"
    );
    let plan = GemmPlan::of::<T>(cpu.isa, cpu.pool.threads(), p, GemmBatch::ONE).of_prepacked();
    run_tasks(cpu, p, &plan, [a, panels], epilogue, c, scratch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPool;
    use crate::gemm::{gemm, gemm_scratch};

    /// Numbers that look random.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        let number = |i: usize| ((i + seed).wrapping_mul(2_654_435_761) >> 7 & 0xff) as f32;
        (0..len).map(|i| number(i) / 64.0 - 2.0).collect()
    }

    #[test]
    fn a_product_of_a_packed_matrix_has_the_same_bits() {
        for threads in [1, 2] {
            let pool = ThreadPool::new(threads);
            for isa in Isa::available() {
                let cpu = Cpu { pool: &pool, isa };
                for (m, n, k) in [(9, 33, 5), (20, 800, 400), (64, 17, 600), (70, 256, 1030)] {
                    for at in 0..4 {
                        let p = Gemm {
                            m,
                            n,
                            k,
                            transpose_a: at % 2 == 1,
                            transpose_b: at / 2 == 1,
                        };
                        let (a, b) = (numbers(m * k, 1), numbers(n * k, 7));
                        let mut scratch = vec![0; gemm_scratch::<f32>(isa, threads, &p)];
                        let mut expected = vec![0.0; m * n];
                        let none = Epilogue::NONE;
                        gemm(cpu, &p, [&a, &b], None, none, &mut expected, &mut scratch);
                        let mut panels = vec![f32::NAN; gemm_packed_len::<f32>(isa, &p).unwrap()];
                        gemm_pack(cpu, &p, &b, &mut panels);
                        let mut found = vec![0.0; m * n];
                        gemm_prepacked(cpu, &p, [&a, &panels], none, &mut found, &mut scratch);
                        assert!(found == expected, "{isa:?} {threads} {p:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_product_of_few_rows_packs_nothing() {
        let p = Gemm {
            m: 4,
            n: 64,
            k: 64,
            transpose_a: false,
            transpose_b: false,
        };
        let isa = Isa::detect();
        assert_eq!(gemm_packed_len::<f32>(isa, &p), None);
        assert_eq!(
            gemm_packed_len::<half::bf16>(isa, &Gemm { m: 64, ..p }),
            None
        );
    }
}
