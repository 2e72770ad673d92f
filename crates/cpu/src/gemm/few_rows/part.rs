//! Parts of a GEMM of few rows: rows of `B` that are added up, or multiplied with rows of `A`.

use super::super::fused::FusedMulAdd;
use super::super::shape::Gemm;
use crate::isa::Vectorize;

/// Rows of `B` that are read side by side.
const ROW_GROUP: usize = 8;
/// Columns of `B` that are read before the next row of `A`: with [`ROW_GROUP`] rows, they fit the first-level cache.
const COLUMN_BLOCK: usize = 512;
/// Columns of `B` that are few: the sums of a row of `C` then stay in registers.
const FEW_COLUMNS: usize = 16;

/// `count` steps of the inner dimension from `at` on, summed to `c`.
pub(super) struct FewRowsPart<'a, T> {
    pub p: &'a Gemm,
    pub a: &'a [T],
    pub b: &'a [T],
    /// `true` if all of `b` is finite.
    pub finite: bool,
    pub c: &'a mut [T],
    pub at: usize,
    pub count: usize,
}

impl<T: FusedMulAdd> Vectorize for FewRowsPart<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(mut self) {
        if self.p.n <= FEW_COLUMNS {
            for i in 0..self.p.m {
                self.few(i);
            }
            return;
        }
        self.c.fill(T::zeroed());
        // Rows of `B` that are added next.
        let (mut rows, mut deep) = ([0; ROW_GROUP], 0);
        for q in self.at..self.at + self.count {
            rows[deep] = q;
            let nothing = |i: usize| factor(self.p, self.a, i, q) == T::zeroed();
            let left_out = self.finite && (0..self.p.m).all(nothing);
            deep += usize::from(!left_out);
            if deep == ROW_GROUP {
                self.add_rows(rows);
                deep = 0;
            }
        }
        for &q in &rows[..deep] {
            self.add_rows([q]);
        }
    }
}

/// Returns the factor of row `q` of `B` for row `i` of `C`.
#[inline(always)]
fn factor<T: FusedMulAdd>(p: &Gemm, a: &[T], i: usize, q: usize) -> T {
    match p.transpose_a {
        true => a[q * p.m + i],
        false => a[i * p.k + q],
    }
}

impl<T: FusedMulAdd> FewRowsPart<'_, T> {
    /// Row `i` of `C`, of few columns. Rows of `B` are read as if they had [`FEW_COLUMNS`], as long as there are elements
    /// behind them; their products are left out.
    #[inline(always)]
    fn few(&mut self, i: usize) {
        let (n, end) = (self.p.n, self.at + self.count);
        let mut sums = [T::zeroed(); FEW_COLUMNS];
        let whole = self
            .b
            .len()
            .checked_sub(FEW_COLUMNS)
            .map_or(0, |last| last / n + 1);
        let whole = whole.clamp(self.at, end);
        for q in self.at..whole {
            let x = factor(self.p, self.a, i, q);
            let row = &self.b[q * n..][..FEW_COLUMNS];
            for j in 0..FEW_COLUMNS {
                sums[j] = x.fused(row[j], sums[j]);
            }
        }
        for q in whole..end {
            let x = factor(self.p, self.a, i, q);
            let row = &self.b[q * n..][..n];
            for (sum, &b) in sums.iter_mut().zip(row) {
                *sum = x.fused(b, *sum);
            }
        }
        self.c[i * n..][..n].copy_from_slice(&sums[..n]);
    }

    #[inline(always)]
    fn add_rows<const N: usize>(&mut self, rows: [usize; N]) {
        let (m, n) = (self.p.m, self.p.n);
        for col in (0..n).step_by(COLUMN_BLOCK) {
            let cols = COLUMN_BLOCK.min(n - col);
            for i in 0..m {
                let x = rows.map(|q| factor(self.p, self.a, i, q));
                let rows = rows.map(|q| &self.b[q * n + col..][..cols]);
                add(x, rows, &mut self.c[i * n + col..][..cols]);
            }
        }
    }
}

/// Adds rows of `B`, each times a number of `A`, in order.
#[inline(always)]
fn add<T: FusedMulAdd, const N: usize>(x: [T; N], rows: [&[T]; N], c: &mut [T]) {
    let rows = rows.map(|r| &r[..c.len()]);
    for (j, c) in c.iter_mut().enumerate() {
        let mut sum = *c;
        for (x, row) in x.iter().zip(rows) {
            sum = x.fused(row[j], sum);
        }
        *c = sum;
    }
}

/// Adds the numbers of a slice, which may be longer.
pub(super) fn add_up<T: FusedMulAdd>(c: &mut [T], from: &[T]) {
    c.iter_mut().zip(from).for_each(|(c, &s)| *c += s);
}

/// Numbers that are summed side by side.
const LANES: usize = 32;

/// Dot products of a row of `A` with rows of `B`.
pub(super) struct Dots<'a, T> {
    pub a: &'a [T],
    pub b: &'a [T],
    pub c: &'a mut [T],
}

impl<T: FusedMulAdd> Vectorize for Dots<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (a, a_rest) = self.a.as_chunks::<LANES>();
        for (c, row) in self.c.iter_mut().zip(self.b.chunks_exact(self.a.len())) {
            let (b, b_rest) = row.as_chunks::<LANES>();
            let mut sums = [T::zeroed(); LANES];
            for (a, b) in a.iter().zip(b) {
                for ((sum, a), &b) in sums.iter_mut().zip(a).zip(b) {
                    *sum = a.fused(b, *sum);
                }
            }
            let mut sum = T::zeroed();
            for lane in sums {
                sum += lane;
            }
            for (a, &b) in a_rest.iter().zip(b_rest) {
                sum = a.fused(b, sum);
            }
            *c = sum;
        }
    }
}
