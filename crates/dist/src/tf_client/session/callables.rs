//! Callables: steps that a session keeps, to be run by handle.

use thalweg_tensor::Tensor;
use thalweg_tensor::text::counted;
use tonic::Code;

use super::MasterSession;
use crate::limits::settings::limit_name;
use crate::runtime::lock::locked;
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
        bytes: u64,
    ) -> Result<i64, Status> {
        if !options.tensor_connection.is_empty() {
            return Err(Status::new(
                Code::Unimplemented,
                "connections of outputs to inputs are not supported in callables",
            ));
        }
        let feeds = options.feed.iter().map(|f| &**f);
        node_names::check_disjoint(feeds, options.fetch.iter().map(|f| &**f))?;
        for name in &options.feed {
            node_names::feed(&self.graph, name)?;
        }
        for name in &options.fetch {
            node_names::fetch(&self.graph, name)?;
        }
        node_names::targets(&self.graph, &options.target)?;
        let mut callables = locked(&self.callables);
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
        let callables = locked(&self.callables);
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
        let kept = locked(&self.callables).kept.remove(&handle);
        if let Some((_, bytes)) = kept {
            locked(&self.held).release(bytes);
        }
    }
}
