//! Batch normalization: sums over all elements of each channel, and a function of each element and of its channel.
//!
//! Sums are taken of blocks that stay in a core's cache, in `f32`, and added up in `f64`, so that their error does not
//! grow with the size of a batch. The squares of a block are taken around its own mean.
//!
//! The mean of each of two channels, and the sum of the squared distances from it:
//!
//! ```
//! use thalweg_cpu::batch_norm::{Channels, Moments, moments, sums};
//! use thalweg_cpu::{Cpu, Isa, Scratch, ThreadPool};
//!
//! let pool = ThreadPool::new(1);
//! let cpu = Cpu { pool: &pool, isa: Isa::detect() };
//! // Two rows; the channels come last.
//! let g = Channels { before: 2, channels: 2, after: 1 };
//! let x = [1.0f32, 10.0, 3.0, 30.0];
//! let mut bytes = vec![0; g.scratch::<3>()];
//! let sums = sums(cpu, &g, &Moments(&x), &mut Scratch::new(&mut bytes));
//! assert_eq!(moments(sums[0], g.count()), (2.0, 2.0));
//! assert_eq!(moments(sums[1], g.count()), (20.0, 200.0));
//! ```

mod apply;
mod terms;

use crate::Vectorize;
use thalweg_tensor::Element;

use super::Cpu;
use super::scratch::{Disjoint, Scratch, for_chunks};

pub use apply::{apply, to_columns};
pub use terms::{Moments, Products, moments};

/// A tensor as `[before, channels, after]`.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// The product of the dimensions before the channels.
    pub before: usize,
    /// The number of channels.
    pub channels: usize,
    /// The product of the dimensions behind the channels.
    pub after: usize,
}

/// Elements of a block of rows or of a piece of a line.
const BLOCK: usize = 8192;
/// Rows of a block at least, so that adding up blocks costs little.
const ROWS: usize = 32;
/// Elements of a task at least, where each has sums of its own for all channels.
const SHARE: usize = 1 << 16;
/// The most such tasks.
const TASKS: usize = 64;
/// Columns that rows are folded to at least, where there are fewer channels.
const COLUMNS: usize = 64;

impl Channels {
    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.before * self.channels * self.after
    }

    /// Elements of each channel.
    pub fn count(&self) -> usize {
        self.before * self.after
    }

    /// Rows of all channels that are taken together as one, where the channels come last.
    fn folded(&self) -> usize {
        if self.after == 1 && self.channels > 0 {
            (COLUMNS / self.channels).max(1)
        } else {
            1
        }
    }

    /// Values of each kind that elements meet: one for each channel, and for each column of a folded row.
    pub fn columns(&self) -> usize {
        self.channels * self.folded()
    }

    /// Rows of a task, where the channels come last.
    fn rows(&self) -> usize {
        let least = (SHARE / self.channels.max(1)).max(2 * ROWS);
        least.max(self.before.div_ceil(TASKS))
    }

    fn tasks(&self) -> usize {
        if self.after == 1 {
            self.before.div_ceil(self.rows())
        } else {
            1
        }
    }

    /// Bytes of scratch memory that [`sums`] needs.
    pub fn scratch<const N: usize>(&self) -> usize {
        let tasks = self.tasks();
        Scratch::bytes::<[f64; N]>(tasks * self.channels)
            + Scratch::bytes::<f32>(tasks * N * self.columns())
    }
}

/// `N` sums of each channel.
pub trait Sums<const N: usize>: Sync {
    /// The elements.
    type Elem: Element;

    /// Adds what whole rows have, whose first element is `at`; `temp` is as long as `N` folded rows, and `sums` has an
    /// item for each channel.
    fn rows(&self, at: usize, len: usize, temp: &mut [f32], sums: &mut [[f64; N]]);

    /// Adds what elements of one channel have that lie side by side.
    fn line(&self, at: usize, len: usize, channel: usize, sums: &mut [f64; N]);
}

/// The sums of each channel.
pub fn sums<'s, S: Sums<N>, const N: usize>(
    cpu: Cpu<'_>,
    g: &Channels,
    of: &S,
    scratch: &mut Scratch<'s>,
) -> &'s [[f64; N]]
where
    [f64; N]: bytemuck::Pod,
{
    let tasks = g.tasks();
    let all = scratch.take::<[f64; N]>(tasks * g.channels);
    all.fill([0.0; N]);
    if g.elements() == 0 {
        return &all[..g.channels.min(all.len())];
    }
    if g.after == 1 {
        let columns = N * g.columns();
        let temps = Disjoint::new(scratch.take::<f32>(tasks * columns));
        for_chunks(cpu.pool, all, g.channels, &|task, sums| {
            let (first, end) = (task * g.rows(), g.before.min((task + 1) * g.rows()));
            // SAFETY: each task runs once, and has a part of its own.
            let temp = unsafe { temps.slice(task * columns, columns) };
            let block = (BLOCK / g.channels).max(ROWS);
            for row in (first..end).step_by(block) {
                let len = block.min(end - row) * g.channels;
                let at = row * g.channels;
                cpu.isa.run_over::<S::Elem, _>(Rows {
                    of,
                    at,
                    len,
                    temp,
                    sums,
                });
            }
        });
        let (first, others) = all.split_at_mut(g.channels);
        for other in others.chunks_exact(g.channels) {
            for (sum, other) in first.iter_mut().zip(other) {
                (0..N).for_each(|i| sum[i] += other[i]);
            }
        }
        return first;
    }
    let together = (BLOCK / g.count()).max(1);
    for_chunks(cpu.pool, all, together, &|task, sums| {
        for (i, sums) in sums.iter_mut().enumerate() {
            let channel = task * together + i;
            for image in 0..g.before {
                let line = (image * g.channels + channel) * g.after;
                for piece in (0..g.after).step_by(BLOCK) {
                    let (at, len) = (line + piece, BLOCK.min(g.after - piece));
                    cpu.isa.run_over::<S::Elem, _>(Line {
                        of,
                        at,
                        len,
                        channel,
                        sums,
                    });
                }
            }
        }
    });
    all
}

struct Rows<'a, S, const N: usize> {
    of: &'a S,
    at: usize,
    len: usize,
    temp: &'a mut [f32],
    sums: &'a mut [[f64; N]],
}

impl<S: Sums<N>, const N: usize> Vectorize for Rows<'_, S, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.of.rows(self.at, self.len, self.temp, self.sums);
    }
}

struct Line<'a, S, const N: usize> {
    of: &'a S,
    at: usize,
    len: usize,
    channel: usize,
    sums: &'a mut [f64; N],
}

impl<S: Sums<N>, const N: usize> Vectorize for Line<'_, S, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.of.line(self.at, self.len, self.channel, self.sums);
    }
}

/// The first item of each channel, in all columns of it.
#[inline(always)]
fn spread(columns: &mut [f32], channels: usize) {
    let (first, others) = columns.split_at_mut(channels);
    for other in others.chunks_exact_mut(channels) {
        other.copy_from_slice(first);
    }
}
