//! Conversions between tensors and arrays of the crate `ndarray`.

use ndarray::{Array, ArrayD, ArrayViewD, Dimension, IxDyn};

use super::error::TensorError;
use super::read::FromTensor;
use super::value::Tensor;
use crate::dtype::Element;
use crate::shape::Dims;

impl Tensor {
    /// A view of the elements in place, as an array of the tensor's dimensions.
    ///
    /// ```
    /// use thalweg_tensor::Tensor;
    ///
    /// let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let rows = t.view::<f32>()?;
    /// assert_eq!(rows.sum_axis(ndarray::Axis(0)), ndarray::arr1(&[4.0, 6.0]).into_dyn());
    /// # Ok::<(), thalweg_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not `T`.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, TensorError> {
        let wrong = |_| self.not_so_long();
        ArrayViewD::from_shape(IxDyn(&self.dims), self.as_slice()?).map_err(wrong)
    }

    /// The error for dimensions that do not fit the elements; a tensor's own always do.
    fn not_so_long(&self) -> TensorError {
        TensorError::Length {
            dims: self.dims.clone(),
            expected: self.dims.iter().product(),
            found: self.len(),
        }
    }
}

impl<T: Element> FromTensor for ArrayD<T> {
    fn from_tensor(tensor: Tensor) -> Result<ArrayD<T>, TensorError> {
        Ok(tensor.view()?.to_owned())
    }
}

impl<T: Element, D: Dimension> From<Array<T, D>> for Tensor {
    fn from(array: Array<T, D>) -> Tensor {
        let dims = Dims::from_slice(array.shape());
        match array.as_slice() {
            Some(elements) => Tensor::filled(dims, elements),
            // In another order, or with gaps: `iter` goes by rows.
            None => Tensor::filled(dims, &array.iter().copied().collect::<Vec<T>>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_any_memory_order_convert() {
        let t = Tensor::new(&[2, 3], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        let array = ArrayD::<i32>::from_tensor(t.clone()).unwrap();
        assert_eq!(array.shape(), [2, 3]);
        assert_eq!(Tensor::from(array.clone()), t);
        let turned = array.reversed_axes();
        assert!(turned.as_slice().is_none());
        let expected = Tensor::new(&[3, 2], &[1i32, 4, 2, 5, 3, 6]).unwrap();
        assert_eq!(Tensor::from(turned), expected);
        assert!(t.view::<f32>().is_err());
        let empty = Tensor::new::<f32>(&[0, 3], &[]).unwrap();
        assert_eq!(empty.view::<f32>().unwrap().shape(), [0, 3]);
    }
}
