//! Loops of all reductions: rows and columns in blocks of a fixed size, combined in a fixed order.

use std::ops::Range;

use smallvec::SmallVec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::{Disjoint, for_chunks};
use thalweg_device::{Cpu, KernelError, Prepare, Prepared};
use thalweg_tensor::Element;
use thalweg_tensor::shape::elements;

use super::axes::reduced;
use super::layout::{ReductionLayout, SHORT_ROW, TILE};
use crate::support::elementwise::CHUNK;

/// Number of elements of a row that are combined in parallel.
const LANES: usize = 32;
/// As [`LANES`], for shorter rows.
const SHORT_LANES: usize = 8;
/// Number of elements that one accumulator takes before it is combined into the next: keeps rounding errors small.
const BLOCK: usize = 64;
/// Number of columns below which several rows are combined in parallel.
const NARROW_COLUMNS: usize = 64;

/// A reduction: a commutative monoid, up to rounding.
pub(super) trait Fold: Copy + Send + Sync + 'static {
    /// An element of the input.
    type In: Element;
    /// Accumulator.
    type Acc: Element;
    /// An element of the output.
    type Out: Element;
    /// Neutral element.
    fn empty(self) -> Self::Acc;
    /// Initial accumulator: combining it with another one gives the other one exactly.
    fn start(self) -> Self::Acc {
        self.empty()
    }
    /// Accumulator of one element.
    fn lift(self, x: Self::In) -> Self::Acc;
    /// Combines two accumulators.
    fn join(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Output of an accumulator.
    fn finish(self, acc: Self::Acc) -> Self::Out;
}

/// Kernel of a node with the axes in input 1.
pub(super) fn over_axes<F: Fold>(p: &Prepare<'_>, fold: F) -> Result<Prepared, KernelError> {
    Ok(over(p.dims(0), &reduced(p)?, fold))
}

/// Kernel that reduces dimensions `reduced` of input 0, which has dimensions `dims`.
pub(super) fn over<F: Fold>(dims: &[usize], reduced: &[bool], fold: F) -> Prepared {
    let n = elements(dims);
    if n == 0 {
        return Prepared::new(0, move |cx| {
            cx.output::<F::Out>(0)?.fill(fold.finish(fold.empty()));
            Ok(())
        });
    }
    let layout = ReductionLayout::new(dims, reduced);
    let partials = match layout.segments {
        1 => 0,
        segments => segments * layout.outputs(),
    };
    Prepared::new(n, move |cx| {
        let (x, out) = (cx.input::<F::In>(0)?, cx.output::<F::Out>(0)?);
        if layout.segments == 1 {
            run(
                cx.cpu(),
                &layout,
                fold,
                x,
                &TaskOutput::Output(Disjoint::new(out)),
            );
            return Ok(());
        }
        let partials = cx.scratch::<F::Acc>(partials)?;
        let to = TaskOutput::Partials(Disjoint::new(partials));
        run(cx.cpu(), &layout, fold, x, &to);
        let (outputs, chunk) = (out.len(), (CHUNK / layout.segments).max(1));
        for_chunks(cx.pool(), out, chunk, &|i, part| {
            for (j, out) in part.iter_mut().enumerate() {
                let own = partials.iter().skip(i * chunk + j).step_by(outputs);
                let acc = own.copied().reduce(|a, b| fold.join(a, b));
                *out = fold.finish(acc.unwrap_or(fold.start()));
            }
        });
        Ok(())
    })
    .with_scratch(partials * size_of::<F::Acc>())
}

/// Destination of a task's result.
enum TaskOutput<'a, F: Fold> {
    /// The output, for finished results.
    Output(Disjoint<'a, F::Out>),
    /// Accumulators of all segments.
    Partials(Disjoint<'a, F::Acc>),
}

fn run<F: Fold>(cpu: &Cpu, layout: &ReductionLayout, fold: F, x: &[F::In], to: &TaskOutput<'_, F>) {
    cpu.pool().parallel_for(layout.tasks(), &|task| {
        cpu.isa().run_over::<F::In, _>(FoldTask {
            layout,
            fold,
            x,
            to,
            task,
        });
    });
}

struct FoldTask<'a, F: Fold> {
    layout: &'a ReductionLayout,
    fold: F,
    x: &'a [F::In],
    to: &'a TaskOutput<'a, F>,
    task: usize,
}

impl<F: Fold> Vectorize for FoldTask<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let l = self.layout;
        let groups = l.outer.div_ceil(l.group);
        let (rest, tile) = (self.task / l.tiles, self.task % l.tiles);
        let (segment, group) = (rest / groups, rest % groups);
        let outputs = group * l.group..l.outer.min((group + 1) * l.group);
        if let (TaskOutput::Output(out), true) = (self.to, l.has_short_rows()) {
            // SAFETY: each triple of segment, output and tile belongs to one task.
            let out = unsafe { out.slice(outputs.start, outputs.len()) };
            match l.rows {
                2 => self.short_rows::<2>(outputs, out),
                3 => self.short_rows::<3>(outputs, out),
                4 => self.short_rows::<4>(outputs, out),
                _ => self.short_rows::<SHORT_ROW>(outputs, out),
            }
            return;
        }
        let column = tile * TILE;
        let width = TILE.min(l.columns - column);
        let mut sums = TileSums::<F>::new();
        let mut block = TileSums::<F>::new();
        for i in outputs {
            sums.clear();
            if l.columns == 1 {
                let sum = self.line(segment, l.output(i));
                sums.push(sum);
            } else {
                let from = l.output(i) + column;
                self.columns(segment, from, width, &mut sums, &mut block);
            }
            let at = (segment * l.outer + i) * l.columns + column;
            match self.to {
                TaskOutput::Output(out) => {
                    // SAFETY: each triple of segment, output and tile belongs to one task.
                    let out = unsafe { out.slice(at, width) };
                    for (out, &sum) in out.iter_mut().zip(&sums) {
                        *out = self.fold.finish(sum);
                    }
                }
                TaskOutput::Partials(out) => {
                    // SAFETY: as above.
                    unsafe { out.slice(at, width) }.copy_from_slice(&sums[..width]);
                }
            }
        }
    }
}

