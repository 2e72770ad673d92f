//! The keys of slices, in TensorFlow's order-preserving encoding. Source: TensorFlow's
//! `core/lib/strings/ordered_code.h` and `core/util/saved_tensor_slice_util.cc`.

use super::slice::SliceSpec;

/// The key of a slice of this variable.
pub(crate) fn slice_key(name: &str, slice: &SliceSpec) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 16);
    put_number(&mut key, 0);
    put_string(&mut key, name.as_bytes());
    put_number(&mut key, slice.extents().len() as u64);
    for extent in slice.extents() {
        let (start, length) = extent.map_or((0, -1), |(start, len)| (start as i64, len as i64));
        put_signed(&mut key, start);
        put_signed(&mut key, length);
    }
    key
}

/// Appends a length byte, then as many bytes, the highest first and without leading zeros.
fn put_number(to: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    let zeros = number.leading_zeros() as usize / 8;
    to.push((8 - zeros) as u8);
    to.extend_from_slice(&bytes[zeros..]);
}

/// Appends the bytes, of which 0 and 255 are escaped, and an end mark.
fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        to.push(byte);
        match byte {
            0 => to.push(0xff),
            0xff => to.push(0),
            _ => {}
        }
    }
    to.extend_from_slice(&[0, 1]);
}

/// Appends a signed number: the leading ones of the first bits give the number of bytes (for a
/// number that is not negative), the sign and the value follow.
fn put_signed(to: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number } as u64;
    let bits = 64 - magnitude.leading_zeros() as usize;
    // n bytes carry 7n - 1 bits beside the sign.
    let length = bits / 7 + 1;
    let mut bytes = [if number < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    let first = 10 - length;
    let header = !(0xffff_u16.checked_shr(length as u32).unwrap_or(0));
    bytes[first] ^= (header >> 8) as u8;
    if length > 1 {
        bytes[first + 1] ^= header as u8;
    }
    to.extend_from_slice(&bytes[first..]);
}

#[cfg(test)]
mod tests {
    use super::{put_number, put_signed, put_string, slice_key};
    use crate::bundle::SliceSpec;

    #[test]
    fn numbers_keep_their_order() {
        let numbers = [
            i64::MIN,
            -1_000_000_000_000,
            -8193,
            -8192,
            -65,
            -64,
            -1,
            0,
            1,
            63,
            64,
            8191,
            8192,
            1 << 40,
            i64::MAX,
        ];
        let keys = numbers.map(|n| {
            let mut key = Vec::new();
            put_signed(&mut key, n);
            key
        });
        assert!(keys.is_sorted());
        assert_eq!(keys[6..9], [vec![0x7f], vec![0x80], vec![0x81]]);
        assert_eq!(keys[10], [0xc0, 0x40]);
        assert_eq!(keys[13].len(), 6);
        assert_eq!(keys[14].len(), 10);
    }

    #[test]
    fn strings_and_numbers_are_escaped_and_counted() {
        let mut key = Vec::new();
        put_string(&mut key, b"a\0b\xff");
        put_number(&mut key, 0);
        put_number(&mut key, 258);
        assert_eq!(key, b"a\0\xffb\xff\0\0\x01\0\x02\x01\x02");
    }

    #[test]
    fn slice_keys_encode_name_rank_and_extents() {
        let slice = SliceSpec::parse("4 3 0,2:-").unwrap();
        let expected = b"\0part\0\x01\x01\x02\x80\x82\x80\x7f";
        assert_eq!(slice_key("part", &slice), expected);
    }
}
