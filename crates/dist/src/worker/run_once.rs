//! Parts that run exactly once and to their end, even if the caller disappears.
//!
//! A caller that has lost the response asks again with the same stamp: the part does not run again. A task refuses
//! parts with a smaller stamp than one that it has run.

use std::sync::Arc;

use thalweg_device::{KernelError, Ticket};
use thalweg_session::{Cancel, RunOptions, TaskChannels};
use thalweg_tensor::Tensor;
use tokio::sync::watch;

use super::registered_part::RegisteredPart;
use super::stamps::StampedResult;
use super::state::{Worker, WorkerSession};
use crate::error::{Cause, ClusterError};
use crate::transport::messages as wire;

/// Maximum number of names of stamps.
const MAX_NAMES: usize = 1024;

/// Channels of a part that has none.
struct NoChannels;

impl TaskChannels for NoChannels {
    fn send(&self, _: i64, _: Tensor) -> Result<(), KernelError> {
        Err(KernelError::Argument("a channel"))
    }

    fn receive(&self, _: i64, _: &Ticket) -> Result<Option<Tensor>, KernelError> {
        Err(KernelError::Argument("a channel"))
    }
}

/// Inputs of a part: its feeds, and its slot among the steps of the task.
type RunInputs = (Vec<Tensor>, Arc<()>);

/// State of a stamp: it has run, or a run is pending.
enum Next {
    Done,
    Pending(u64, watch::Receiver<Option<StampedResult>>),
}

impl Worker {
    /// Runs a part, unless it has run for this stamp. A drop does not end it.
    ///
    /// # Errors
    /// The part fails; a part with a greater stamp has run; the part waits or exchanges values with other tasks.
    pub(super) async fn run_once(
        self: &Arc<Self>,
        session: &Arc<WorkerSession>,
        part: &Arc<RegisteredPart>,
        begins: RunInputs,
        of: &wire::Once,
    ) -> Result<(), ClusterError> {
        if !part.is_alone() {
            let text = "what is to happen on all servers or on none needs a value of another server, or waits: \
                        place variables that are updated together on one server";
            return Err(ClusterError::invalid(text));
        }
        let mut begins = Some(begins);
        loop {
            let (stamp, mut ended) = match self.next(session, part, &mut begins, of)? {
                Next::Done => return Ok(()),
                Next::Pending(stamp, ended) => (stamp, ended),
            };
            let ended = match ended.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone(),
                Err(_) => {
                    return Err(ClusterError::new(
                        Cause::ShutDown,
                        "the task is shutting down",
                    ));
                }
            };
            if stamp == of.stamp {
                return ended.unwrap_or(Ok(()));
            }
        }
    }

    /// Starts the part, unless it has run or another one is running.
    fn next(
        self: &Arc<Self>,
        session: &Arc<WorkerSession>,
        part: &Arc<RegisteredPart>,
        begins: &mut Option<RunInputs>,
        of: &wire::Once,
    ) -> Result<Next, ClusterError> {
        let mut all = self.once.stamps();
        if all.len() >= MAX_NAMES && !all.contains_key(&of.name) {
            let text = format!("a task takes part in {MAX_NAMES} synchronous trainings at most");
            return Err(ClusterError::new(Cause::Exhausted, text));
        }
        let stamps = all.entry(of.name.clone()).or_default();
        if of.stamp < stamps.last {
            let text = "a later update has run already: another process coordinates this training";
            return Err(ClusterError::new(Cause::Refused, text));
        }
        if of.stamp == stamps.last {
            return Ok(Next::Done);
        }
        if let Some((stamp, ended)) = &stamps.running {
            return Ok(Next::Pending(*stamp, ended.clone()));
        }
        let (tell, told) = watch::channel(None);
        stamps.running = Some((of.stamp, told.clone()));
        drop(all);
        let (worker, of) = (self.clone(), of.clone());
        let (feeds, room) = begins.take().unwrap_or_default();
        let (runner, part) = (session.runner.clone(), part.clone());
        let stamp = of.stamp;
        self.platform.runtime().spawn(async move {
            let run =
                move |_| runner.run_part(&part.plan, &feeds, &NoChannels, &RunOptions::default());
            let never = Cancel::new();
            let ran = worker.platform.run_step(false, &never, run).await;
            let ended = ran.and_then(|done| done.map(|_| ()).map_err(ClusterError::from));
            drop(room);
            worker.once.ended(&of, &ended);
            tell.send_replace(Some(ended));
        });
        Ok(Next::Pending(stamp, told))
    }
}

#[cfg(test)]
mod tests {
    use thalweg_graph::{DeviceSpec, Graph, Operation};
    use thalweg_ops::{NewGraph, StateOps};

    use super::*;
    use crate::server::Server;
    use crate::server::options::ServerOptions;
    use crate::session::{ClusterOptions, Session};

    #[test]
    fn a_stamped_update_runs_exactly_once_on_each_server() {
        let jobs = [("ps", 2), ("worker", 1)];
        let tasks = Server::local_cluster(&jobs, ServerOptions::listening("")).unwrap();
        let g = Graph::new();
        let counts = [0, 1].map(|task| {
            let on: DeviceSpec = format!("/job:ps/task:{task}").parse().unwrap();
            g.device(on, || g.variable(&format!("count{task}"), 0i64))
        });
        let adds = counts.map(|c| g.colocate_with(c.handle().operation(), || c.assign_add(1i64)));
        let session = || Session::on(&tasks[2], &g, ClusterOptions::default()).unwrap();
        let first = session();
        for count in counts {
            first.run(count.initializer(), []).unwrap();
        }
        let run = |session: &Session<'_>, operations: &[Operation<'_>], stamp| {
            let once = wire::Once {
                name: "training".to_owned(),
                stamp,
            };
            let options = RunOptions::default();
            session.block_on(session.once_async(operations, &[], &options, once))
        };
        let found = || counts.map(|c| first.run::<i64>(c.read(), []).unwrap());
        // As if the response of the second server was lost, the caller asks again; so does another session.
        run(&first, &adds[..1], 5).unwrap();
        run(&first, &adds, 5).unwrap();
        run(&session(), &adds, 5).unwrap();
        assert_eq!(found(), [1, 1]);
        let refused = run(&first, &adds, 4).unwrap_err();
        assert_eq!(refused.cause, Cause::Refused);
        run(&first, &adds, 6).unwrap();
        assert_eq!(found(), [2, 2]);
    }
}
