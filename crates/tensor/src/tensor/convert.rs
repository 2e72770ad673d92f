//! `From` impls: tensors from scalars, vectors, rows and strings.

use std::sync::Arc;

use super::storage::StringStorage;
use super::value::{Data, Tensor};
use crate::dtype::{DType, Element};
use crate::shape::Dims;

impl<T: Element> From<T> for Tensor {
    fn from(value: T) -> Tensor {
        Tensor::scalar(value)
    }
}

impl<T: Element> From<&[T]> for Tensor {
    fn from(elements: &[T]) -> Tensor {
        Tensor::vector(elements)
    }
}

impl<T: Element> From<&Vec<T>> for Tensor {
    fn from(values: &Vec<T>) -> Tensor {
        Tensor::vector(values)
    }
}

impl<T: Element> From<Vec<T>> for Tensor {
    fn from(elements: Vec<T>) -> Tensor {
        Tensor::vector(&elements)
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    fn from(elements: [T; N]) -> Tensor {
        Tensor::vector(&elements)
    }
}

impl<T: Element, const M: usize, const N: usize> From<[[T; N]; M]> for Tensor {
    fn from(rows: [[T; N]; M]) -> Tensor {
        Tensor::filled(Dims::from_slice(&[M, N]), rows.as_flattened())
    }
}

impl<T: Element, const L: usize, const M: usize, const N: usize> From<[[[T; N]; M]; L]> for Tensor {
    fn from(blocks: [[[T; N]; M]; L]) -> Tensor {
        let elements = blocks.as_flattened().as_flattened();
        Tensor::filled(Dims::from_slice(&[L, M, N]), elements)
    }
}

impl From<&Tensor> for Tensor {
    fn from(tensor: &Tensor) -> Tensor {
        tensor.clone()
    }
}

impl From<String> for Tensor {
    fn from(value: String) -> Tensor {
        Tensor::from(&value[..])
    }
}

impl From<&str> for Tensor {
    fn from(value: &str) -> Tensor {
        Tensor {
            dtype: DType::String,
            dims: Dims::new(),
            data: Data::Strings(Arc::new(StringStorage::one(value.as_bytes()))),
        }
    }
}
