//! The format of inputs: calls with messages, each a mutated valid message or raw bytes.

/// Splits an input into calls.
///
/// The first byte selects the call. If its highest bit is set, the body mutates a valid message of that call, so that
/// mutations get deep without a corpus. Two bytes of length follow, and the body of that length; then the next call.
pub fn calls<'a>(
    input: &'a [u8],
    names: &'a [&'static str],
    message: impl Fn(&str) -> Vec<u8> + 'a,
) -> impl Iterator<Item = (&'static str, Vec<u8>)> + 'a {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (&[which, low, high], after) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes([low, high])).min(after.len());
        let (body, next) = after.split_at(length);
        rest = next;
        let name = names[usize::from(which & 0x7f) % names.len()];
        let body = match which & 0x80 {
            0 => body.to_vec(),
            _ => changed(message(name), body),
        };
        Some((name, body))
    })
}

/// Mutates a message: two bytes of `changes` are a position, the third the new value. A single last byte is the length
/// that is cut off.
pub fn changed(message: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    let mut message = message;
    let (each, rest) = changes.as_chunks::<3>();
    for &[low, high, to] in each {
        let at = usize::from(u16::from_le_bytes([low, high]));
        if let Some(length) = std::num::NonZero::new(message.len()) {
            message[at % length] = to;
        }
    }
    if let &[cut] = rest {
        message.truncate(message.len().saturating_sub(cut.into()));
    }
    message
}
