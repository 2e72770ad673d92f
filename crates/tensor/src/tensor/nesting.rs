//! Nesting of variants that hold values: depth and number of values, with their limits.

/// The deepest nesting of variants. A walk through a value, or its drop, recurses as deep.
pub const MAX_NESTING_DEPTH: u32 = 64;
/// The most values in a variant, in all.
pub const MAX_NESTED_VALUES: u64 = 1 << 24;

/// The depth and number of the values in a variant.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_tensor::{Nesting, Tensor};
///
/// let mut nesting = Nesting::default();
/// nesting.add(&Tensor::from(1.0f32))?;
/// let one = Tensor::variant(Arc::new("one"), nesting)?;
/// let mut nesting = Nesting::default();
/// nesting.add(&one)?;
/// nesting.add(&one)?;
/// let two = Tensor::variant(Arc::new("two"), nesting)?;
/// assert_eq!((two.nesting().depth, two.nesting().values), (2, 4));
/// # Ok::<(), thalweg_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nesting {
    /// The depth of nested variants, this one included.
    pub depth: u32,
    /// The number of values within, at any depth. A value that occurs twice counts twice: a walk
    /// meets it twice.
    pub values: u64,
}
