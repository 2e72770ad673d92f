//! A worker's side of synchronous training: waits for its turn, computes gradients, and sends them to the servers.

use std::time::Duration;

use thalweg_optim::Synchronized;
use thalweg_session::{
    Feed, Feeding, FetchList, Fetched, Fetches, FetchesAs, RunOptions, Trace, Values,
};
use tokio::time::{Instant, sleep};

use crate::error::{Cause, ClusterError};
use crate::session::Session;
use crate::transport::messages::{Turn, TurnGiven};

/// Pause before a lost task is called again.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Time for which an exhausted server (without threads, for example) is retried.
const EXHAUSTED_RETRY_TIME: Duration = Duration::from_secs(10);

/// Returns the time for which an error with this cause is retried. Zero if it does not pass.
pub(super) fn retry_time(cause: Cause, outage: Duration) -> Duration {
    match cause {
        Cause::Exhausted => EXHAUSTED_RETRY_TIME.min(outage),
        cause if cause.is_loss() => outage,
        _ => Duration::ZERO,
    }
}

/// Waits for this worker's turn, then computes its gradients and gives them to the servers. Returns the other fetches
/// in the requested types (see [`FetchesAs`]), and the global step that they began from. `None` if the training is
/// over.
///
/// A lost server is waited for, for [`crate::Timeouts::server_recovery`]: the gradients are then computed again. An
/// update counts them once, however often they were given.
///
/// # Errors
/// As [`Session::run`]; [`Cause::Deadline`] if there is no turn for as long as that.
pub fn give<'f, R>(
    session: &Session<'_>,
    sync: &Synchronized<'_>,
    worker: u32,
    fetches: impl FetchesAs<R> + Sync,
    feeds: impl AsRef<[Feed<'f>]>,
) -> Result<Option<(R, i64)>, ClusterError> {
    let options = RunOptions::default();
    let given = give_with(session, sync, worker, fetches, feeds, &options)?;
    Ok(given.map(|(values, step, _)| (values, step)))
}

/// As [`give`], with options for the step that computes the gradients. Also returns its trace, if it was requested.
///
/// # Errors
/// As [`give`].
pub fn give_with<'f, R>(
    session: &Session<'_>,
    sync: &Synchronized<'_>,
    worker: u32,
    fetches: impl FetchesAs<R> + Sync,
    feeds: impl AsRef<[Feed<'f>]>,
    options: &RunOptions,
) -> Result<Option<(R, i64, Trace)>, ClusterError> {
    let feeds = feeds.as_ref().to_vec();
    let given = give_async(session, sync, worker, &fetches, feeds, options);
    let Some((fetched, step, trace)) = session.block_on(given)? else {
        return Ok(None);
    };
    let list = FetchList::of(&fetches, session.graph())?;
    let mut values = Values::new(&list, fetched.into_values().collect());
    Ok(Some((fetches.take(&mut values)?, step, trace)))
}

/// As [`give_with`], for callers on the threads of the network.
pub(crate) async fn give_async<'f>(
    session: &Session<'_>,
    sync: &Synchronized<'f>,
    worker: u32,
    fetches: &(impl Fetches + Sync),
    mut feeds: Vec<Feed<'f>>,
    options: &RunOptions,
) -> Result<Option<(Fetched, i64, Trace)>, ClusterError> {
    if worker >= sync.workers {
        return Err(ClusterError::invalid(format!(
            "there is no worker {worker}: the training was built for {}",
            sync.workers
        )));
    }
    let own = feeds.len();
    let mut outage = RetryLoop::new(session);
    let asks = TurnClient {
        session,
        sync,
        worker,
    };
    loop {
        let given = async {
            let turn = asks.turn().await?;
            feeds.truncate(own);
            feeds.push(sync.token.feed(turn.token));
            feeds.push(sync.ticket.feed(turn.ticket));
            if let Some(refresh) = sync.refresh {
                let plain = RunOptions::default();
                session.step_async(&refresh, &[], &plain).await?;
            }
            // An operation that is only run has no value.
            let all = (fetches, sync.give);
            let (fetched, trace) = session.step_async(&all, &feeds, options).await?;
            Ok::<_, ClusterError>((fetched, trace, turn))
        };
        let (fetched, trace, turn) = match given.await {
            Ok(given) => given,
            Err(e) if e.cause == Cause::OutOfRange && e.node.is_none() => return Ok(None),
            Err(e) => {
                outage.wait_or_fail(e).await?;
                continue;
            }
        };
        // The gradients have arrived: only the note is sent again.
        while let Err(e) = asks.note(&turn).await {
            outage.wait_or_fail(e).await?;
        }
        return Ok(Some((fetched, turn.step, trace)));
    }
}

