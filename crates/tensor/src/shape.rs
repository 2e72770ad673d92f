//! Shapes: dimensions of a tensor, which may be partly unknown while a graph is built.
//!
//! ```
//! use thalweg_tensor::shape::{broadcast_dims, elements};
//!
//! // A bias of three numbers is added to each of two rows.
//! let sum = broadcast_dims(&[2, 3], &[3]).unwrap();
//! assert_eq!(sum.as_slice(), [2, 3]);
//! assert_eq!(elements(&sum), 6);
//! ```

use std::fmt;

use smallvec::SmallVec;

/// The dimensions of an existing tensor.
pub type Dims = SmallVec<[usize; 6]>;

/// The number of elements of a tensor with these dimensions, or `None` on overflow.
pub fn checked_elements(dims: &[usize]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// The number of elements of a tensor with these dimensions.
///
/// Saturates instead of overflowing; an existing tensor never overflows.
pub fn elements(dims: &[usize]) -> usize {
    checked_elements(dims).unwrap_or(usize::MAX)
}

/// A shape whose rank, or some of whose dimensions, may be unknown.
///
/// Made from arrays of `i64`, where a negative number stands for an unknown dimension:
/// `[-1, 784]`; `[]` is a scalar; [`Shape::unknown`] has no known rank.
///
/// ```
/// use thalweg_tensor::Shape;
///
/// // A batch of any size, with 784 numbers in each row.
/// let batch = Shape::from([-1, 784]);
/// assert_eq!(batch.to_string(), "[?,784]");
/// assert_eq!((batch.rank(), batch.dim(0)), (Some(2), None));
/// assert!(batch.admits(&[50, 784]));
/// assert!(!batch.admits(&[784]));
///
/// // Two partial shapes of one tensor.
/// let both = batch.merge(&Shape::from([50, -1]));
/// assert_eq!(both, Some(Shape::known(&[50, 784])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    dims: Option<SmallVec<[Option<usize>; 4]>>,
}

impl Shape {
    /// A shape of unknown rank.
    pub const UNKNOWN: Shape = Shape { dims: None };

    /// A shape of unknown rank.
    pub fn unknown() -> Shape {
        Shape { dims: None }
    }

    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape {
            dims: Some(SmallVec::new()),
        }
    }

    /// A shape of known rank with unknown dimensions.
    pub fn of_rank(rank: usize) -> Shape {
        Shape {
            dims: Some(SmallVec::from_elem(None, rank)),
        }
    }

    /// A shape whose dimensions are all known.
    pub fn known(dims: &[usize]) -> Shape {
        Shape {
            dims: Some(dims.iter().map(|&d| Some(d)).collect()),
        }
    }

    /// A shape of known rank; `None` stands for an unknown dimension.
    pub fn partial(dims: impl IntoIterator<Item = Option<usize>>) -> Shape {
        Shape {
            dims: Some(dims.into_iter().collect()),
        }
    }

    /// The rank, if it is known.
    pub fn rank(&self) -> Option<usize> {
        self.dims.as_ref().map(|d| d.len())
    }

    /// The dimensions, if the rank is known.
    pub fn dims(&self) -> Option<&[Option<usize>]> {
        self.dims.as_deref()
    }

    /// Dimension `i`, if it is known.
    pub fn dim(&self, i: usize) -> Option<usize> {
        self.dims.as_ref().and_then(|d| d.get(i).copied().flatten())
    }

    /// All dimensions, if all are known.
    pub fn to_dims(&self) -> Option<Dims> {
        self.dims.as_ref()?.iter().copied().collect()
    }

    /// `true` if every dimension is known.
    pub fn is_known(&self) -> bool {
        self.dims
            .as_ref()
            .is_some_and(|d| d.iter().all(Option::is_some))
    }

    /// The number of elements, if all dimensions are known (or one is known to be 0).
    pub fn elements(&self) -> Option<usize> {
        let dims = self.dims.as_ref()?;
        if dims.contains(&Some(0)) {
            return Some(0);
        }
        dims.iter()
            .try_fold(1usize, |n, d| d.and_then(|d| n.checked_mul(d)))
    }

    /// `true` if a tensor with these dimensions has this shape.
    pub fn admits(&self, dims: &[usize]) -> bool {
        match &self.dims {
            None => true,
            Some(own) => {
                own.len() == dims.len()
                    && own.iter().zip(dims).all(|(s, &d)| s.is_none_or(|s| s == d))
            }
        }
    }

    /// The combined knowledge of both shapes, or `None` if they contradict each other.
    pub fn merge(&self, other: &Shape) -> Option<Shape> {
        match (&self.dims, &other.dims) {
            (None, _) => Some(other.clone()),
            (_, None) => Some(self.clone()),
            (Some(a), Some(b)) if a.len() == b.len() => a
                .iter()
                .zip(b)
                .map(|(a, b)| match (a, b) {
                    (Some(a), Some(b)) if a != b => None,
                    (a, b) => Some(a.or(*b)),
                })
                .collect::<Option<_>>()
                .map(|dims| Shape { dims: Some(dims) }),
            _ => None,
        }
    }

    /// The most specific shape that admits all that both shapes admit.
    ///
    /// ```
    /// use thalweg_tensor::Shape;
    ///
    /// let grown = Shape::known(&[2, 5]).common(&Shape::known(&[3, 5]));
    /// assert_eq!(grown, Shape::partial([None, Some(5)]));
    /// assert_eq!(grown.common(&Shape::scalar()), Shape::unknown());
    /// ```
    pub fn common(&self, other: &Shape) -> Shape {
        match (&self.dims, &other.dims) {
            (Some(a), Some(b)) if a.len() == b.len() => {
                Shape::partial(a.iter().zip(b).map(|(a, b)| a.filter(|_| a == b)))
            }
            _ => Shape::unknown(),
        }
    }

    /// The shape of an elementwise operation on two tensors, by NumPy's rule; `None` if they do not
    /// broadcast.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let (Some(a), Some(b)) = (&self.dims, &other.dims) else {
            return Some(Shape::unknown());
        };
        let rank = a.len().max(b.len());
        let at = |s: &[Option<usize>], i: usize| {
            (i + s.len()).checked_sub(rank).map_or(Some(1), |j| s[j])
        };
        (0..rank)
            .map(|i| match (at(a, i), at(b, i)) {
                (Some(1), d) | (d, Some(1)) => Some(d),
                (Some(a), Some(b)) => (a == b).then_some(Some(a)),
                // A known dimension other than 1 decides: the unknown one must be equal or 1.
                (Some(d), None) | (None, Some(d)) => Some(Some(d)),
                (None, None) => Some(None),
            })
            .collect::<Option<_>>()
            .map(|dims| Shape { dims: Some(dims) })
    }
}

