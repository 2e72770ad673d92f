//! Presence and completion of the workers of a server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Server;
use super::options::ServerError;
use crate::cluster::spec::TaskName;
use crate::runtime::blocking;
use crate::transport::frames::Frames;
use crate::transport::messages::Finish;
use crate::transport::messages::header::Kind;
use crate::transport::peers::Peer;
use crate::worker::completion::WaitOutcome;

impl Server {
    /// Returns the numbers of the tasks of `job` with open sessions here. Dead or unreachable tasks are not among
    /// them.
    pub fn present(&self, job: &str) -> BTreeSet<u32> {
        self.worker.present(job)
    }

    /// Returns the numbers of the tasks of `job` that have finished their work.
    pub fn finished(&self, job: &str) -> BTreeSet<u32> {
        self.worker.finished(job)
    }

    /// Notifies the tasks of `job` that this task has finished its work: they may be waiting for it in
    /// [`Server::join_workers`]. A task that is gone is skipped; a task that does not answer is notified again, until
    /// [`Timeouts::worker_rejoin`](crate::Timeouts::worker_rejoin) is over.
    pub fn finish(&self, job: &str) {
        let worker = &self.worker;
        let worker_rejoin = worker.peers.options.timeouts.worker_rejoin;
        let peers: Vec<Arc<Peer>> = (worker.cluster.tasks(job))
            .filter_map(|(index, address)| {
                let peer = worker.peers.get(&(job.to_owned(), index), address);
                peer.ok()
            })
            .collect();
        let task = worker.task.clone();
        let told = async {
            let mut telling = JoinSet::new();
            for peer in peers {
                telling.spawn(notify_finished(peer, task.clone(), worker_rejoin));
            }
            while telling.join_next().await.is_some() {}
            Ok(())
        };
        // A task that is gone need not be notified.
        let _ = blocking::block_on(&*self.worker.platform, told);
    }

    /// Waits until all tasks of `job` have finished their work, or until this server ends.
    ///
    /// A task that had a session here, and has none for [`Timeouts::worker_rejoin`](crate::Timeouts::worker_rejoin),
    /// is given up; if it comes back before, it is waited for again. For a task that never connected, this time
    /// starts when the last of the others has finished or disconnected. If no task has connected yet, all are waited
    /// for.
    ///
    /// # Errors
    /// As [`Server::join`], and [`ServerError::Workers`] once each task has finished or is given up.
    ///
    /// ```
    /// use thalweg_dist::{Server, ServerOptions};
    ///
    /// # fn main() -> Result<(), thalweg_dist::ServerError> {
    /// let tasks = Server::local_cluster(&[("ps", 1), ("worker", 1)], ServerOptions::listening(""))?;
    /// let [ps, worker] = &tasks[..] else { return Ok(()) };
    /// worker.finish("ps");
    /// ps.join_workers("worker")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_workers(&self, job: &str) -> Result<(), ServerError> {
        let expected: Vec<TaskName> = (self.cluster().tasks(job))
            .map(|(index, _)| (job.to_owned(), index))
            .collect();
        let worker_rejoin = self.worker.peers.options.timeouts.worker_rejoin;
        let mut completion = self.worker.completion.subscribe();
        let mut stopped = self.stop.subscribe();
        let over = async {
            loop {
                let now = Instant::now();
                let awaited =
                    (completion.borrow_and_update()).awaited(&expected, worker_rejoin, now);
                let until = match awaited {
                    WaitOutcome::Over(lost) => return Ok(Some(lost)),
                    WaitOutcome::Until(until) => until,
                };
                tokio::select! {
                    _ = completion.changed() => {}
                    () = sleep_until(until.unwrap_or(now)), if until.is_some() => {}
                    _ = stopped.wait_for(|s| *s) => return Ok(None),
                }
            }
        };
        match blocking::block_on(&*self.worker.platform, over) {
            Ok(Some(lost)) if lost.is_empty() => Ok(()),
            Ok(Some(lost)) => Err(ServerError::Workers {
                lost,
                worker_rejoin,
            }),
            _ => self.join(),
        }
    }
}

/// Pause before a task that does not answer is notified again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Tells a task that another one has finished its work.
async fn notify_finished(peer: Arc<Peer>, (job, index): TaskName, worker_rejoin: Duration) {
    let heartbeat = peer.timeouts().heartbeat;
    let (began, mut refused) = (Instant::now(), 0);
    // The first connection may lead to a previous process.
    while began.elapsed() < worker_rejoin && refused < 2 {
        let finish = Frames::of(Kind::Finish(Finish {
            job: job.clone(),
            index,
        }));
        let asked = Instant::now();
        if let Ok(Ok(_)) = timeout(heartbeat, peer.ask("Finish", finish)).await {
            return;
        }
        // A slow error means a stopped process, which may continue.
        match asked.elapsed() < heartbeat / 4 {
            true => refused += 1,
            false => refused = 0,
        }
        sleep(RETRY_AFTER).await;
    }
}
