//! The masked CRC-32C of TensorFlow's files.

/// CRC-32C of `bytes`, rotated and shifted: data that contains checksums then does not yield a
/// trivial checksum. Source: TensorFlow's `core/lib/hash/crc32c.h`.
///
/// ```
/// // 32 zero bytes have the CRC-32C 8a9136aa.
/// let rotated = 0x8a91_36aau32.rotate_right(15);
/// assert_eq!(thalweg_checkpoint::crc::masked(&[0; 32]), rotated.wrapping_add(0xa282_ead8));
/// ```
pub fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

/// The masked form of a CRC-32C.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
