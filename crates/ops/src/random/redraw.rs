//! Truncated normal numbers: numbers in the tails are drawn again, in such a way that any group of numbers can be
//! computed independently of the numbers before it.
//!
//! A group is as many numbers as a block gives, and has blocks of its own: it keeps, in order, those
//! of their numbers that lie in the middle, until it is full. Most groups are full after one block,
//! nearly all after two. So the first blocks of many groups are computed in one loop, then the
//! second blocks of the groups that need one, and the rest block by block.

use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, Prepare, Prepared};
use thalweg_tensor::Element;

use crate::random::philox::Philox;
use crate::random::seed_source::SeedSource;
use crate::support::elementwise::CHUNK;
use thalweg_cpu::number::Wide;

/// Numbers at least this far from 0 are drawn again.
const TRUNCATION_BOUND: f64 = 2.0;
/// Number of blocks that belong to a group, for each number in it.
const BLOCKS_PER_NUMBER: u64 = 64;
/// Number of groups in a loop.
const GROUPS_PER_LOOP: usize = 256;
/// The second loop runs in steps of this many groups: the width of a vector.
const GROUPS_PER_STEP: usize = 16;

struct TruncatedGroups<'a, T, D, R, const N: usize> {
    philox: &'a Philox,
    /// First block of the first group.
    first: u64,
    out: &'a mut [T],
    draw: D,
    round: R,
}

/// Returns `true` if a number lies in a tail or is NaN.
#[inline(always)]
fn is_rejected<W: Wide>(v: W) -> bool {
    let inside = v.abs() < W::from_f64(TRUNCATION_BOUND);
    !inside
}

impl<W, T, D, R, const N: usize> Vectorize for TruncatedGroups<'_, T, D, R, N>
where
    W: Wide,
    T: Copy,
    D: Fn([u32; 4]) -> [W; N],
    R: Fn([W; N]) -> [T; N],
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut values = [[W::ZERO; N]; GROUPS_PER_LOOP];
        let mut second = [[W::ZERO; N]; GROUPS_PER_LOOP];
        let mut at = [0; GROUPS_PER_LOOP];
        let group_blocks = BLOCKS_PER_NUMBER * N as u64;
        let mut base = self.first;
        for out in self.out.chunks_mut(GROUPS_PER_LOOP * N) {
            let values = &mut values[..out.len().div_ceil(N)];
            for (i, v) in values.iter_mut().enumerate() {
                *v = (self.draw)(
                    self.philox
                        .block(base.wrapping_add(i as u64 * group_blocks)),
                );
            }
            // Writes the indices without a branch, which the processor could not predict.
            let (mut short, mut count) = ([0u32; GROUPS_PER_LOOP], 0);
            for (i, v) in values.iter().enumerate() {
                short[count] = i as u32;
                count += usize::from(v.iter().fold(false, |any, &v| any | is_rejected(v)));
            }
            let padded = count.next_multiple_of(GROUPS_PER_STEP).min(GROUPS_PER_LOOP);
            for (at, &i) in at.iter_mut().zip(&short) {
                *at = base.wrapping_add(u64::from(i) * group_blocks + 1);
            }
            for (s, &at) in second[..padded].iter_mut().zip(&at) {
                *s = (self.draw)(self.philox.block(at));
            }
            for i in 0..count {
                refill(&mut values[short[i] as usize], second[i], at[i], &|at| {
                    (self.draw)(self.philox.block(at))
                });
            }
            base = base.wrapping_add(GROUPS_PER_LOOP as u64 * group_blocks);
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

/// Keeps the numbers in the middle of `values`, then of `second` (which is block `at`), then of
/// the blocks after that, converted by `draw`, in order, until `values` is full.
#[inline(always)]
fn refill<W: Wide, const N: usize>(
    values: &mut [W; N],
    second: [W; N],
    mut at: u64,
    draw: &dyn Fn(u64) -> [W; N],
) {
    let (mut source, mut filled) = (*values, 0);
    let mut next = Some(second);
    loop {
        for v in source {
            if filled < N && !is_rejected(v) {
                values[filled] = v;
                filled += 1;
            }
        }
        if filled == N {
            return;
        }
        source = next.take().unwrap_or_else(|| {
            at = at.wrapping_add(1);
            draw(at)
        });
    }
}

/// Kernel that fills output 0 with the numbers of blocks by `draw`, without the tails, rounded for storage by
/// `round`; it takes about `cost` nanoseconds for each 16 elements.
pub(super) fn truncated<W: Wide, T: Element, const N: usize>(
    p: &Prepare<'_>,
    cost: u64,
    draw: impl Fn([u32; 4]) -> [W; N] + Copy + Send + Sync + 'static,
    round: impl Fn([W; N]) -> [T; N] + Copy + Send + Sync + 'static,
) -> Prepared {
    const { assert!(CHUNK.is_multiple_of(N), "a group stands in one chunk") };
    let source = SeedSource::of(p);
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let run = move |cx: &KernelCx<'_>| {
        let (cpu, out) = (cx.cpu(), cx.output::<T>(0)?);
        let (philox, first) = source.start(cx, out.len())?;
        for_chunks(cpu.pool(), out, CHUNK, &|i, out| {
            cpu.isa().run(TruncatedGroups {
                philox: &philox,
                first: first.wrapping_add((i * CHUNK) as u64 * BLOCKS_PER_NUMBER),
                out,
                draw,
                round,
            });
        });
        Ok(())
    };
    Prepared::new(elements, run).with_cost(20 + elements as u64 * cost / 16)
}
