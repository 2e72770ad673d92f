//! Variants that hold values: construction, and the count of the values within.

use std::any::Any;
use std::sync::Arc;

use super::error::TensorError;
use super::handles::{Handle, Handles};
use super::nesting::{MAX_NESTED_VALUES, MAX_NESTING_DEPTH, Nesting};
use super::value::{Data, Tensor};
use crate::dtype::DType;
use crate::shape::Dims;

impl Nesting {
    /// Counts a value that a variant holds.
    ///
    /// # Errors
    /// [`TensorError::Held`] for a handle that owns a resource: a resource could hold the variant
    /// again.
    pub fn add(&mut self, value: &Tensor) -> Result<(), TensorError> {
        value.check_can_be_held()?;
        let within = value.nesting();
        self.depth = self.depth.max(within.depth);
        self.values = self.values.saturating_add(1).saturating_add(within.values);
        Ok(())
    }

    /// Checks the limits of depth and number.
    pub(super) fn check(self) -> Result<(), TensorError> {
        if self.depth > MAX_NESTING_DEPTH || self.values > MAX_NESTED_VALUES {
            return Err(TensorError::Nested {
                depth: self.depth,
                values: self.values,
            });
        }
        Ok(())
    }
}

impl Tensor {
    /// A scalar tensor that holds an object with these values within.
    ///
    /// # Errors
    /// [`TensorError::Nested`] if there are more than 2^24 values, or they are nested deeper than
    /// 64.
    pub fn variant(
        object: Arc<dyn Any + Send + Sync>,
        values: Nesting,
    ) -> Result<Tensor, TensorError> {
        let nesting = Nesting {
            depth: values.depth.saturating_add(1),
            ..values
        };
        nesting.check()?;
        Ok(Tensor {
            dtype: DType::Variant,
            dims: Dims::new(),
            data: Data::Handles(Handles::One(Handle::owned(object, nesting))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(values: &[&Tensor]) -> Result<Tensor, TensorError> {
        let mut nesting = Nesting::default();
        values.iter().try_for_each(|v| nesting.add(v))?;
        let held: Vec<Tensor> = values.iter().map(|v| (*v).clone()).collect();
        Tensor::variant(Arc::new(held), nesting)
    }

    #[test]
    fn nesting_of_variants_is_bounded() {
        let mut value = Tensor::from(1.0f32);
        let deep = loop {
            value = match around(&[&value]) {
                Ok(value) => value,
                Err(error) => break error,
            };
        };
        assert_eq!(value.nesting().depth, MAX_NESTING_DEPTH);
        assert!(deep.to_string().contains("65 deep"), "{deep}");
    }

    #[test]
    fn values_that_are_shared_count_each_time() {
        let mut value = Tensor::from(1.0f32);
        let many = loop {
            value = match around(&[&value, &value]) {
                Ok(value) => value,
                Err(error) => break error,
            };
        };
        assert!(value.nesting().depth < 25);
        assert!(matches!(many, TensorError::Nested { values, .. } if values > MAX_NESTED_VALUES));
    }

    #[test]
    fn a_handle_that_owns_a_resource_cannot_be_held_by_a_value() {
        let resource = Tensor::handle(DType::Resource, Arc::new(())).unwrap();
        assert_eq!(around(&[&resource]).unwrap_err(), TensorError::Held);
        let weak = resource.into_weak(&mut drop).unwrap();
        assert_eq!(around(&[&weak]).unwrap().nesting().values, 1);
    }
}
