//! Callables: a step whose plan is looked up once, for the least overhead in each call.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_graph::OutputId;
use thalweg_tensor::{Dims, Element, Tensor};

use crate::compiled_step::CompiledStep;
use crate::exec::StepControls;
use crate::fetch::{FetchList, Fetches, fed_outputs, scalar, slice, tensor};
use crate::session::Session;
use thalweg_plan::Fetch;
use thalweg_plan::SessionError;

/// A step with its plan. Once warmed up, a call allocates nothing as long as the feeds keep their
/// shapes and the results are not held elsewhere.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Session;
/// use thalweg_tensor::{DType, Tensor};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let y = g.placeholder("y", DType::F32, []);
/// let session = Session::new(&g)?;
///
/// // The feeds of a call stand in this order.
/// let mut product = session.callable(x * y, [x, y])?;
/// for (a, b) in [(2.0f32, 3.0f32), (4.0, 5.0)] {
///     let called = product.call(&[Tensor::scalar(a), Tensor::scalar(b)])?;
///     assert_eq!(called.scalar::<f32>(0)?, a * b);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Callable<'g> {
    session: Session<'g>,
    fetches: SmallVec<[Fetch; 4]>,
    feeds: SmallVec<[OutputId; 4]>,
    compiled: Option<Arc<CompiledStep>>,
    dims: SmallVec<[Dims; 4]>,
    results: SmallVec<[Option<Tensor>; 4]>,
}

impl<'g> Session<'g> {
    /// Makes a callable: its plan is looked up once, and its results are written into the same tensors again as long as
    /// nothing else holds them. `feeds` lists the outputs that each call gives values for, in order: `[x, y]`, or `()`
    /// for none. It belongs to this session, and outlives this handle of it.
    ///
    /// # Errors
    /// A fetch or feed that does not exist or belongs to another graph.
    pub fn callable(
        &self,
        fetches: impl Fetches,
        feeds: impl Fetches,
    ) -> Result<Callable<'g>, SessionError> {
        self.graph_ref().checked()?;
        let list = FetchList::of(&fetches, self.graph_ref())?;
        let feeds = fed_outputs(&feeds, self.graph_ref())?;
        Ok(Callable::new(self.clone(), list.items, feeds))
    }
}

impl<'g> Callable<'g> {
    fn new(
        session: Session<'g>,
        fetches: SmallVec<[Fetch; 4]>,
        feeds: SmallVec<[OutputId; 4]>,
    ) -> Callable<'g> {
        Callable {
            session,
            fetches,
            feeds,
            compiled: None,
            dims: SmallVec::new(),
            results: SmallVec::new(),
        }
    }

    /// Runs the step, with a value for each feed in the order in which the callable was made.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn call(&mut self, feeds: &[Tensor]) -> Result<CallResults<'_>, SessionError> {
        if feeds.len() != self.feeds.len() {
            return Err(SessionError::FeedCount {
                expected: self.feeds.len(),
                found: feeds.len(),
            });
        }
        let same = self.dims.len() == feeds.len()
            && self.dims.iter().zip(feeds).all(|(d, t)| d[..] == *t.dims());
        let compiled = match &self.compiled {
            // A dtype cannot change: the first call has checked it against the output's.
            Some(compiled) if same && self.dtypes_fit(compiled, feeds) => compiled.clone(),
            _ => {
                let graph = || self.session.graph_ref().checked();
                let given = self.feeds.iter().copied().zip(feeds);
                let compiled = (self.session.runner()).plan(&graph, &self.fetches, given, true)?;
                self.dims = feeds.iter().map(|t| t.dims().into()).collect();
                self.compiled = Some(compiled.clone());
                compiled
            }
        };
        self.session.runner().step(
            &compiled,
            feeds.iter(),
            StepControls::default(),
            &mut self.results,
        )?;
        Ok(CallResults {
            values: &self.results,
        })
    }

    fn dtypes_fit(&self, compiled: &CompiledStep, feeds: &[Tensor]) -> bool {
        let plan = &compiled.plan;
        plan.feeds.iter().zip(feeds).all(|(slots, tensor)| {
            let slot = slots.first().map(|&(p, s)| plan.slot(p, s));
            slot.is_none_or(|s| s.dtype == tensor.dtype())
        })
    }
}

/// The results of a call; valid until the next one.
#[derive(Clone, Copy, Debug)]
pub struct CallResults<'c> {
    values: &'c [Option<Tensor>],
}

impl<'c> CallResults<'c> {
    /// The value of fetch `index`.
    ///
    /// # Errors
    /// [`SessionError::Result`] where there is no such fetch, or it is an operation.
    pub fn tensor(self, index: usize) -> Result<&'c Tensor, SessionError> {
        tensor(self.values, index)
    }

    /// The only element of the value of fetch `index`.
    ///
    /// # Errors
    /// [`SessionError::Result`], also where it is not one element, or not a `T`.
    pub fn scalar<T: Element>(self, index: usize) -> Result<T, SessionError> {
        scalar(self.values, index)
    }

    /// The elements of the value of fetch `index`.
    ///
    /// # Errors
    /// [`SessionError::Result`], also where they are no `T`.
    pub fn slice<T: Element>(self, index: usize) -> Result<&'c [T], SessionError> {
        slice(self.values, index)
    }
}

impl std::fmt::Debug for Callable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callable").finish_non_exhaustive()
    }
}
