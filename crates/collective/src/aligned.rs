//! Bytes with the alignment of every dtype.

/// Bytes that begin on a multiple of 8.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    /// `len` zero bytes.
    pub(crate) fn zeroed(len: usize) -> Aligned {
        Aligned {
            words: vec![0; len.div_ceil(8)],
            len,
        }
    }

    /// Copy of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Aligned {
        let mut copy = Aligned::zeroed(bytes.len());
        copy.bytes_mut().copy_from_slice(bytes);
        copy
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// The bytes, mutable.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}