/// The dimensions of an elementwise operation on two tensors, by NumPy's rule.
pub fn broadcast_dims(a: &[usize], b: &[usize]) -> Option<Dims> {
    Shape::known(a).broadcast(&Shape::known(b))?.to_dims()
}

impl<const N: usize> From<[i64; N]> for Shape {
    fn from(dims: [i64; N]) -> Shape {
        Shape::from(&dims[..])
    }
}

// One impl for each length: a generic one would leave the element type of `[]` ambiguous. The
// element type of integer literals is `i32` if several types would do.
macro_rules! of_rank {
    ($($rank:literal)*) => {$(
        impl From<[i32; $rank]> for Shape {
            fn from(dims: [i32; $rank]) -> Shape {
                Shape::from(dims.map(i64::from))
            }
        }

        /// Dimensions that are all known: `[batch, tensor.dims()[1]]`.
        impl From<[usize; $rank]> for Shape {
            fn from(dims: [usize; $rank]) -> Shape {
                Shape::known(&dims)
            }
        }

        /// Dimensions of which some are unknown: `[None, Some(4)]`.
        impl From<[Option<usize>; $rank]> for Shape {
            fn from(dims: [Option<usize>; $rank]) -> Shape {
                Shape::partial(dims)
            }
        }
    )*};
}

of_rank! { 1 2 3 4 5 6 7 8 }

impl From<&[i64]> for Shape {
    fn from(dims: &[i64]) -> Shape {
        Shape::partial(dims.iter().map(|&d| usize::try_from(d).ok()))
    }
}

impl From<Vec<i64>> for Shape {
    fn from(dims: Vec<i64>) -> Shape {
        Shape::from(&dims[..])
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape::known(dims)
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = &self.dims else {
            return f.write_str("<unknown>");
        };
        f.write_str("[")?;
        for (i, d) in dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match d {
                Some(d) => write!(f, "{d}")?,
                None => f.write_str("?")?,
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_dimensions_print_as_question_marks() {
        assert_eq!(Shape::from([-1, 784]).to_string(), "[?,784]");
        assert_eq!(Shape::scalar().to_string(), "[]");
        assert_eq!(Shape::unknown().to_string(), "<unknown>");
    }

    #[test]
    fn elements_do_not_overflow() {
        assert_eq!(checked_elements(&[usize::MAX, 2]), None);
        assert_eq!(checked_elements(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(Shape::known(&[usize::MAX, 2]).elements(), None);
    }

    fn shape() -> impl Strategy<Value = Shape> {
        proptest::option::of(proptest::collection::vec(
            proptest::option::of(0usize..4),
            0..4,
        ))
        .prop_map(|d| d.map_or(Shape::unknown(), Shape::partial))
    }

    proptest! {
        #[test]
        fn merge_and_broadcast_do_not_depend_on_the_order(a in shape(), b in shape()) {
            prop_assert_eq!(a.merge(&b), b.merge(&a));
            prop_assert_eq!(a.common(&b), b.common(&a));
            prop_assert_eq!(a.broadcast(&b), b.broadcast(&a));
        }

        #[test]
        fn merge_with_itself_is_itself(a in shape()) {
            prop_assert_eq!(a.merge(&a), Some(a.clone()));
        }

        #[test]
        fn broadcast_of_known_dims_agrees_with_the_rule(
            a in proptest::collection::vec(0usize..4, 0..4),
            b in proptest::collection::vec(0usize..4, 0..4),
        ) {
            let rank = a.len().max(b.len());
            let pad = |s: &[usize]| { let mut v = vec![1; rank - s.len()]; v.extend(s); v };
            let (pa, pb) = (pad(&a), pad(&b));
            let fits = pa.iter().zip(&pb).all(|(x, y)| x == y || *x == 1 || *y == 1);
            let want: Option<Dims> = fits.then(|| pa.iter().zip(&pb).map(|(x, y)| if *x == 1 { *y } else { *x }).collect());
            prop_assert_eq!(broadcast_dims(&a, &b), want);
        }
    }
}