/// A worker's calls to its coordinator.
struct TurnClient<'s, 'g> {
    session: &'s Session<'g>,
    sync: &'s Synchronized<'g>,
    worker: u32,
}

impl TurnClient<'_, '_> {
    async fn ask(&self, turn: Turn) -> Result<TurnGiven, ClusterError> {
        let steps = self.session.steps();
        let turn = Turn {
            name: self.sync.name.clone(),
            worker: self.worker,
            ..turn
        };
        steps.turn(&self.sync.coordinator, turn).await
    }

    /// Waits for the next turn.
    async fn turn(&self) -> Result<TurnGiven, ClusterError> {
        let (began, most) = (Instant::now(), self.session.timeouts().server_recovery);
        loop {
            let given = self.ask(Turn::default()).await?;
            if given.token != 0 {
                return Ok(given);
            }
            if began.elapsed() >= most {
                let text = format!(
                    "worker {} has had no turn for {:.1} s: {}",
                    self.worker,
                    most.as_secs_f64(),
                    given.waits
                );
                return Err(ClusterError::new(Cause::Deadline, text));
            }
        }
    }

    /// Tells the coordinator that the gradients of a turn are given.
    async fn note(&self, turn: &TurnGiven) -> Result<(), ClusterError> {
        let note = Turn {
            token: turn.token,
            ticket: turn.ticket,
            only: true,
            ..Turn::default()
        };
        self.ask(note).await.map(|_| ())
    }
}

/// Retries while servers are lost.
struct RetryLoop<'s, 'g> {
    session: &'s Session<'g>,
    since: Option<Instant>,
}

impl<'s, 'g> RetryLoop<'s, 'g> {
    fn new(session: &'s Session<'g>) -> RetryLoop<'s, 'g> {
        RetryLoop {
            session,
            since: None,
        }
    }

    /// Waits a moment if the error may pass.
    ///
    /// # Errors
    /// The error does not pass, or has lasted too long.
    async fn wait_or_fail(&mut self, error: ClusterError) -> Result<(), ClusterError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let outage = self.session.timeouts().server_recovery;
        let most = match error.cause {
            // A restarted server has no values until the coordinator has restored them.
            Cause::Uninitialized => outage,
            cause => retry_time(cause, outage),
        };
        if self.session.steps().ended() || since.elapsed() >= most {
            return Err(error);
        }
        sleep(RETRY_AFTER).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_pass_are_retried_for_a_bounded_time() {
        let [short, long] = [3, 300].map(Duration::from_secs);
        for (cause, of_short, of_long) in [
            (Cause::Unreachable, short, long),
            (Cause::Silent, short, long),
            (Cause::Restarted, short, long),
            (Cause::ShutDown, short, long),
            (Cause::Exhausted, short, EXHAUSTED_RETRY_TIME),
            (Cause::Kernel, Duration::ZERO, Duration::ZERO),
            (Cause::Deadline, Duration::ZERO, Duration::ZERO),
            (Cause::Uninitialized, Duration::ZERO, Duration::ZERO),
        ] {
            let found = [short, long].map(|outage| retry_time(cause, outage));
            assert_eq!(found, [of_short, of_long], "{cause:?}");
        }
    }
}
