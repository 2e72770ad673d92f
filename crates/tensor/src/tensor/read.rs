//! `FromTensor`: tensors as Rust values: numbers, vectors, arrays, text.

use super::error::TensorError;
use super::value::Tensor;
use crate::dtype::Element;

/// A Rust type that a tensor can be read as.
///
/// The dtype must be the value's own: an `f64` is not read from an `f32` tensor.
///
/// | value | tensor |
/// | --- | --- |
/// | `f32`, `i64`, `bool`, every other [`Element`] | one element of any rank |
/// | `Vec<T>` | elements in row-major order, of any shape |
/// | `[T; N]` | exactly `N` elements |
/// | `String`, `Vec<String>` | strings in UTF-8 |
/// | `Tensor` | any |
///
/// ```
/// use thalweg_tensor::{FromTensor, Tensor};
///
/// let pair = Tensor::vector(&[1.0f32, 2.0]);
/// assert_eq!(<[f32; 2]>::from_tensor(pair.clone())?, [1.0, 2.0]);
/// assert!(f32::from_tensor(pair).is_err());
/// # Ok::<(), thalweg_tensor::TensorError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be read as `{Self}`",
    note = "it can be read as a number (`f32`, `i64`, `bool`), `Vec<T>`, `[T; N]`, `String`, `Vec<String>` or `Tensor`"
)]
pub trait FromTensor: Sized {
    /// Reads the tensor.
    ///
    /// # Errors
    /// [`TensorError::DType`], [`TensorError::NotScalar`], [`TensorError::Count`] or
    /// [`TensorError::Utf8`], if the tensor holds something else.
    fn from_tensor(tensor: Tensor) -> Result<Self, TensorError>;
}

impl FromTensor for Tensor {
    fn from_tensor(tensor: Tensor) -> Result<Tensor, TensorError> {
        Ok(tensor)
    }
}

impl<T: Element> FromTensor for T {
    fn from_tensor(tensor: Tensor) -> Result<T, TensorError> {
        tensor.to_scalar()
    }
}

impl<T: Element> FromTensor for Vec<T> {
    fn from_tensor(tensor: Tensor) -> Result<Vec<T>, TensorError> {
        tensor.to_vec()
    }
}

impl<T: Element, const N: usize> FromTensor for [T; N] {
    fn from_tensor(tensor: Tensor) -> Result<[T; N], TensorError> {
        let elements = tensor.as_slice::<T>()?;
        elements.try_into().map_err(|_| TensorError::Count {
            asked: N,
            dims: tensor.dims.clone(),
        })
    }
}

fn text(bytes: &[u8]) -> Result<String, TensorError> {
    let text = std::str::from_utf8(bytes).map_err(|_| TensorError::Utf8)?;
    Ok(text.to_owned())
}

impl FromTensor for String {
    fn from_tensor(tensor: Tensor) -> Result<String, TensorError> {
        match tensor.as_strings()?.only() {
            Some(one) => text(one),
            None => Err(TensorError::NotScalar {
                dims: tensor.dims.clone(),
            }),
        }
    }
}

impl FromTensor for Vec<String> {
    fn from_tensor(tensor: Tensor) -> Result<Vec<String>, TensorError> {
        tensor.as_strings()?.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_reads_only_as_its_own_dtype() {
        let rows = Tensor::from([[1i32, 2], [3, 4]]);
        assert_eq!(Vec::<i32>::from_tensor(rows.clone()), Ok(vec![1, 2, 3, 4]));
        assert_eq!(<[i32; 4]>::from_tensor(rows.clone()), Ok([1, 2, 3, 4]));
        assert_eq!(Tensor::from_tensor(rows.clone()), Ok(rows.clone()));
        let wrong = [
            Vec::<f32>::from_tensor(rows.clone()).unwrap_err(),
            <[i32; 3]>::from_tensor(rows.clone()).map(drop).unwrap_err(),
            i32::from_tensor(rows.clone()).unwrap_err(),
            String::from_tensor(rows).unwrap_err(),
        ];
        let said = wrong.map(|e| e.to_string());
        assert_eq!(
            said,
            [
                "the tensor holds i32, not f32: read it as i32, or Cast it in the graph",
                "a tensor of shape [2,2] does not have 3 elements",
                "a tensor of shape [2,2] is not one value: read it as a Vec or a Tensor",
                "the tensor holds i32, not string: read it as i32, or Cast it in the graph",
            ]
        );
    }

    #[test]
    fn strings_read_as_text_if_they_are_utf_8() {
        assert_eq!(String::from_tensor("word".into()), Ok("word".to_owned()));
        let bytes = Tensor::strings(&[1], &[&b"\xff"[..]]).unwrap();
        assert_eq!(
            Vec::<String>::from_tensor(bytes),
            Err(TensorError::Utf8),
            "no part of it is lost in silence"
        );
    }
}
