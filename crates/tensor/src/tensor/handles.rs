//! Resource and variant tensors: their handles, and who owns the objects behind them.
//!
//! An object that holds values (a queue, a stack, a list) may come to hold a handle of itself. So the handle of a
//! resource that such an object holds owns nothing: [`crate::Tensor::into_weak`] makes it.

use std::any::Any;
use std::sync::{Arc, Weak};

use super::nesting::Nesting;
use crate::reservation::Reservation;

/// A shared runtime object.
pub(super) type Object = Arc<dyn Any + Send + Sync>;

/// An element of a resource or variant tensor.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) object: Ownership,
    /// The nesting of the values that the object holds.
    pub(super) nesting: Nesting,
}

#[derive(Clone)]
pub(super) enum Ownership {
    Owned(Object),
    Weak(Weak<dyn Any + Send + Sync>),
}

/// The elements of a resource or variant tensor.
#[derive(Clone)]
pub(super) enum Handles {
    /// The element of a scalar, and of any tensor that has one alone.
    One(Handle),
    /// Any other number of elements.
    Many(Arc<HandleArray>),
}

pub(super) struct HandleArray {
    pub(super) all: Vec<Handle>,
    pub(super) nesting: Nesting,
    /// Held for its drop.
    pub(super) _taken: Reservation,
}

impl Handle {
    pub(super) fn owned(object: Object, nesting: Nesting) -> Handle {
        Handle {
            object: Ownership::Owned(object),
            nesting,
        }
    }

    /// The object, if it still exists.
    pub(super) fn object(&self) -> Option<Object> {
        match &self.object {
            Ownership::Owned(object) => Some(object.clone()),
            Ownership::Weak(object) => object.upgrade(),
        }
    }

    pub(super) fn address(&self) -> *const () {
        match &self.object {
            Ownership::Owned(object) => Arc::as_ptr(object).cast(),
            Ownership::Weak(object) => object.as_ptr().cast(),
        }
    }

    pub(super) fn is_owned(&self) -> bool {
        matches!(self.object, Ownership::Owned(_))
    }

    pub(super) fn into_weak(self, keep: &mut dyn FnMut(Object)) -> Handle {
        let object = match self.object {
            Ownership::Owned(object) => {
                let weak = Arc::downgrade(&object);
                keep(object);
                weak
            }
            Ownership::Weak(object) => object,
        };
        Handle {
            object: Ownership::Weak(object),
            ..self
        }
    }
}

impl Handles {
    pub(super) fn all(&self) -> &[Handle] {
        match self {
            Handles::One(handle) => std::slice::from_ref(handle),
            Handles::Many(array) => &array.all,
        }
    }

    pub(super) fn nesting(&self) -> Nesting {
        match self {
            Handles::One(handle) => handle.nesting,
            Handles::Many(array) => array.nesting,
        }
    }

    /// The bytes that they take; of one, none is counted.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Handles::One(_) => 0,
            Handles::Many(array) => array.all.len() * size_of::<Handle>(),
        }
    }
}

impl PartialEq for Handles {
    /// `true` if both hold the same objects.
    fn eq(&self, other: &Handles) -> bool {
        let addresses = |handles: &Handles| handles.all().iter().map(Handle::address).collect();
        let (one, other): (Vec<_>, Vec<_>) = (addresses(self), addresses(other));
        one == other
    }
}
