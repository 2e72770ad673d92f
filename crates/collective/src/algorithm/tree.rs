//! Binomial tree: to rank 0 and back.

use crate::channel::Channel;
use crate::error::Result;
use crate::links::Sink;
use crate::reduce::{OperandOrder, Reducer};

use super::moving::broadcast;

pub(super) fn all_reduce(ch: &mut Channel<'_>, data: &mut [u8], reducer: Reducer) -> Result<()> {
    reduce(ch, data, reducer)?;
    broadcast(ch, 0, data)
}

/// Reduces on rank 0.
fn reduce(ch: &mut Channel<'_>, data: &mut [u8], reducer: Reducer) -> Result<()> {
    let (rank, mut bit) = (ch.rank(), 1);
    while bit < ch.size() {
        if rank & bit != 0 {
            return ch.send(rank - bit, data);
        }
        if rank + bit < ch.size() {
            ch.receive(
                rank + bit,
                Sink::reduce(data, reducer, OperandOrder::LocalFirst),
            )?;
        }
        bit <<= 1;
    }
    reducer.finish(data);
    Ok(())
}