/// Accumulators of a tile's columns, on the stack.
type TileSums<F> = SmallVec<[<F as Fold>::Acc; TILE]>;

impl<F: Fold> FoldTask<'_, F> {
    /// Pieces of a segment: the offset of each from its output's first element, and its number of rows.
    #[inline(always)]
    fn pieces(&self, segment: usize) -> impl Iterator<Item = (usize, usize)> {
        let l = self.layout;
        let first = segment * l.per_segment;
        (first..l.all_pieces.min(first + l.per_segment)).map(|piece| {
            // Avoids divisions, which would cost more than a short row.
            if l.pieces == 1 {
                return (l.slab(piece), l.rows);
            }
            let row = piece % l.pieces * l.piece;
            let at = l.slab(piece / l.pieces) + row * l.columns;
            (at, l.piece.min(l.rows - row))
        })
    }

    /// Reduces rows of `N` elements, which is known to the compiler, or of fewer.
    #[inline(always)]
    fn short_rows<const N: usize>(&self, outputs: Range<usize>, out: &mut [F::Out]) {
        let (l, fold) = (self.layout, self.fold);
        let rows = l.rows.min(N);
        for (i, out) in outputs.zip(out) {
            let row = &self.x[l.output(i)..][..rows];
            let join = |sum, &x| fold.join(sum, fold.lift(x));
            *out = fold.finish(match row.first_chunk::<N>() {
                Some(row) => row.iter().fold(fold.start(), join),
                None => row.iter().fold(fold.start(), join),
            });
        }
    }

    /// Reduces all elements of a segment with one output.
    #[inline(always)]
    fn line(&self, segment: usize, from: usize) -> F::Acc {
        let fold = self.fold;
        let mut sum = fold.start();
        for (at, rows) in self.pieces(segment) {
            let (whole, rest) = self.x[from + at..][..rows].as_chunks::<LANES>();
            for block in whole.chunks(BLOCK) {
                sum = fold.join(sum, lanes(fold, block));
            }
            let (few, rest) = rest.as_chunks::<SHORT_LANES>();
            if !few.is_empty() {
                sum = fold.join(sum, lanes(fold, few));
            }
            for &x in rest {
                sum = fold.join(sum, fold.lift(x));
            }
        }
        sum
    }

    /// Reduces each of `width` columns of a segment into `sums`.
    #[inline(always)]
    fn columns(
        &self,
        segment: usize,
        from: usize,
        width: usize,
        sums: &mut TileSums<F>,
        block: &mut TileSums<F>,
    ) {
        let (fold, columns) = (self.fold, self.layout.columns);
        // Several narrow rows are processed as one wide row, since they are contiguous.
        let rows_in_parallel = (NARROW_COLUMNS / columns).clamp(1, self.layout.piece);
        let (step, wide) = (rows_in_parallel * columns, rows_in_parallel * width);
        sums.resize(wide, fold.start());
        for (at, rows) in self.pieces(segment) {
            let x = &self.x[from + at..];
            let whole = rows / rows_in_parallel;
            for first in (0..whole).step_by(BLOCK) {
                block.clear();
                block.resize(wide, fold.start());
                let end = whole.min(first + BLOCK);
                let mut row = first;
                while row + 4 <= end {
                    let r = |i: usize| &x[(row + i) * step..][..wide];
                    let rows = r(0).iter().zip(r(1)).zip(r(2)).zip(r(3));
                    for (sum, (((&a, &b), &c), &d)) in block.iter_mut().zip(rows) {
                        let ab = fold.join(fold.lift(a), fold.lift(b));
                        let cd = fold.join(fold.lift(c), fold.lift(d));
                        *sum = fold.join(*sum, fold.join(ab, cd));
                    }
                    row += 4;
                }
                for row in row..end {
                    join_row(fold, block, &x[row * step..][..wide]);
                }
                for (sum, &block) in sums.iter_mut().zip(block.iter()) {
                    *sum = fold.join(*sum, block);
                }
            }
            if rows_in_parallel > 1 {
                let rest = &x[whole * step..rows * columns];
                join_row(fold, &mut sums[..rest.len()], rest);
            }
        }
        let (own, others) = sums.split_at_mut(width);
        for other in others.chunks(width) {
            for (sum, &other) in own.iter_mut().zip(other) {
                *sum = fold.join(*sum, other);
            }
        }
    }
}

#[inline(always)]
fn join_row<F: Fold>(fold: F, sums: &mut [F::Acc], row: &[F::In]) {
    for (sum, &x) in sums.iter_mut().zip(row) {
        *sum = fold.join(*sum, fold.lift(x));
    }
}

/// Reduces all elements of `parts`, `N` at a time.
#[inline(always)]
fn lanes<F: Fold, const N: usize>(fold: F, parts: &[[F::In; N]]) -> F::Acc {
    let mut lanes = [fold.start(); N];
    for part in parts {
        for (lane, &x) in lanes.iter_mut().zip(part) {
            *lane = fold.join(*lane, fold.lift(x));
        }
    }
    let mut n = N / 2;
    while n > 0 {
        let (low, high) = lanes.split_at_mut(n);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low = fold.join(*low, high);
        }
        n /= 2;
    }
    lanes[0]
}
