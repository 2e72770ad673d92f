//! Blocks: keys that share prefixes with the key before, and restart points at which a key is
//! stored whole.

use super::varint;

/// A block under construction.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    /// Keys since the last restart.
    since: usize,
    /// The number of keys between restarts.
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

    /// The size of the finished block, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Takes the block and begins an empty one.
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

/// The most bytes of keys for each byte of a block. Writers store a whole key every 16 keys, so
/// theirs have less than 16; without a limit, a small file could fill the memory.
const MAX_KEY_BYTES_PER_BYTE: usize = 64;

/// Calls `each` with each key and value of a block, in order.
///
/// # Errors
/// The defect of the block, as a predicate, or the error of `each`.
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
    let mut allowed = block.len().saturating_mul(MAX_KEY_BYTES_PER_BYTE);
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
