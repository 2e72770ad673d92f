//! Limits of a poll: no endpoint takes more time or memory.

use std::time::Duration;

/// Time limit of a whole request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum length of a response, in bytes.
pub(super) const MAX_RESPONSE: u64 = 16 << 20;
/// Maximum length of the head of a response, in bytes.
pub(super) const MAX_HEAD: usize = 16 << 10;
/// Maximum number of header fields.
pub(super) const MAX_FIELDS: usize = 64;
/// Maximum length of a line of the text, in bytes.
pub(super) const MAX_LINE: u64 = 1 << 16;
/// Maximum number of peers that are kept of one task.
pub(super) const MAX_PEERS: usize = 1024;
