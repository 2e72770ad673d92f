//! Drawing again what lies in the tails, so that any group of numbers can still be computed without
//! those before it.
//!
//! Each group of as many numbers as a block gives has blocks of its own: it keeps, in order, those
//! of its numbers that lie in the middle, until it is full. Most groups are full after one block,
//! nearly all after two. So the first blocks of many groups are computed in one loop, then the
//! second blocks of those that need one, and what is still missing block by block.

use thalweg_device::parallel::for_chunks;
use thalweg_device::{KernelCx, Prepare, Prepared, Vectorize};
use thalweg_graph::Element;

use crate::elementwise::CHUNK;
use crate::number::Wide;
use crate::random::fill::first_block;
use crate::random::philox::Philox;

/// Numbers this far from 0 or farther are drawn again.
const BOUND: f64 = 2.0;
/// Blocks that belong to a group, for each number in it.
const BLOCKS: u64 = 64;
/// Groups in a loop.
const BATCH: usize = 256;
/// The second loop runs in whole steps of this many groups: the width of a vector.
const STEP: usize = 16;

struct Truncated<'a, T, D, R, const N: usize> {
    philox: &'a Philox,
    /// The first block of the first group.
    first: u64,
    out: &'a mut [T],
    draw: D,
    round: R,
}

/// Whether a number lies in a tail, or nowhere.
#[inline(always)]
fn is_out<W: Wide>(v: W) -> bool {
    let inside = v.abs() < W::from_f64(BOUND);
    !inside
}

impl<W, T, D, R, const N: usize> Vectorize for Truncated<'_, T, D, R, N>
where
    W: Wide,
    T: Copy,
    D: Fn([u32; 4]) -> [W; N],
    R: Fn([W; N]) -> [T; N],
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut values = [[W::ZERO; N]; BATCH];
        let mut second = [[W::ZERO; N]; BATCH];
        let group_blocks = BLOCKS * N as u64;
        for (batch, out) in self.out.chunks_mut(BATCH * N).enumerate() {
            let start = (batch * BATCH) as u64 * group_blocks;
            let base = |group: u64| {
                let offset = start.wrapping_add(group * group_blocks);
                self.first.wrapping_add(offset)
            };
            let values = &mut values[..out.len().div_ceil(N)];
            for (group, v) in values.iter_mut().enumerate() {
                *v = (self.draw)(self.philox.block(base(group as u64)));
            }
            // Their places are written down without a branch: which they are cannot be foretold.
            let (mut short, mut count) = ([0u32; BATCH], 0);
            for (group, v) in values.iter().enumerate() {
                short[count] = group as u32;
                count += usize::from(v.iter().fold(false, |any, &v| any | is_out(v)));
            }
            let padded = count.next_multiple_of(STEP).min(BATCH);
            for (s, &group) in second[..padded].iter_mut().zip(&short) {
                *s = (self.draw)(self.philox.block(base(u64::from(group)).wrapping_add(1)));
            }
            for (&group, &s) in short[..count].iter().zip(&second) {
                let v = &mut values[group as usize];
                let mut next = base(u64::from(group)).wrapping_add(2);
                refill(v, s, || {
                    let more = (self.draw)(self.philox.block(next));
                    next = next.wrapping_add(1);
                    more
                });
            }
            let (whole, rest) = out.as_chunks_mut::<N>();
            for (out, &v) in whole.iter_mut().zip(values.iter()) {
                *out = (self.round)(v);
            }
            if let Some(&v) = values.get(whole.len()) {
                rest.copy_from_slice(&(self.round)(v)[..rest.len()]);
            }
        }
    }
}

/// Keeps what lies in the middle of `values`, then of `second`, then of what `more` draws, in
/// order, until `values` is full.
#[inline(always)]
fn refill<W: Wide, const N: usize>(
    values: &mut [W; N],
    second: [W; N],
    mut more: impl FnMut() -> [W; N],
) {
    let (mut source, mut filled, mut drawn) = (*values, 0, 0);
    loop {
        for v in source {
            if filled < N && !is_out(v) {
                values[filled] = v;
                filled += 1;
            }
        }
        if filled == N {
            return;
        }
        source = if drawn == 0 { second } else { more() };
        drawn += 1;
    }
}

/// A kernel that fills output 0 with what `draw` makes of blocks, without the tails, as `round`
/// stores it; it takes about `cost` nanoseconds for each 16 elements.
pub(super) fn truncated<W: Wide, T: Element, const N: usize>(
    p: &Prepare<'_>,
    cost: u64,
    draw: impl Fn([u32; 4]) -> [W; N] + Copy + Send + Sync + 'static,
    round: impl Fn([W; N]) -> [T; N] + Copy + Send + Sync + 'static,
) -> Prepared {
    const { assert!(CHUNK.is_multiple_of(N), "a group stands in one chunk") };
    let philox = Philox::of(&p.node.attrs);
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let run = move |cx: &KernelCx<'_>| {
        let (cpu, out) = (cx.cpu(), cx.output::<T>(0)?);
        let first = first_block(cx, out.len())?;
        for_chunks(cpu.pool(), out, CHUNK, &|i, out| {
            cpu.isa().run(Truncated {
                philox: &philox,
                first: first.wrapping_add((i * CHUNK) as u64 * BLOCKS),
                out,
                draw,
                round,
            });
        });
        Ok(())
    };
    Prepared::new(elements, run).with_cost(20 + elements as u64 * cost / 16)
}
