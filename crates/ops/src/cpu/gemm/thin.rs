//! Products with a few rows, of a batch that is small: nearly all of their time goes into reading `B` once. It is
//! read as it lies, some rows at a time, so that memory is walked in order; to copy it into panels would cost more than
//! the product.

use bytemuck::Pod;

use super::{Element, Product};
use crate::cpu::Cpu;
use crate::cpu::par::{Disjoint, Scratch, for_lanes, lanes_scratch, part};
use crate::cpu::tile::{Ahead, Finish, Tile, Tiled, Tiles};
use thalweg_device::Isa;

/// The most rows, where tiles have as many: with more, a panel of `B` is used often enough to be copied.
const ROWS: usize = 8;
/// Rows of `B` that are read side by side.
const DEEP: usize = 16;
/// Panels of a task: some hundred bytes of each row.
const PANELS: usize = 8;

/// How a thin product is cut up: into strips of columns, by the shape alone.
pub(super) struct Plan<T: 'static> {
    tiles: Tiles<T>,
    panels: usize,
    strips: usize,
    /// Columns that are no whole vectors, and are copied: a tile reads whole ones.
    rest: bool,
}

impl<T: Tiled> Plan<T> {
    /// None where the product is not thin, or `B` does not lie as tiles read it.
    pub(super) fn new<E: Element<Sum = T>>(isa: Isa, p: &Product) -> Option<Plan<T>> {
        let own = E::as_sums(&[]).is_some();
        let tiles = T::tiles(isa);
        let thin = (1..=ROWS.min(tiles.rows())).contains(&p.m);
        if !own || !thin || p.transpose_b || p.n == 0 || p.k == 0 {
            return None;
        }
        let panels = p.n.div_ceil(tiles.cols());
        let lanes = tiles.cols() / 2;
        Some(Plan {
            tiles,
            panels,
            strips: panels.div_ceil(PANELS),
            rest: !p.n.is_multiple_of(lanes),
        })
    }

    fn lane(&self, p: &Product) -> usize {
        match self.rest {
            true => Scratch::bytes::<T>(p.k * self.tiles.cols()),
            false => 0,
        }
    }

    /// The scratch that it needs, in bytes.
    pub(super) fn scratch(&self, threads: usize, p: &Product) -> usize {
        lanes_scratch(self.strips, threads, self.lane(p))
    }
}

impl<T: Tiled + Pod + Send + Sync> Plan<T> {
    /// Computes the product.
    pub(super) fn run(
        &self,
        cpu: Cpu<'_>,
        p: &Product,
        (a, b): (&[T], &[T]),
        c: &Disjoint<'_, T>,
        scratch: &mut [u8],
    ) {
        let lane = self.lane(p);
        for_lanes(cpu.pool, self.strips, scratch, lane, &|strip, scratch| {
            self.strip(p, (a, b), c, strip, scratch);
        });
    }

    fn strip(
        &self,
        p: &Product,
        (a, b): (&[T], &[T]),
        c: &Disjoint<'_, T>,
        strip: usize,
        scratch: &mut [u8],
    ) {
        let width = self.tiles.cols();
        let (first, panels) = part(self.panels, self.strips, strip);
        let mut scratch = Scratch::new(scratch);
        // The last panel of all, where it ends within a vector.
        let copied = (self.rest && first + panels == self.panels).then(|| {
            let col = (self.panels - 1) * width;
            let copy = scratch.take::<T>(p.k * width);
            for (to, from) in copy.chunks_exact_mut(width).zip(b.chunks_exact(p.n)) {
                to[..p.n - col].copy_from_slice(&from[col..]);
                to[p.n - col..].fill(T::zeroed());
            }
            &*copy
        });
        let (a_row, a_col) = if p.transpose_a { (1, p.m) } else { (p.k, 1) };
        for at in (0..p.k).step_by(DEEP) {
            let len = DEEP.min(p.k - at);
            for panel in first..first + panels {
                let col = panel * width;
                let copied = copied.filter(|_| panel + 1 == self.panels);
                let (from, b_row) = match copied {
                    Some(copy) => (&copy[at * width..], width),
                    None => (&b[at * p.n + col..], p.n),
                };
                let tile = Tile {
                    a: a[at * a_col..].as_ptr(),
                    offsets: &[0],
                    len,
                    a_row,
                    a_col,
                    b: from.as_ptr(),
                    b_row,
                    c: c.pointer(col),
                    c_row: p.n,
                    cols: width.min(p.n - col),
                    add: at > 0,
                    finish: Finish::NONE,
                    ahead: Ahead {
                        // What lies behind the matrix is not read either.
                        at: from.as_ptr().wrapping_add(DEEP * b_row),
                        step: b_row,
                        count: len,
                    },
                };
                // SAFETY: `a` and `b` hold `len` steps of the inner dimension from `at` on, by the lengths that `gemm`
                // has checked; rows of `b` are read in whole vectors, which end within the row or are a copy's; the
                // columns of `c` are this task's alone.
                unsafe { self.tiles.run(p.m, &tile) };
            }
        }
    }
}
