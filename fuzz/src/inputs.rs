//! What the bytes of an input mean: calls with their messages, each changed or made of nothing else.

/// The calls that an input is.
///
/// The first byte of an input says which call it is, and whether (its highest bit) what follows changes
/// the message of that call that is as it should be: so changes get deep without a corpus. Then come two
/// bytes of length, and so much of the body; further calls follow.
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

/// The message with bytes changed: two bytes of `changes` say where, the third to what. The last byte, if
/// it is alone, says how much of the message is cut off.
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
