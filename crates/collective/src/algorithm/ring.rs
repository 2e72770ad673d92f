//! Ring: each rank exchanges messages with its two neighbours alone.

use std::ops::Range;

use crate::channel::{Channel, parts};
use crate::error::Result;
use crate::reduce::{OperandOrder, Reducer};

use super::moving::gather_parts;

pub(super) fn all_reduce(ch: &mut Channel<'_>, data: &mut [u8], reducer: Reducer) -> Result<()> {
    let all = parts(data.len(), reducer.size(), ch.size());
    reduce_scatter(ch, data, &all, reducer)?;
    gather_parts(ch, data, &all)
}

/// Reduces part r of the data of all ranks on rank r. Other parts are undefined afterwards.
///
/// Part p begins at the rank after p and goes around to p, so its sum has a fixed order.
pub(crate) fn reduce_scatter(
    ch: &mut Channel<'_>,
    data: &mut [u8],
    parts: &[Range<usize>],
    reducer: Reducer,
) -> Result<()> {
    for round in 1..ch.size() {
        let sent = parts[ch.before(round)].clone();
        let received = parts[ch.before(round + 1)].clone();
        let (to, from) = (ch.after(1), ch.before(1));
        let reduce = Some((reducer, OperandOrder::RemoteFirst));
        ch.swap(data, (to, sent), (from, received), reduce)?;
    }
    reducer.finish(&mut data[parts[ch.rank()].clone()]);
    Ok(())
}
