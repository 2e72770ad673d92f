//! Blocks: keys that share their beginnings with the key before, and the places where one is written out.

use super::varint;

/// A block that is being made.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    /// Keys since the last restart.
    since: usize,
    /// How many keys come between restarts.
    interval: usize,
    last: Vec<u8>,
}

impl Builder {
    pub(crate) fn new(interval: usize) -> Builder {
        Builder {
            bytes: Vec::new(),
            restarts: vec![0],
            since: 0,
            interval,
            last: Vec::new(),
        }
    }

    /// Adds a key that comes after all others.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.since < self.interval {
            shared = self
                .last
                .iter()
                .zip(key)
                .take_while(|(a, b)| a == b)
                .count();
        } else {
            self.restarts.push(self.bytes.len() as u32);
            self.since = 0;
        }
        varint::put(&mut self.bytes, shared as u64);
        varint::put(&mut self.bytes, (key.len() - shared) as u64);
        varint::put(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.since += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that the block would have now.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// The block; an empty one takes its place.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let fresh = Builder::new(self.interval);
        let made = std::mem::replace(self, fresh);
        let mut bytes = made.bytes;
        for restart in &made.restarts {
            bytes.extend_from_slice(&restart.to_le_bytes());
        }
        bytes.extend_from_slice(&(made.restarts.len() as u32).to_le_bytes());
        bytes
    }
}

/// How many bytes the keys of a block may have for each of the block's own. Writers spell a key out every 16
/// keys, so that theirs have less than 16 times as many; without a limit, a small file could fill the memory.
const KEYS_PER_BYTE: usize = 64;

/// Gives each key and value of a block to `each`, in order.
///
/// # Errors
/// What is wrong with the block, as a predicate, or what `each` says.
pub(crate) fn for_each<'a>(
    block: &'a [u8],
    mut each: impl FnMut(&[u8], &'a [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let broken = || "has a damaged block in its index".to_owned();
    let (rest, count) = block.split_last_chunk::<4>().ok_or_else(broken)?;
    let restarts = (u32::from_le_bytes(*count) as usize).checked_mul(4);
    let end = restarts.and_then(|bytes| rest.len().checked_sub(bytes));
    let mut entries = &rest[..end.ok_or_else(broken)?];
    let mut key = Vec::new();
    let mut allowed = block.len().saturating_mul(KEYS_PER_BYTE);
    while !entries.is_empty() {
        let shared = varint::take_len(&mut entries).ok_or_else(broken)?;
        let own = varint::take_len(&mut entries).ok_or_else(broken)?;
        let value = varint::take_len(&mut entries).ok_or_else(broken)?;
        if shared > key.len() || own > entries.len() || value > entries.len() - own {
            return Err(broken());
        }
        key.truncate(shared);
        key.extend_from_slice(&entries[..own]);
        allowed = allowed.checked_sub(key.len()).ok_or_else(broken)?;
        let value_bytes = &entries[own..own + value];
        entries = &entries[own + value..];
        each(&key, value_bytes)?;
    }
    Ok(())
}
