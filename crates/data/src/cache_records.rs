//! Records of a cache file, which is a TFRecord file: one that names the format, one for each element, and one with their
//! number.
//!
//! ```
//! use thalweg_data::cache_records::{append_element, element, first, last};
//! use thalweg_tensor::Tensor;
//!
//! let pair = [Tensor::from(1.5f32), Tensor::from([1i64, 2])];
//! let mut record = Vec::new();
//! append_element(&mut record, &pair).unwrap();
//! assert_eq!(element(&record, 2).unwrap(), pair);
//! assert_eq!(element(&record, 1), None);
//! assert_eq!((first(2).last(), last(1)), (Some(&2), 1u64.to_ne_bytes()));
//! ```

use thalweg_tensor::Tensor;

use crate::tensor_record;

/// The data of the first record, before the number of tensors of an element.
const FORMAT: &[u8] = match cfg!(target_endian = "little") {
    true => b"thalweg cache 1 little ",
    false => b"thalweg cache 1 big ",
};

/// The data of the first record of a file whose elements are so many tensors each.
pub fn first(components: u8) -> Vec<u8> {
    [FORMAT, &[components]].concat()
}

/// The data of the last record of a file of so many elements.
pub fn last(elements: u64) -> [u8; 8] {
    elements.to_ne_bytes()
}

/// Appends the data of the record of an element.
///
/// # Errors
/// The reason why a tensor cannot be kept: it is a handle, or has more than 255 dimensions.
pub fn append_element(to: &mut Vec<u8>, tensors: &[Tensor]) -> Result<(), String> {
    tensors.iter().try_for_each(|t| tensor_record::put(to, t))
}

/// The tensors of an element; `None` if the data are not those of so many tensors.
pub fn element(data: &[u8], components: usize) -> Option<Vec<Tensor>> {
    let mut rest = data;
    let tensors = (0..components).map(|_| tensor_record::take(&mut rest));
    let tensors = tensors.collect::<Option<Vec<Tensor>>>()?;
    rest.is_empty().then_some(tensors)
}
