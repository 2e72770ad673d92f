//! What a step is asked for, what it is given, and what it gives.

use smallvec::SmallVec;
use thalweg_graph::{Graph, Operation, Output, OutputId};
use thalweg_ops::Variable;
use thalweg_tensor::{Element, Tensor};

use thalweg_plan::{Fetch, SessionError};

/// What a step fetches, in order.
#[derive(Default)]
pub struct FetchList<'g> {
    pub(crate) items: SmallVec<[Fetch; 4]>,
    pub(crate) graphs: SmallVec<[Option<&'g Graph>; 4]>,
}

impl<'g> FetchList<'g> {
    /// What `fetches` asks for of `graph`.
    ///
    /// # Errors
    /// [`SessionError::OtherGraph`].
    pub fn of(fetches: &impl Fetches<'g>, graph: &Graph) -> Result<FetchList<'g>, SessionError> {
        let mut list = FetchList::default();
        fetches.add_to(&mut list);
        let other = |g: &Option<&Graph>| g.is_some_and(|g| !std::ptr::eq(g, graph));
        match list.graphs.iter().position(other) {
            Some(index) => Err(SessionError::OtherGraph {
                what: "fetch",
                index,
            }),
            None => Ok(list),
        }
    }

    /// The things, in order.
    pub fn items(&self) -> &[Fetch] {
        &self.items
    }
}

/// Things that can be fetched: outputs, operations, variables, and arrays, slices, vectors and
/// tuples of them, nested as one likes. An operation is run and gives no value.
pub trait Fetches<'g> {
    /// Adds itself to the list.
    fn add_to(&self, list: &mut FetchList<'g>);
}

impl<'g> Fetches<'g> for Output<'g> {
    fn add_to(&self, list: &mut FetchList<'g>) {
        list.items.push(Fetch::Value(self.id()));
        list.graphs.push(Some(self.graph()));
    }
}

impl<'g> Fetches<'g> for Operation<'g> {
    fn add_to(&self, list: &mut FetchList<'g>) {
        list.items.push(Fetch::Run(self.id()));
        list.graphs.push(Some(self.graph()));
    }
}

impl<'g> Fetches<'g> for Variable<'g> {
    fn add_to(&self, list: &mut FetchList<'g>) {
        self.value().add_to(list);
    }
}

impl<'g, F: Fetches<'g> + ?Sized> Fetches<'g> for &F {
    fn add_to(&self, list: &mut FetchList<'g>) {
        (**self).add_to(list);
    }
}

impl<'g, F: Fetches<'g>> Fetches<'g> for [F] {
    fn add_to(&self, list: &mut FetchList<'g>) {
        self.iter().for_each(|f| f.add_to(list));
    }
}

impl<'g, F: Fetches<'g>, const N: usize> Fetches<'g> for [F; N] {
    fn add_to(&self, list: &mut FetchList<'g>) {
        self[..].add_to(list);
    }
}

impl<'g, F: Fetches<'g>> Fetches<'g> for Vec<F> {
    fn add_to(&self, list: &mut FetchList<'g>) {
        self[..].add_to(list);
    }
}

impl<'g> Fetches<'g> for () {
    fn add_to(&self, _: &mut FetchList<'g>) {}
}

// Tuples of two to six; Rust has no way to say "of any length".
macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<'g, $($name: Fetches<'g>),*> Fetches<'g> for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of the types")]
            fn add_to(&self, list: &mut FetchList<'g>) {
                let ($($name,)*) = self;
                $($name.add_to(list);)*
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

/// A value for an output, for one step. Any output can be fed: the graph is cut there.
///
/// [`Feeding::feed`] makes one. A value in the middle of a graph can be fed as well as a placeholder, which helps tests.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, SourceOps};
/// use thalweg_session::{Feed, Feeding, Session};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let hidden = x.exp();
/// let y = hidden + 1.0;
///
/// let session = Session::new(&g)?;
/// // What lies before `hidden` does not run, so `x` is not needed.
/// let feeds: [Feed<'_>; 1] = [hidden.feed(5.0f32)];
/// assert_eq!(session.run(y, feeds)?.scalar::<f32>(0)?, 6.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Feed<'g> {
    pub(crate) output: Output<'g>,
    pub(crate) value: Tensor,
}

impl<'g> Feed<'g> {
    /// Outputs and values, in order, of which none is of another graph than `graph`.
    ///
    /// # Errors
    /// [`SessionError::OtherGraph`].
    pub fn all_of<'f>(
        feeds: &'f [Feed<'g>],
        graph: &Graph,
    ) -> Result<impl Iterator<Item = (OutputId, &'f Tensor)>, SessionError> {
        let other = |f: &Feed<'_>| !std::ptr::eq(f.output.graph(), graph);
        match feeds.iter().position(other) {
            Some(index) => Err(SessionError::OtherGraph {
                what: "feed",
                index,
            }),
            None => Ok(feeds.iter().map(|f| (f.output.id(), &f.value))),
        }
    }
}

/// Makes feeds.
pub trait Feeding<'g> {
    /// This output's value for a step. A tensor is shared, not copied.
    fn feed(self, value: impl Into<Tensor>) -> Feed<'g>;
}

impl<'g> Feeding<'g> for Output<'g> {
    fn feed(self, value: impl Into<Tensor>) -> Feed<'g> {
        Feed {
            output: self,
            value: value.into(),
        }
    }
}

/// What a step gave: a value for each fetched output, in order; nothing for an operation.
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
/// let step = session.run((g.initializers(), pair), [])?;
/// assert_eq!(step.len(), 2);
/// // Number 0 is an operation, which has no value.
/// assert!(step.tensor(0).is_err());
/// assert_eq!(step.slice::<f32>(1)?, [1.0, 2.0]);
/// assert_eq!(session.run(count, [])?.scalar::<i64>(0)?, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fetched {
    pub(crate) values: SmallVec<[Option<Tensor>; 4]>,
}

impl Fetched {
    /// The number of things that were fetched.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// These values, in order; none for an operation.
    pub fn of(values: impl IntoIterator<Item = Option<Tensor>>) -> Fetched {
        Fetched {
            values: values.into_iter().collect(),
        }
    }

    /// The values, in order; none for an operation.
    pub fn into_values(self) -> impl Iterator<Item = Option<Tensor>> {
        self.values.into_iter()
    }

    /// Whether nothing was fetched.
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
        self.tensor(index)?
            .as_slice()
            .map_err(|e| result(index, e.to_string()))
    }
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
    SessionError::Result { index, reason }
}
