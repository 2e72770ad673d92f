//! Dimensions of a chain's inputs, relative to those of its output.

use thalweg_tensor::shape::elements;

/// Dimensions of an input, relative to the output's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// All of the output's dimensions.
    Full,
    /// The last of the output's dimensions.
    Row {
        /// Number of elements.
        len: usize,
        /// Number of dimensions.
        rank: usize,
    },
    /// One element.
    One,
}

impl InputKind {
    /// InputKind of an input of these dimensions for an output of those; `None` if it fits none.
    pub fn of(dims: &[usize], output: &[usize]) -> Option<InputKind> {
        if dims == output {
            return Some(InputKind::Full);
        }
        if elements(dims) == 1 && dims.len() <= output.len() {
            return Some(InputKind::One);
        }
        let leading = dims.iter().take_while(|&&d| d == 1).count();
        let (last, rank) = (&dims[leading..], dims.len() - leading);
        let (len, ends) = (elements(last), output.ends_with(last));
        (ends && dims.len() <= output.len() && (1..=MAX_PIECE).contains(&len))
            .then_some(InputKind::Row { len, rank })
    }
}

/// Maximum number of elements of a piece: kernels run on it without splitting it, and several pieces fit in a cache.
pub(super) const MAX_PIECE: usize = 4096;
