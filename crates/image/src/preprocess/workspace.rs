//! Buffers of a thread.

use crate::{Decoder, Limits};

/// A decoder and its pixels, which a thread uses again for each image.
#[derive(Default)]
pub struct Workspace {
    pub(super) decoder: Decoder,
    pub(super) pixels: Vec<u8>,
}

impl Workspace {
    /// A workspace that refuses images beyond `limits`.
    pub fn new(limits: Limits) -> Workspace {
        Workspace {
            decoder: Decoder::new(limits),
            pixels: Vec::new(),
        }
    }
}
