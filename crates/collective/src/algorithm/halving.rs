//! Rabenseifner's algorithm: a reduce-scatter by recursive halving, then an all-gather by recursive doubling.

use crate::channel::{Channel, parts};
use crate::error::Result;
use crate::reduce::{OperandOrder, Reducer};

use super::doubling::folded;

pub(super) fn all_reduce(ch: &mut Channel<'_>, data: &mut [u8], reducer: Reducer) -> Result<()> {
    folded(ch, data, reducer, |ch, data, fold| {
        let parts = parts(data.len(), reducer.size(), fold.size);
        let bytes = |from: usize, to: usize| parts[from].start..parts[to - 1].end;
        let own = fold.own;
        // Parts that this rank still reduces.
        let (mut begin, mut end) = (0, fold.size);
        let mut distance = fold.size / 2;
        while distance > 0 {
            let other = fold.rank(own ^ distance);
            let middle = begin + distance;
            let upper = own & distance != 0;
            let (kept, given, first) = match upper {
                true => (
                    bytes(middle, end),
                    bytes(begin, middle),
                    OperandOrder::RemoteFirst,
                ),
                false => (
                    bytes(begin, middle),
                    bytes(middle, end),
                    OperandOrder::LocalFirst,
                ),
            };
            ch.swap(data, (other, given), (other, kept), Some((reducer, first)))?;
            (begin, end) = if upper {
                (middle, end)
            } else {
                (begin, middle)
            };
            distance /= 2;
        }
        reducer.finish(&mut data[bytes(begin, end)]);
        let mut distance = 1;
        while distance < fold.size {
            let other = fold.rank(own ^ distance);
            let upper = own & distance != 0;
            let others = match upper {
                true => (begin - distance, begin),
                false => (end, end + distance),
            };
            let (sent, received) = (bytes(begin, end), bytes(others.0, others.1));
            ch.swap(data, (other, sent), (other, received), None)?;
            (begin, end) = (begin.min(others.0), end.max(others.1));
            distance <<= 1;
        }
        Ok(())
    })
}
