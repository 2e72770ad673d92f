//! Recursive doubling, and folding of ranks beyond a power of two.

use crate::channel::Channel;
use crate::error::Result;
use crate::links::Sink;
use crate::reduce::{OperandOrder, Reducer};

pub(super) fn all_reduce(ch: &mut Channel<'_>, data: &mut [u8], reducer: Reducer) -> Result<()> {
    folded(ch, data, reducer, |ch, data, fold| {
        let mut copy = Vec::new();
        let mut distance = 1;
        while distance < fold.size {
            let own = fold.own;
            let other = fold.rank(own ^ distance);
            copy.clear();
            copy.extend_from_slice(data);
            let first = if own & distance == 0 {
                OperandOrder::LocalFirst
            } else {
                OperandOrder::RemoteFirst
            };
            let sink = Sink::reduce(data, reducer, first);
            ch.exchange(Some((other, &copy)), Some((other, sink)))?;
            distance <<= 1;
        }
        reducer.finish(data);
        Ok(())
    })
}

/// Ranks that remain after folding: as many as the largest power of two.
pub(super) struct Fold {
    /// Number of remaining ranks.
    pub(super) size: usize,
    /// Place of this rank among them.
    pub(super) own: usize,
    /// Number of ranks into which another one has folded.
    extra: usize,
}

impl Fold {
    /// Rank at a place.
    pub(super) fn rank(&self, place: usize) -> usize {
        match place < self.extra {
            true => 2 * place + 1,
            false => place + self.extra,
        }
    }
}

/// Runs an algorithm for a power of two on any number of ranks. The ranks beyond it are folded: the first ranks form as many
/// pairs, in which the even rank sends its value to the odd one and receives the result from it.
pub(super) fn folded(
    ch: &mut Channel<'_>,
    data: &mut [u8],
    reducer: Reducer,
    run: impl FnOnce(&mut Channel<'_>, &mut [u8], &Fold) -> Result<()>,
) -> Result<()> {
    let (rank, size) = (ch.rank(), 1 << ch.size().ilog2());
    let extra = ch.size() - size;
    let paired = rank < 2 * extra;
    if paired && rank % 2 == 0 {
        ch.send(rank + 1, data)?;
        return ch.receive(rank + 1, Sink::store(data));
    }
    if paired {
        ch.receive(
            rank - 1,
            Sink::reduce(data, reducer, OperandOrder::RemoteFirst),
        )?;
    }
    let own = if paired { rank / 2 } else { rank - extra };
    run(ch, data, &Fold { size, own, extra })?;
    if paired {
        ch.send(rank - 1, data)?;
    }
    Ok(())
}
