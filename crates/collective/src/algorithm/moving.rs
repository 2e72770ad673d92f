//! All-gather, broadcast, all-to-all and barrier: collectives without a reduction.

use std::ops::Range;

use crate::channel::{Channel, parts};
use crate::error::Result;
use crate::links::Sink;

/// Minimum size of a broadcast that is split, so that each rank sends a part.
const SPLIT_BYTES: usize = 64 << 10;

/// Sends part r, which rank r has, to all ranks: (P-1) a + (P-1)/P n b.
pub(crate) fn gather_parts(
    ch: &mut Channel<'_>,
    data: &mut [u8],
    parts: &[Range<usize>],
) -> Result<()> {
    for round in 0..ch.size() - 1 {
        let sent = parts[ch.before(round)].clone();
        let received = parts[ch.before(round + 1)].clone();
        ch.swap(data, (ch.after(1), sent), (ch.before(1), received), None)?;
    }
    Ok(())
}

/// Concatenates the values of all ranks into `output`; `lens` has the bytes of each.
pub(crate) fn all_gather(
    ch: &mut Channel<'_>,
    own: &[u8],
    lens: &[usize],
    output: &mut [u8],
) -> Result<()> {
    let mut begin = 0;
    let part = |&len: &usize| {
        begin += len;
        begin - len..begin
    };
    let parts: Vec<Range<usize>> = lens.iter().map(part).collect();
    output[parts[ch.rank()].clone()].copy_from_slice(own);
    gather_parts(ch, output, &parts)
}

/// Sends the root's value to all ranks along a tree: lg P (a + n b). A large value is split into parts for all ranks, which
/// then go around the ring.
pub(crate) fn broadcast(ch: &mut Channel<'_>, root: usize, data: &mut [u8]) -> Result<()> {
    let size = ch.size();
    if data.len() < SPLIT_BYTES || size < 3 {
        return tree(ch, root, data);
    }
    // Places after the root.
    let parts = parts(data.len(), 1, size);
    let own = (ch.rank() + size - root) % size;
    if own == 0 {
        for place in 1..size {
            ch.send((root + place) % size, &data[parts[place].clone()])?;
        }
    } else {
        ch.receive(root, Sink::store(&mut data[parts[own].clone()]))?;
    }
    for round in 0..size - 1 {
        let sent = parts[(own + size - round) % size].clone();
        let received = parts[(own + 2 * size - round - 1) % size].clone();
        // The root has all parts already, and receives copies.
        ch.swap(data, (ch.after(1), sent), (ch.before(1), received), None)?;
    }
    Ok(())
}

fn tree(ch: &mut Channel<'_>, root: usize, data: &mut [u8]) -> Result<()> {
    let size = ch.size();
    let own = (ch.rank() + size - root) % size;
    let place = |p: usize| (p + root) % size;
    // A rank receives the value from the rank without its lowest bit, and sends it to ranks with one more lower bit.
    let mut bit = 1;
    while bit < size && own & bit == 0 {
        bit <<= 1;
    }
    if own != 0 {
        ch.receive(place(own - bit), Sink::store(data))?;
    }
    while bit > 1 {
        bit >>= 1;
        if own + bit < size {
            ch.send(place(own + bit), data)?;
        }
    }
    Ok(())
}

/// Sends `sent[r]` to rank r and receives `received[r]` from it, pairwise: (P-1) a + n b. The own part is copied.
pub(crate) fn all_to_all(
    ch: &mut Channel<'_>,
    input: &[u8],
    sent: &[Range<usize>],
    output: &mut [u8],
    received: &[Range<usize>],
) -> Result<()> {
    let rank = ch.rank();
    output[received[rank].clone()].copy_from_slice(&input[sent[rank].clone()]);
    for distance in 1..ch.size() {
        let (to, from) = (ch.after(distance), ch.before(distance));
        let sink = Sink::store(&mut output[received[from].clone()]);
        ch.exchange(Some((to, &input[sent[to].clone()])), Some((from, sink)))?;
    }
    Ok(())
}

/// Returns once all ranks have called it: lg P rounds.
pub(crate) fn barrier(ch: &mut Channel<'_>) -> Result<()> {
    let mut distance = 1;
    while distance < ch.size() {
        let (to, from) = (ch.after(distance), ch.before(distance));
        ch.exchange(Some((to, &[])), Some((from, Sink::store(&mut []))))?;
        distance <<= 1;
    }
    Ok(())
}
