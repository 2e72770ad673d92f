//! Elements that get their components one after the other: entries of barriers and of staging maps.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::{Memory, Reservation, Tensor};

use crate::support::tensors::reserved;

/// An element some of whose components may be missing.
pub(super) struct PartialElement {
    components: Box<[Option<Tensor>]>,
    /// Memory of the element: one value may be in many.
    _reserved: Reservation,
}

impl PartialElement {
    /// An element without its `count` components.
    ///
    /// # Errors
    /// [`KernelError::Memory`] if the limit does not allow it.
    pub(super) fn new(count: usize, memory: &Arc<Memory>) -> Result<PartialElement, KernelError> {
        // A map has a key and up to twice the places that it uses.
        let bytes = 4 * size_of::<PartialElement>() + count.saturating_mul(size_of::<Tensor>());
        let reserved = reserved(bytes, Some(memory))?;
        Ok(PartialElement {
            components: vec![None; count].into_boxed_slice(),
            _reserved: reserved,
        })
    }

    /// A component; `None` if it is missing, or if there are fewer.
    pub(super) fn get(&self, index: usize) -> Option<&Tensor> {
        self.components.get(index)?.as_ref()
    }

    /// Sets a component; `index` is below the count.
    pub(super) fn set(&mut self, index: usize, value: Tensor) {
        self.components[index] = Some(value);
    }

    /// Removes a component.
    pub(super) fn take(&mut self, index: usize) -> Option<Tensor> {
        self.components.get_mut(index)?.take()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.components.iter().all(Option::is_some)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.components.iter().all(Option::is_none)
    }

    /// The components that are there.
    pub(super) fn into_components(self) -> impl Iterator<Item = Tensor> {
        self.components.into_vec().into_iter().flatten()
    }
}
