//! Steps: the trait of sessions that savers, hooks and monitored sessions use. Local sessions and those of a cluster
//! implement it.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{NewGraph, StateOps};
//! use thalweg_session::{RunOptions, Session};
//! use thalweg_train::{Steps, TrainError};
//!
//! fn count(session: &dyn Steps, fetch: thalweg_session::Fetch) -> Result<i64, TrainError> {
//!     let (values, _) = session.run_step(&[fetch], &[], &RunOptions::new())?;
//!     Ok(values[0].as_ref().map_or(0, |v| v.as_slice::<i64>().map_or(0, |v| v[0])))
//! }
//!
//! # fn main() -> Result<(), TrainError> {
//! let g = Graph::new();
//! let n = g.variable("n", 3i64);
//! let session = Session::new(&g)?;
//! session.run(g.initializers(), [])?;
//! assert_eq!(count(&session, thalweg_session::Fetch::Value(n.value().id()))?, 3);
//! # Ok(())
//! # }
//! ```

use thalweg_graph::{Graph, OutputId};
use thalweg_session::{Fetch, RunOptions, Session, Trace};
use thalweg_tensor::Tensor;

use crate::error::TrainError;

/// A session: runs steps of a graph.
pub trait Steps {
    /// The graph.
    fn graph(&self) -> &Graph;

    /// Runs a step. Returns a value for each fetched output, `None` for a node that is only run, and the trace of the
    /// step, which is empty unless the options request it. Fetches and feeds are ids of this graph.
    ///
    /// # Errors
    /// [`TrainError::Step`].
    fn run_step(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), TrainError>;

    /// `true` if other processes may run steps on the same variables.
    fn is_shared(&self) -> bool;

    /// Counters of the random ops of the session, by node: empty if the session does not know them, as one over a
    /// cluster.
    fn random_state(&self) -> Vec<(String, u64)>;

    /// Sets the counters of random ops.
    fn set_random_state(&self, state: &[(String, u64)]);
}

impl Steps for Session<'_> {
    fn graph(&self) -> &Graph {
        Session::graph(self)
    }

    fn run_step(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), TrainError> {
        let (fetched, trace) = self.run_ids(fetches, feeds, options)?;
        Ok((fetched.into_values().collect(), trace))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn random_state(&self) -> Vec<(String, u64)> {
        Session::random_state(self)
    }

    fn set_random_state(&self, state: &[(String, u64)]) {
        Session::set_random_state(self, state);
    }
}
