//! The results of a step.

use smallvec::SmallVec;
use thalweg_plan::SessionError;
use thalweg_tensor::{Element, Tensor};

/// The results of a step: a value for each fetched output, in order; nothing for an operation.
///
/// Values have the numbers of the fetches, counted through nested ones.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let count = g.variable("count", 7i64);
/// let pair = g.constant([1.0f32, 2.0]);
/// let session = Session::new(&g)?;
///
/// let step = session.step((g.initializers(), pair), [])?;
/// assert_eq!(step.len(), 2);
/// // Number 0 is an operation, which has no value.
/// assert!(step.tensor(0).is_err());
/// assert_eq!(step.slice::<f32>(1)?, [1.0, 2.0]);
/// assert_eq!(session.run::<i64>(count, [])?, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fetched {
    pub(crate) values: SmallVec<[Option<Tensor>; 4]>,
}

impl Fetched {
    /// The number of fetched outputs and nodes.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// From these values, in order; `None` for an operation.
    pub fn of(values: impl IntoIterator<Item = Option<Tensor>>) -> Fetched {
        Fetched {
            values: values.into_iter().collect(),
        }
    }

    /// The values, in order; none for an operation.
    pub fn into_values(self) -> impl Iterator<Item = Option<Tensor>> {
        self.values.into_iter()
    }

    /// `true` if nothing was fetched.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of fetch `index`.
    ///
    /// # Errors
    /// [`SessionError::Result`] where there is no such fetch, or it is an operation.
    pub fn tensor(&self, index: usize) -> Result<&Tensor, SessionError> {
        tensor(&self.values, index)
    }

    /// The only element of the value of fetch `index`.
    ///
    /// # Errors
    /// [`SessionError::Result`], also where it is not one element, or not a `T`.
    pub fn scalar<T: Element>(&self, index: usize) -> Result<T, SessionError> {
        scalar(&self.values, index)
    }

    /// The elements of the value of fetch `index`.
    ///
    /// # Errors
    /// [`SessionError::Result`], also where they are not `T`.
    pub fn slice<T: Element>(&self, index: usize) -> Result<&[T], SessionError> {
        slice(&self.values, index)
    }
}

pub(crate) fn slice<T: Element>(
    values: &[Option<Tensor>],
    index: usize,
) -> Result<&[T], SessionError> {
    let elements = tensor(values, index)?.as_slice();
    elements.map_err(|e| result(index, e.to_string()))
}

pub(crate) fn tensor(values: &[Option<Tensor>], index: usize) -> Result<&Tensor, SessionError> {
    match values.get(index) {
        Some(Some(tensor)) => Ok(tensor),
        Some(None) => Err(result(
            index,
            "an operation has no value: fetch an output".into(),
        )),
        None => Err(result(
            index,
            format!("only {} things were fetched", values.len()),
        )),
    }
}

pub(crate) fn scalar<T: Element>(
    values: &[Option<Tensor>],
    index: usize,
) -> Result<T, SessionError> {
    tensor(values, index)?
        .to_scalar()
        .map_err(|e| result(index, e.to_string()))
}

fn result(index: usize, reason: String) -> SessionError {
    let what = format!("result number {index}");
    SessionError::Result { what, reason }
}
