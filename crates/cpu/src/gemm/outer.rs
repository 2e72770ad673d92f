//! Products with an inner dimension of 1: a GEMM by tiles would spend its time on copies of operands.

use super::{Gemm, GemmBatch};
use crate::number::Arithmetic;
use crate::scratch::for_chunks;
use crate::{Cpu, Vectorize};

/// Elements of a task of outer products.
const OUTER_TASK: usize = 16 << 10;

/// `c = a b`, many times, where `k` is 1: each line of a result is the row `b` times a number.
pub(super) fn outer_products<S: Arithmetic>(
    cpu: Cpu<'_>,
    p: &Gemm,
    many: GemmBatch,
    [a, b]: [&[S]; 2],
    c: &mut [S],
) {
    let lines = (OUTER_TASK / p.n).max(1);
    for_chunks(cpu.pool, c, lines * p.n, &|task, c| {
        let first = task * lines;
        cpu.isa.run_over::<S, _>(OuterProducts {
            p,
            many,
            a,
            b,
            c,
            first,
        });
    });
}

/// Lines of outer products, from line `first` of all results on.
struct OuterProducts<'a, S> {
    p: &'a Gemm,
    many: GemmBatch,
    a: &'a [S],
    b: &'a [S],
    c: &'a mut [S],
    first: usize,
}

impl<S: Arithmetic> Vectorize for OuterProducts<'_, S> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (i, line) in self.c.chunks_exact_mut(self.p.n).enumerate() {
            let (result, row) = ((self.first + i) / self.p.m, (self.first + i) % self.p.m);
            let x = self.a[result * self.many.steps[0] + row];
            let b = &self.b[result * self.many.steps[1]..][..self.p.n];
            for (y, &b) in line.iter_mut().zip(b) {
                *y = x.mul(b);
            }
        }
    }
}
