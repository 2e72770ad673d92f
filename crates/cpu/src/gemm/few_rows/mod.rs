//! GEMMs with a few rows, of a batch that is small: nearly all of their time goes into reading `B` once. It is
//! read as it lies, so that memory is walked in order; to copy it into panels would cost more than the GEMM. Rows of
//! `B` are added up, some at a time, each times a number of `A`; where `B` lies transposed, they are multiplied with rows
//! of `A`.
//!
//! A row of `B` that would be added times zero is not read, where all of `B` is known to be finite: in the output of a
//! rectifier, many numbers are zero. It becomes known by the first GEMM with finite results: an infinity or NaN in `B`
//! would have made some result one too, also times zero. The scan of `B` alternates its direction, GEMM after GEMM,
//! each thread over the same rows where there are two, so that those that its cache still holds come first. Bits do not
//! depend on the rows that are left out, but for the sign of a zero.

mod part;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use self::part::{Dots, FewRowsPart, add_up};
use super::element::Element;
use super::fused::FusedMulAdd;
use super::shape::Gemm;
use crate::Cpu;
use crate::isa::Isa;
use crate::scratch::{Disjoint, Scratch, for_chunks, part};
use thalweg_tensor::Notes;

/// Maximum number of rows: with more, a panel of `B` is used often enough to be copied.
const MAX_ROWS: usize = 8;
/// Maximum number of parts of the inner dimension, which are summed apart.
const MAX_PARTS: usize = 16;
/// Number of parts that are added up, in order, by the thread that has computed the last of them, and finds them in its
/// cache. These sums are added in order in the end.
const GROUP_PARTS: usize = 4;
/// Minimum bytes of `B` in a part.
const MIN_PART_BYTES: usize = 1 << 16;
/// Numbers of a task that adds parts up.
const TASK_SUMS: usize = 1 << 9;

/// The division of a GEMM of few rows, by the shape alone: along the inner dimension, into parts that are summed apart,
/// or, where `B` lies transposed, along its rows.
pub(super) struct FewRowsPlan {
    parts: usize,
}

impl FewRowsPlan {
    /// `None` where the GEMM has too many rows.
    pub(super) fn new<E: Element>(isa: Isa, p: &Gemm) -> Option<FewRowsPlan> {
        let own = E::as_sums(&[]).is_some();
        // Without instructions for it a fused GEMM is a call of a function.
        let fused = isa != Isa::portable();
        // Rows of `A` are read as such where they are multiplied with those of `B`.
        let lies = !(p.transpose_a && p.transpose_b);
        if !own || !fused || !lies || !(1..=MAX_ROWS).contains(&p.m) || p.n == 0 || p.k == 0 {
            return None;
        }
        let parts = (p.k * p.n * size_of::<E>())
            .div_ceil(MIN_PART_BYTES)
            .min(MAX_PARTS);
        let along = if p.transpose_b { p.n } else { p.k };
        Some(FewRowsPlan {
            parts: parts.min(along),
        })
    }

    /// The sums of the parts behind the first one.
    fn sums(&self, p: &Gemm) -> usize {
        match p.transpose_b {
            true => 0,
            false => (self.parts - 1) * p.m * p.n,
        }
    }

    /// The scratch that it needs, in bytes.
    pub(super) fn scratch<T>(&self, p: &Gemm) -> usize {
        Scratch::bytes::<T>(self.sums(p))
    }

    /// Computes the GEMM. The notes are those on all of `b`.
    pub(super) fn run<T: FusedMulAdd>(
        &self,
        cpu: Cpu<'_>,
        p: &Gemm,
        (a, b, notes): (&[T], &[T], Option<&Notes>),
        c: &mut [T],
        scratch: &mut [u8],
    ) {
        let from_end = self.parts > 1 && notes.is_some_and(Notes::flip_scan_direction);
        if p.transpose_b {
            let c = Disjoint::new(c);
            return self.each_part(cpu, from_end, &|which| {
                let (row, rows) = part(p.n, self.parts, which);
                let b = &b[row * p.k..][..rows * p.k];
                for (i, a) in a.chunks_exact(p.k).enumerate() {
                    // SAFETY: these columns of `c` are this task's alone.
                    let c = unsafe { c.slice(i * p.n + row, rows) };
                    cpu.isa.run(Dots { a, b, c });
                }
            });
        }
        let len = p.m * p.n;
        let sums = Scratch::new(scratch).take::<T>(self.sums(p));
        let finite = notes.is_some_and(|n| n.finite(T::DTYPE));
        {
            let (first, others) = (Disjoint::new(c), Disjoint::new(sums));
            // SAFETY: each part has sums of its own; the thread that asks for them has drawn it, or has seen its group
            // done.
            let sums = |which: usize| unsafe {
                match which {
                    0 => first.slice(0, len),
                    _ => others.slice((which - 1) * len, len),
                }
            };
            let done: [AtomicUsize; MAX_PARTS.div_ceil(GROUP_PARTS)] = Default::default();
            self.each_part(cpu, from_end, &|which| {
                let (at, count) = part(p.k, self.parts, which);
                cpu.isa.run(FewRowsPart {
                    p,
                    a,
                    b,
                    finite,
                    c: sums(which),
                    at,
                    count,
                });
                let group = which / GROUP_PARTS * GROUP_PARTS;
                let others = GROUP_PARTS.min(self.parts - group) - 1;
                if done[group / GROUP_PARTS].fetch_add(1, Ordering::AcqRel) == others {
                    let c = sums(group);
                    (1..=others).for_each(|i| add_up(c, sums(group + i)));
                }
            });
        }
        let look = !finite && self.parts > 1 && notes.is_some();
        if self.parts <= GROUP_PARTS && !look {
            return;
        }
        let (sums, found) = (&*sums, AtomicBool::new(false));
        for_chunks(cpu.pool, c, TASK_SUMS, &|chunk, c| {
            for group in (GROUP_PARTS..self.parts).step_by(GROUP_PARTS) {
                let from = &sums[(group - 1) * len + chunk * TASK_SUMS..];
                add_up(c, from);
            }
            if look && !c.iter().all(|c| c.finite()) {
                found.store(true, Ordering::Relaxed);
            }
        });
        if let Some(notes) = notes.filter(|_| look && !found.into_inner()) {
            notes.set_finite(T::DTYPE);
        }
    }

    /// Runs `body` for each part. A thread begins with parts that are its own each time, first to last or last to first,
    /// and then helps the others from where they end.
    fn each_part(&self, cpu: Cpu<'_>, from_end: bool, body: &(dyn Fn(usize) + Sync)) {
        let lanes = self.parts.min(cpu.pool.threads());
        let begun = AtomicU32::new(0);
        cpu.pool.parallel_for(lanes, &|lane| {
            for other in 0..lanes {
                let (first, count) = part(self.parts, lanes, (lane + other) % lanes);
                for i in 0..count {
                    let back = from_end != (other > 0);
                    let which = first + if back { count - 1 - i } else { i };
                    let bit = 1 << which;
                    if begun.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                        body(which);
                    }
                }
            }
        });
    }
}
