//! The elementwise pass of batch normalization: a function of each element and of the values of its channel.

use crate::Vectorize;

use super::super::Cpu;
use super::super::scratch::for_chunks;
use super::channels::{BLOCK_ELEMENTS, Channels, spread};
use crate::number::Float;

/// Copies the values of each channel, the first items of each of these lists, to all of its columns.
pub fn to_columns<const N: usize>(g: &Channels, columns: &mut [&mut [f32]; N]) {
    if g.channels > 0 {
        columns.iter_mut().for_each(|c| spread(c, g.channels));
    }
}

/// Computes `out = f(a, b, of their column)` for each element. Without `a` it is read from `out`; without `b` it is not
/// used.
pub fn apply<T: Float<Wide = f32>, const N: usize>(
    cpu: Cpu<'_>,
    g: &Channels,
    a: Option<&[T]>,
    b: Option<&[T]>,
    out: &mut [T],
    columns: [&[f32]; N],
    f: impl Fn(f32, f32, [f32; N]) -> f32 + Copy + Sync,
) {
    // Whole folded rows, or whole lines.
    let row = if g.after == 1 { g.columns() } else { g.after };
    if out.is_empty() {
        return;
    }
    let rows = (2 * BLOCK_ELEMENTS / row).max(1);
    for_chunks(cpu.pool, out, rows * row, &|task, out| {
        let from = task * rows * row;
        let own = from..from + out.len();
        let (a, b) = (a.map(|a| &a[own.clone()]), b.map(|b| &b[own.clone()]));
        let (g, first) = (*g, task * rows);
        match (a, b) {
            (Some(a), Some(b)) => cpu.isa.run_over::<T, _>(Apply::<_, _, N, true, true> {
                g,
                first,
                a,
                b,
                out,
                columns,
                f,
            }),
            (Some(a), None) => {
                let b = &[];
                cpu.isa.run_over::<T, _>(Apply::<_, _, N, true, false> {
                    g,
                    first,
                    a,
                    b,
                    out,
                    columns,
                    f,
                })
            }
            (None, Some(b)) => {
                let a = &[];
                cpu.isa.run_over::<T, _>(Apply::<_, _, N, false, true> {
                    g,
                    first,
                    a,
                    b,
                    out,
                    columns,
                    f,
                })
            }
            (None, None) => {
                let (a, b) = (&[], &[]);
                cpu.isa.run_over::<T, _>(Apply::<_, _, N, false, false> {
                    g,
                    first,
                    a,
                    b,
                    out,
                    columns,
                    f,
                })
            }
        }
    });
}

struct Apply<'a, T, F, const N: usize, const A: bool, const B: bool> {
    g: Channels,
    /// The first row.
    first: usize,
    a: &'a [T],
    b: &'a [T],
    out: &'a mut [T],
    columns: [&'a [f32]; N],
    f: F,
}

impl<T, F, const N: usize, const A: bool, const B: bool> Vectorize for Apply<'_, T, F, N, A, B>
where
    T: Float<Wide = f32>,
    F: Fn(f32, f32, [f32; N]) -> f32 + Copy,
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Apply {
            g,
            first,
            a,
            b,
            out,
            columns,
            f,
        } = self;
        let of = |x: &[T], i: usize| x[i].widen();
        let row = if g.after == 1 { g.columns() } else { g.after };
        for (r, out) in out.chunks_mut(row).enumerate() {
            let (at, n) = (r * row, out.len());
            let a = if A { &a[at..at + n] } else { &[] };
            let b = if B { &b[at..at + n] } else { &[] };
            if g.after == 1 {
                let columns = columns.map(|c| &c[..n]);
                for (i, out) in out.iter_mut().enumerate() {
                    let a = if A { of(a, i) } else { out.widen() };
                    let b = if B { of(b, i) } else { 0.0 };
                    *out = T::narrow(f(a, b, columns.map(|c| c[i])));
                }
            } else {
                let own = columns.map(|c| c[(first + r) % g.channels]);
                for (i, out) in out.iter_mut().enumerate() {
                    let a = if A { of(a, i) } else { out.widen() };
                    let b = if B { of(b, i) } else { 0.0 };
                    *out = T::narrow(f(a, b, own));
                }
            }
        }
    }
}
