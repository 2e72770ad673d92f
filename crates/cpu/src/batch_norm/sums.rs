//! Sums over the elements of each channel.

use thalweg_tensor::Element;

use super::channels::{BLOCK_ELEMENTS, Channels, MIN_BLOCK_ROWS};
use crate::scratch::{Disjoint, Scratch, for_chunks};
use crate::{Cpu, Vectorize};

/// `N` sums of each channel.
pub trait Sums<const N: usize>: Sync {
    /// The elements.
    type Elem: Element;

    /// Adds the terms of whole rows, whose first element is `at`; `temp` is as long as `N` folded rows, and `sums` has
    /// an item for each channel.
    fn rows(&self, at: usize, len: usize, temp: &mut [f32], sums: &mut [[f64; N]]);

    /// Adds the terms of contiguous elements of one channel.
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
            let block = (BLOCK_ELEMENTS / g.channels).max(MIN_BLOCK_ROWS);
            for row in (first..end).step_by(block) {
                let len = block.min(end - row) * g.channels;
                let at = row * g.channels;
                cpu.isa.run_over::<S::Elem, _>(RowSums {
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
    let together = (BLOCK_ELEMENTS / g.count()).max(1);
    for_chunks(cpu.pool, all, together, &|task, sums| {
        for (i, sums) in sums.iter_mut().enumerate() {
            let channel = task * together + i;
            for image in 0..g.before {
                let line = (image * g.channels + channel) * g.after;
                for piece in (0..g.after).step_by(BLOCK_ELEMENTS) {
                    let (at, len) = (line + piece, BLOCK_ELEMENTS.min(g.after - piece));
                    cpu.isa.run_over::<S::Elem, _>(LineSums {
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

struct RowSums<'a, S, const N: usize> {
    of: &'a S,
    at: usize,
    len: usize,
    temp: &'a mut [f32],
    sums: &'a mut [[f64; N]],
}

impl<S: Sums<N>, const N: usize> Vectorize for RowSums<'_, S, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.of.rows(self.at, self.len, self.temp, self.sums);
    }
}

struct LineSums<'a, S, const N: usize> {
    of: &'a S,
    at: usize,
    len: usize,
    channel: usize,
    sums: &'a mut [f64; N],
}

impl<S: Sums<N>, const N: usize> Vectorize for LineSums<'_, S, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.of.line(self.at, self.len, self.channel, self.sums);
    }
}
