//! Records of tensors: the elements of cache files.
//!
//! Of each tensor: length and text of the dtype's name, the rank, the dimensions as `u64`, then the elements. Strings
//! have their length before them, as `u64`. Numbers are in the byte order of the machine.

use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Tensor};

/// Appends a tensor. The error is the reason why it cannot be kept.
pub(crate) fn put(to: &mut Vec<u8>, tensor: &Tensor) -> Result<(), String> {
    let dtype = tensor.dtype();
    if dtype.is_handle() {
        return Err(format!("{dtype} is a handle, which no file can keep"));
    }
    let name = dtype.to_string();
    let rank = u8::try_from(tensor.dims().len()).map_err(|_| "it has more than 255 dimensions")?;
    to.push(name.len() as u8);
    to.extend_from_slice(name.as_bytes());
    to.push(rank);
    for dim in tensor.dims() {
        to.extend_from_slice(&(*dim as u64).to_ne_bytes());
    }
    if dtype != DType::String {
        to.extend_from_slice(tensor.bytes());
        return Ok(());
    }
    for string in tensor.as_strings().map_err(|e| e.to_string())? {
        to.extend_from_slice(&(string.len() as u64).to_ne_bytes());
        to.extend_from_slice(string);
    }
    Ok(())
}

/// Reads a tensor from the start of `from`, which moves behind it. `None`: these bytes are no tensor.
pub(crate) fn take(from: &mut &[u8]) -> Option<Tensor> {
    let name = usize::from(*from.split_off_first()?);
    let name = std::str::from_utf8(from.split_off(..name)?).ok()?;
    let dtype = DType::from_name(name).filter(|dtype| !dtype.is_handle())?;
    let rank = *from.split_off_first()?;
    let dims = (0..rank).map(|_| number(from));
    let dims = dims.collect::<Option<Vec<usize>>>()?;
    let count = checked_elements(&dims)?;
    if dtype != DType::String {
        let bytes = from.split_off(..count.checked_mul(dtype.size())?)?;
        return Tensor::from_bytes(dtype, &dims, bytes).ok();
    }
    // Each string has eight bytes at least, so that the list is no longer than the record.
    if count > from.len() / 8 {
        return None;
    }
    let strings = (0..count).map(|_| {
        let length = number(from)?;
        from.split_off(..length)
    });
    let strings = strings.collect::<Option<Vec<&[u8]>>>()?;
    Tensor::strings(&dims, &strings).ok()
}

fn number(from: &mut &[u8]) -> Option<usize> {
    let bytes = from.split_off(..8)?;
    usize::try_from(u64::from_ne_bytes(bytes.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn tensors_are_written_and_read_back() {
        let all = [
            Tensor::from(2.5f32),
            Tensor::new(&[2, 0], &[0i64; 0]).unwrap(),
            Tensor::new(&[2, 1], &[true, false]).unwrap(),
            Tensor::strings(&[3], &["", "a", "\u{e9}"]).unwrap(),
        ];
        let mut bytes = Vec::new();
        all.iter()
            .for_each(|tensor| put(&mut bytes, tensor).unwrap());
        let mut from = &bytes[..];
        for tensor in &all {
            assert_eq!(take(&mut from).as_ref(), Some(tensor));
        }
        assert!(from.is_empty());
        // An empty tensor needs no bytes for its elements, so every other cut is seen.
        assert!(take(&mut &bytes[..5]).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..40), rank in 0u8..4) {
            let _ = take(&mut &bytes[..]);
            for name in ["f32", "string"] {
                let header = [&[name.len() as u8], name.as_bytes(), &[rank], &bytes].concat();
                let _ = take(&mut &header[..]);
            }
        }
    }
}
