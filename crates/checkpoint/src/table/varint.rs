//! Variable-length integers: seven bits a byte, lowest first.

/// Appends a number.
pub(crate) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Takes a number off the front; `None` if there is no complete one of 64 bits.
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for place in 0..10 {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if place == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * place);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// As [`take`], for a length.
pub(crate) fn take_len(from: &mut &[u8]) -> Option<usize> {
    take(from).and_then(|n| usize::try_from(n).ok())
}
