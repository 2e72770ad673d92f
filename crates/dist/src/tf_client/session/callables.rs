//! Callables: steps that a session keeps, to be run by handle.

use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::text::counted;
use tonic::Code;

use super::MasterSession;
use crate::limits::settings::limit_name;
use crate::tf_client::messages::CallableOptions;
use crate::tf_client::node_names;
use crate::tf_client::request::Request;
use crate::tf_client::status::{Status, limit_exceeded};

impl MasterSession {
    /// Keeps a callable, whose options take `bytes`. Returns its handle.
    ///
    /// # Errors
    /// A name is unknown, or the limit of callables is reached.
    pub(crate) fn make_callable(
        &self,
        options: CallableOptions,
        bytes: usize,
    ) -> Result<i64, Status> {
        if !options.tensor_connection.is_empty() {
            return Err(Status::new(
                Code::Unimplemented,
                "connections of outputs to inputs are not supported in callables",
            ));
        }
        let feeds = options.feed.iter().map(|f| &**f);
        node_names::check_disjoint(feeds, options.fetch.iter().map(|f| &**f))?;
        let named = options.fetch.iter().chain(&options.target);
        self.add_needed(named.chain(&options.feed).map(|n| &**n))?;
        for name in &options.feed {
            node_names::feed(&self.graph, name)?;
        }
        for name in &options.fetch {
            node_names::fetch(&self.graph, name)?;
        }
        node_names::targets(&self.graph, &options.target)?;
        let mut callables = self.callables.lock().unpoisoned();
        if callables.kept.len() >= self.limits.callables {
            let text = format!(
                "a session may have {} callables: release one",
                self.limits.callables
            );
            return Err(limit_exceeded(const { limit_name("callables") }, &text));
        }
        self.hold(bytes)?.keep();
        let handle = callables.next;
        callables.next += 1;
        callables.kept.insert(handle, (options, bytes));
        Ok(handle)
    }

    /// Returns the request of a callable, with these values for its feeds.
    ///
    /// # Errors
    /// There is no such callable, or it takes more feeds.
    pub fn callable(&self, handle: i64, values: Vec<Tensor>) -> Result<Request, Status> {
        let callables = self.callables.lock().unpoisoned();
        let Some((options, _)) = callables.kept.get(&handle) else {
            return Err(Status::invalid(
                match (0..callables.next).contains(&handle) {
                    true => {
                        format!("Attempted to run callable after handle was released: {handle}")
                    }
                    false => format!("No such callable handle: {handle}"),
                },
            ));
        };
        if values.len() < options.feed.len() {
            return Err(Status::invalid(format!(
                "the callable takes {}, not {}",
                counted(options.feed.len(), "feed"),
                values.len()
            )));
        }
        Ok(Request {
            feeds: options.feed.iter().cloned().zip(values).collect(),
            fetches: options.fetch.clone(),
            targets: options.target.clone(),
            options: options.run_options,
        })
    }

    /// Drops a callable.
    pub fn release_callable(&self, handle: i64) {
        let kept = self.callables.lock().unpoisoned().kept.remove(&handle);
        if let Some((_, bytes)) = kept {
            self.held.lock().unpoisoned().shrink(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::server_limits::{Limits, memory_account};
    use crate::runtime::platform::system;
    use crate::tf_client::runner::StepRunner;
    use std::sync::Arc;
    use thalweg_graph::Graph;
    use thalweg_ops::{MathOps, NewGraph, SourceOps};
    use thalweg_session::{Engine, SessionOptions};
    use thalweg_tensor::{DType, Memory, Reservation};

    use super::*;

    /// Returns a session with `x`, and `y = exp(x)`, that may have `most` callables.
    fn session(most: usize) -> (Arc<Memory>, MasterSession) {
        let options = SessionOptions::new().threads(1);
        let runs = StepRunner::local(Engine::new(&options).unwrap(), options);
        let budget = memory_account(1000);
        // No step runs.
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let platform = system(runtime.unwrap().handle().clone());
        let limits = Limits {
            callables: most,
            ..Limits::default()
        };
        let session = MasterSession::new(
            Graph::new(),
            runs,
            None,
            &limits,
            Reservation::of(Some(&budget)),
            platform,
        );
        let x = session.graph.placeholder("x", DType::F32, []);
        let _ = session.graph.at_caller(|| x.exp().named("y"));
        (budget, session)
    }

    #[test]
    fn callables_are_bounded_and_give_back_their_bytes() {
        let (budget, session) = session(1);
        let make = |fetch: &str| {
            let options = CallableOptions {
                feed: vec!["x:0".to_owned()],
                fetch: vec![fetch.to_owned()],
                ..CallableOptions::default()
            };
            session.make_callable(options, 100)
        };
        assert_eq!(make("nope:0").unwrap_err().code, Code::NotFound);
        assert_eq!(make("x:0").unwrap_err().code, Code::InvalidArgument);
        assert_eq!((make("y:0"), budget.used()), (Ok(0), 100));
        let full = make("y:0").unwrap_err();
        assert_eq!((full.limit, budget.used()), (Some("callables"), 100));
        session.release_callable(0);
        session.release_callable(0);
        assert_eq!(budget.used(), 0);
        assert_eq!(make("y:0"), Ok(1));
    }

    #[test]
    fn a_callable_runs_with_all_of_its_feeds_until_it_is_released() {
        let (_, session) = session(1);
        let options = CallableOptions {
            feed: vec!["x:0".to_owned()],
            fetch: vec!["y:0".to_owned()],
            ..CallableOptions::default()
        };
        let handle = session.make_callable(options, 1).unwrap();
        let value = || vec![Tensor::scalar(1.0f32)];
        let request = session.callable(handle, value()).unwrap();
        assert_eq!(request.feeds[0].0, "x:0");
        assert_eq!(request.fetches, ["y:0"]);
        let refused = |handle, values| session.callable(handle, values).unwrap_err().message;
        assert!(refused(handle, Vec::new()).contains("takes 1 feed, not 0"));
        assert!(refused(handle + 1, value()).starts_with("No such callable handle"));
        assert!(refused(-1, value()).starts_with("No such callable handle"));
        session.release_callable(handle);
        assert!(refused(handle, value()).contains("after handle was released"));
    }
}
